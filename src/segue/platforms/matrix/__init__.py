"""Matrix through the client-server API: threads in rooms and direct messages, encrypted or not.

`spec` describes it. `client` makes the calls, `rooms` keeps what is known about rooms, and `keys`
encrypts and decrypts with matrix-nio. `wire` and `parser` turn events into Inbounds, `state` keeps
the sync token. `account` checks the setup, `login` signs in, and `verification` compares emoji.
"""
