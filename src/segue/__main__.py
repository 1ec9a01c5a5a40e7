"""`python -m segue` is `segue`."""

from segue.cli.main import main

main()
