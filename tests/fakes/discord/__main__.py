"""`python -m tests.fakes.discord`: run the Discord fake as a process."""

from __future__ import annotations

from segue.testing import peers
from tests.fakes.discord.server import FAKE

if __name__ == "__main__":
    peers.main(FAKE)
