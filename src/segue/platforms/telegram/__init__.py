"""Telegram through the Bot API: long polling, topics in groups and in direct messages.

`spec` describes it. `client` is the bot with its HTTP client and its table of failures. `wire`,
`polling` and `parser` turn updates into Inbounds. `account` checks how the bot is set up.
"""
