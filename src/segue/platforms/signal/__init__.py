"""Signal through a signal-cli daemon: direct messages, groups and Note to Self.

`spec` describes it, and `setup` starts the daemon and links an account before `segue setup` asks.
`client` makes the calls and reads the events, and `updates` makes Inbounds of them. `adapter` is
what the gateway uses.
"""
