"""The terminal: today the command line, and what it can tell about the store."""
