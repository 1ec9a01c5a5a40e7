"""`python -m segue.testing.platform`: the test platform as a process."""

from __future__ import annotations

from segue.testing import peers
from segue.testing.platform.running import FAKE

if __name__ == "__main__":
    peers.main(FAKE)
