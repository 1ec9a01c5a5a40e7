"""The built-in web page: a platform that needs no account, because the gateway serves it itself.

`server` is the gateway's one HTTP server, for the page and for webhooks: the application that
uvicorn calls, and where it listens. `protocols` are uvicorn's, with limits for strangers; `http` is
what responses have in common, and who makes way. `endpoints` are the addresses, the port and the
links that lead there. `hooks` passes webhooks on. `page` serves the `static_files` and opens the
WebSocket (`live`), behind `guard`. `open_page` is one page in one browser: it answers `frames` and
pushes what has changed, as `views` and `render` show it. `adapter` is what the gateway sees: it
sends to the page like to any other platform.
"""
