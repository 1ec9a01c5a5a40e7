"""What the program needs of the system that it runs on, written once: private files, locks, HTTP,
the pauses between attempts, and the accounts that own sockets. Knows nothing about platforms,
models or the store."""
