"""WhatsApp passes the contract suite."""

from __future__ import annotations

from tests.harness.fakes import contract
from tests.rigs.whatsapp.contract import AnnaOnWhatsApp

TestWhatsApp = contract(AnnaOnWhatsApp)
