"""Signal through a signal-cli daemon: direct messages, groups and Note to Self.

`spec` describes it, `setup` starts the daemon and links it. `client` makes the calls, `events`
listens, `wire` and `parser` turn what comes into Inbounds. `account` checks the setup.
"""
