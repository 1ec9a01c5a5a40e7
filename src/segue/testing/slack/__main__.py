"""`python -m segue.testing.slack`: run the Slack fake as a process."""

from __future__ import annotations

from segue.testing import peers
from segue.testing.slack.process import FAKE

if __name__ == "__main__":
    peers.main(FAKE)
