"""Slack through its Web API and Socket Mode: threads in channels, group DMs and direct messages.

`spec` describes it, with the app's manifest. `client` makes the calls, `socket` receives, and
`updates` makes Inbounds of what comes. `messages` sees to it that a message is sent once, and that
an answer can grow. `adapter` is what the gateway uses.
"""
