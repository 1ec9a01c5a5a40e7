"""`python -m segue.testing.telegram`: a fake of Telegram as a process."""

from __future__ import annotations

from segue.testing import peers
from segue.testing.telegram.process import FAKE

if __name__ == "__main__":
    peers.main(FAKE)
