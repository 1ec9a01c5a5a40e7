"""Slack through its Web API and Socket Mode: threads in channels, group DMs and direct messages.

`spec` describes it, with the app's manifest. `client` makes the calls, `socket` receives, `wire`
and `parser` turn what comes into Inbounds. `account` checks how the app is set up.
"""
