"""Values and rules. Nothing here reads a file, a clock or a socket: time comes in as an argument.

Read in this order: `address` (where), `transcript` (what was said), `session` (whose and which),
`lease` (who may write), `handoff` (how it moves), `reset` (when a chat starts anew), `context`
(what the agent is told about where it is), `errors` (what a person is told).
"""
