"""What the program needs of the system that it runs on, written once: private files, locks, HTTP
and the pauses between attempts. Knows nothing about platforms, models or the store."""
