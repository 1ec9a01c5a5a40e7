"""A strict Discord fake with a bot."""

from __future__ import annotations

from tests.fakes.discord import FAKE
from tests.harness.fakes import fixtures
from tests.platforms.discord.rig import DiscordRig

peer, rig = fixtures(FAKE, DiscordRig)
