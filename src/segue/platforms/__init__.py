"""Platforms: the adapter contract, what adapters share, and the adapters, one folder each.

`base` is the contract. An adapter derives from `adapter.RemoteAdapter`, which uses `connection`,
`sending`, `diagnostics` and `errors` (the meaning of Refused and Lost, from a table per platform).
`http` is for platforms without a library, `webhook` for those that call us, `content` is for what
comes in, and `markup` renders the agent's Markdown. `registry` finds an adapter; `absent` stands in
for a broken one.
"""
