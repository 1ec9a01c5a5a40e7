"""Matrix through the client-server API: threads in rooms and direct messages, encrypted or not.

`spec` describes it. `client` makes the calls, `keys` encrypts and decrypts with matrix-nio, and
`device` puts them together with the rooms and events that it knows. `updates` reads syncs and
histories, and `events` makes Inbounds of their events. `account` signs in and checks the setup.
`identity` signs the device, `verification` compares emoji, and `folder` has the device's files.
`adapter` is what the gateway uses.
"""
