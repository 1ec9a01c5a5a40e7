"""Discord through its bot API: channels with threads, forums and direct messages.

`spec` describes it. `client` makes calls and receives events. `wire` and `parser` turn events into
Inbounds. `account` checks how the bot is set up, and what it may do in a channel.
"""
