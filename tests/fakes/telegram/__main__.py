"""`python -m tests.fakes.telegram`: run the Telegram fake as a process."""

from __future__ import annotations

from segue.testing import peers
from tests.fakes.telegram.server import FAKE

if __name__ == "__main__":
    peers.main(FAKE)
