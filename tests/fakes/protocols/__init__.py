"""What fakes of several platforms share, by protocol.

A platform with a REST interface names its calls with `rest`, which also has the server for them.
`rpc` reads calls by the name of a method, `jsonrpc` those of JSON-RPC, and `forms` the parameters
of a request. `templates` has a platform's objects as data, `shapes` what the bot sends, `errors`
what it is told when a call fails. `sockets` pushes updates until the bot acknowledges them;
`sessions` numbers them and keeps them for a bot that comes back, and `gateway` has sessions with
opcodes. `event_streams` pushes updates once, and `hub` posts them to a webhook. `snowflakes` are
ids with a time. `uploads` takes files before their message, `keys` makes calls repeatable.
"""
