"""A strict WhatsApp fake with a number."""

from __future__ import annotations

from tests.fakes.whatsapp import FAKE
from tests.harness.fakes import fixtures
from tests.rigs.whatsapp.contract import AnnaOnWhatsApp

peer, rig = fixtures(FAKE, AnnaOnWhatsApp)
