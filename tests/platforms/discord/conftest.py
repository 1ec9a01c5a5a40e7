"""A strict Discord fake with a bot."""

from __future__ import annotations

from tests.fakes.discord import FAKE
from tests.harness.fakes import fixtures
from tests.rigs.discord.contract import AnnaOnDiscord

peer, rig = fixtures(FAKE, AnnaOnDiscord)
