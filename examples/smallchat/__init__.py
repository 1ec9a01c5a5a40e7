"""An adapter from outside: for SmallChat, a chat service in one file. See docs/adapters.md."""
