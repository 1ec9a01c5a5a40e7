"""`python -m segue.testing.whatsapp`: run the WhatsApp fake as a process."""

from __future__ import annotations

from segue.testing import peers
from segue.testing.whatsapp.process import FAKE

if __name__ == "__main__":
    peers.main(FAKE)
