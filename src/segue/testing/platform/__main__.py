"""`python -m segue.testing.platform`: run the test platform as a process."""

from __future__ import annotations

from segue.testing import peers
from segue.testing.platform.server import FAKE

if __name__ == "__main__":
    peers.main(FAKE)
