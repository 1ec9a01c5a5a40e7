"""WhatsApp through Meta's Cloud API: direct messages, received by webhook.

`spec` describes it. `client` makes the calls, `webhook` authenticates requests and restores their
order, `wire` and `parser` turn what comes into Inbounds. `account` checks the setup.
"""
