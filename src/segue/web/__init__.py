"""The built-in web page: a platform that needs no account, because the gateway serves it itself.

`server` is the gateway's one HTTP server, for the page and for webhooks; `http` is the protocol
below it, and `endpoints` the addresses, the port and the links that lead there. `page` serves the
files and opens the WebSocket, behind `guard`. `open_page` is one page in one browser: it answers
`frames` and pushes what has changed, as `views` and `render` show it. `adapter` is what the gateway
sees: it sends to the page like to any other platform.
"""
