"""WhatsApp through Meta's Cloud API: direct messages, received by webhook.

`spec` describes it. `client` makes the calls. `webhook` authenticates the requests of Meta and puts
their updates in order, and `updates` makes Inbounds of them. `adapter` is what the gateway uses.
"""
