"""Values and rules. Nothing here reads a file, a clock or a socket: time comes in as an argument.

Read in this order: `address` (where), `transcript` (messages), `session` (identity and owner),
`lease` (who may write), `handoff` (how a session moves), `reset` (when a chat starts a new
session), `context` (what the agent knows about where it is), `errors` (messages for the user).
"""
