"""The agent: a transcript goes in, events come out. It keeps no session state.

Read `models/base` (the model protocol), `loop` (one turn), `tools` (the agent's capabilities),
`approvals` (its permissions), `instructions` (the system prompt) and `summaries`.
"""
