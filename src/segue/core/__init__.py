"""Values and rules. Nothing here reads a file, a clock or a socket: time comes in as an argument.

Read in this order: `address` (where), `transcript` (messages), `session` (identity, owner, and who
may write), `approval` (what may be done without asking), `reset` (when a chat starts a new
session), `context` (what the agent knows about where it is), `errors` (messages for the user).
"""
