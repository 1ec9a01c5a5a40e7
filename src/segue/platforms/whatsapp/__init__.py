"""WhatsApp through Meta's Cloud API: direct messages, received by webhook.

`spec` describes it. `client` makes the calls, and `messages` what they send. `wire` and `parser`
turn what comes into Inbounds. `account` checks the setup.
"""
