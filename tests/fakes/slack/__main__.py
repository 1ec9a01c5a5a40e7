"""`python -m tests.fakes.slack`: run the Slack fake as a process."""

from __future__ import annotations

from segue.testing import peers
from tests.fakes.slack.server import FAKE

if __name__ == "__main__":
    peers.main(FAKE)
