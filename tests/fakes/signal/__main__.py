"""`python -m tests.fakes.signal`: run the Signal fake as a process."""

from __future__ import annotations

from segue.testing import peers
from tests.fakes.signal.server import FAKE

if __name__ == "__main__":
    peers.main(FAKE)
