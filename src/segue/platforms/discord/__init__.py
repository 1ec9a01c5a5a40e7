"""Discord through its bot API: channels with threads, forums and direct messages.

`spec` describes it. `client` makes calls and receives events. `updates` makes Inbounds of
events. `account` checks how the bot is set up, and what it may do in a channel. `adapter` is what
the gateway uses.
"""
