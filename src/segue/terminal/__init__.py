"""The conversation in the terminal."""
