"""Renders a conversation as lines of text for the terminal, without printing them.

Nothing here depends on a prompt or an event loop. Text from outside is cleaned here, so every
returned line is safe to print. Each line resets its own colours.
"""
