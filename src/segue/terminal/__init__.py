"""The conversation in the terminal.

`program` puts the parts together and handles signals and keys. `conversation` runs messages and
commands, one after another. `open_session` is the session that they are in, and its lease.
`departure` is how it leaves, also in the middle of a turn. `display` decides what is shown, and
writes it to a `console`, or to a `plain_console` where nothing can be drawn. `questions` are asked
and answered there. The lines themselves are made in `render`.

`output` is for the commands of the command line as well, and so is `web_page`, about the built-in
page.
"""
