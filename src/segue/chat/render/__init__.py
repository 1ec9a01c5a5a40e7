"""What a conversation looks like in the terminal: lines of text, made without printing any.

Nothing here knows a prompt or an event loop. What others wrote is cleaned here, so that every line
that these modules give can be printed as it is; each one ends its own colours.
"""
