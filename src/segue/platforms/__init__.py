"""Platforms: the adapter contract, what adapters share, and the adapters, one folder each.

`base` is the contract. An adapter derives from `adapter.RemoteAdapter`, which uses `connection`,
`sending`, `diagnostics` and `errors` (the meaning of Refused and Lost, from a table per platform).
`http` and `websocket` are for platforms without a library; `unrecorded`, `names` and `content` are
for what comes in; `sent` gives keys to a platform that takes none, and `markup` renders the agent's
Markdown. `registry` finds an adapter; `absent` stands in for a broken one.
"""
