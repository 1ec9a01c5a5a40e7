"""`python -m segue.testing.telegram`: run the Telegram fake as a process."""

from __future__ import annotations

from segue.testing import peers
from segue.testing.telegram.process import FAKE

if __name__ == "__main__":
    peers.main(FAKE)
