"""WhatsApp passes the contract suite."""

from __future__ import annotations

from tests.harness.fakes import contract
from tests.platforms.whatsapp.rig import WhatsAppRig

TestWhatsApp = contract(WhatsAppRig)
