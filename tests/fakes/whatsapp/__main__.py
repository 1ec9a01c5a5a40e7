"""`python -m tests.fakes.whatsapp`: run the WhatsApp fake as a process."""

from __future__ import annotations

from segue.testing import peers
from tests.fakes.whatsapp.server import FAKE

if __name__ == "__main__":
    peers.main(FAKE)
