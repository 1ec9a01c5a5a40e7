"""Signal through a signal-cli daemon: direct messages, groups and Note to Self."""
