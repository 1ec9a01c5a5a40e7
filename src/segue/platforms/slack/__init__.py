"""Slack through its Web API and Socket Mode: threads in channels, group DMs and direct messages.

`spec` describes it, with the app's manifest. `client` makes the calls, `socket` receives, and
`updates` makes Inbounds of envelopes. `messages` has the markup of messages, sends each only once,
and lets an answer grow. `adapter` is what the gateway uses.
"""
