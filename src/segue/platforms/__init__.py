"""Platforms: the adapter contract, what adapters share, and the adapters, one folder each.

An adapter speaks to one account on one platform. The gateway knows it by the contract in `base`: it
connects, yields an Inbound for each thing that a user does, and sends, edits and shows what the
agent says. A platform is described by its `spec`, from which come its settings and what `segue
setup` asks, and the `registry` makes its adapter when a gateway starts.

An adapter derives from `adapter.RemoteAdapter`, so it writes only the platform's own calls:

1. It connects. `connection` keeps one client at a time, and knows why there is none and how long to
   wait. The client makes its calls with a library or with `http`, and raises Refused or Lost. What
   these mean to the user is a table of the platform, in the form of `errors`.
2. It receives: by polling, over a socket, or by a `webhook`. Each update is parsed at the edge into
   an Inbound, with `content` for what is no text. `updates` sets aside an update that fails, so
   that it does not stop the next one, and `backlog` reads the messages of an absence from a
   history.
3. It sends. `markup` has turned the agent's Markdown into the platform's dialect, in parts that
   fit. `sending` checks the limits of a message, arranges its buttons and follows chats that move.
4. It is checked: `examine` says what is wrong with the setup, and how to fix it.

The folder of an adapter has its `spec`, a `client` (the calls, their answers and what failures
mean), `updates` (what arrives, as the wire has it and as an Inbound), `adapter`, and what only that
platform needs: the polls of Telegram, the socket of Slack, the webhook of WhatsApp, the keys of
Matrix. Only an adapter imports the SDK of its platform, so importing this package loads none.
docs/adapters.md shows how to write one outside of Segue.
"""
