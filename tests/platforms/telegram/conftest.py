"""A strict Telegram fake with a bot."""

from __future__ import annotations

from tests.fakes.telegram import FAKE
from tests.harness.fakes import fixtures
from tests.rigs.telegram.contract import AnnaOnTelegram

peer, rig = fixtures(FAKE, AnnaOnTelegram)
