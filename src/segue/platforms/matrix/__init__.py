"""Matrix through the client-server API: threads in rooms and direct messages, encrypted or not.

`spec` describes it. `client` makes the calls, `keys` encrypts and decrypts with matrix-nio, and
`device` puts them together with the rooms and events that it knows. `updates` reads syncs, and
`wire` and `parser` turn events into Inbounds. `account` signs in and checks the setup. `identity`
signs the device, and `verification` compares emoji, over `state`.
"""
