"""`python -m segue.testing.discord`: run the Discord fake as a process."""

from __future__ import annotations

from segue.testing import peers
from segue.testing.discord.process import FAKE

if __name__ == "__main__":
    peers.main(FAKE)
