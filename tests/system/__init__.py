"""The system that the program runs on: files, locks, HTTP, pauses."""
