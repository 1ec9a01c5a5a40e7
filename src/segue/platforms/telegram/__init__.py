"""Telegram through the Bot API: long polling, topics in groups and in direct messages.

`spec` describes it. `transport` is the only module that speaks HTTP and knows the token. `wire`,
`polling` and `parser` turn updates into Inbounds. `sending`, `files` and `topics` implement the
contract. `errors` maps failures to the contract's errors, and `diagnostics` checks how the bot is
set up.
"""
