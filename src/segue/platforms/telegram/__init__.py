"""Telegram through the Bot API: long polling, topics in groups and in direct messages.

`spec` describes it. `client` makes the calls, and says what their failures mean. `polling` reads
what a poll returns, and `updates` makes Inbounds of it. `adapter` is what the gateway uses.
"""
