"""`python -m segue` is `segue`."""

from segue.terminal.main import main

main()
