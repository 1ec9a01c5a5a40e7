"""A strict Telegram fake with a bot."""

from __future__ import annotations

from tests.fakes.telegram import FAKE
from tests.harness.fakes import fixtures
from tests.platforms.telegram.rig import TelegramRig

peer, rig = fixtures(FAKE, TelegramRig)
