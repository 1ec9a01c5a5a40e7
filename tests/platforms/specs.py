"""Specs of platforms with several values, as the platforms to come have them, and their adapter."""

from __future__ import annotations

from collections.abc import Sequence

from segue.core.address import Address, Platform
from segue.platforms import registry
from segue.platforms.base import Adapter, Finding
from segue.platforms.spec import SERVER, Field, FieldKind, PlatformSettings, PlatformSpec
from tests.harness.quiet_adapter import Quiet

MAKE = "tests.platforms.specs:make"
WRONG = "wrong"

SLACK = PlatformSpec(
    platform=Platform.SLACK,
    title="Slack",
    fields=(Field("bot_token", "Bot token"), Field("app_token", "App token"), SERVER),
    guide="1. Make an app.\n2. Copy both tokens.\n",
    extra="slack",
    libraries=("slack_bolt", "slack_sdk"),
    make=MAKE,
)
MATRIX = PlatformSpec(
    platform=Platform.MATRIX,
    title="Matrix",
    fields=(
        Field("url", "Homeserver URL", FieldKind.URL),
        Field("user_id", "User id of the bot", FieldKind.TEXT),
        Field("access_token", "Access token"),
        Field("device_id", "Device id", FieldKind.TEXT, required=False),
    ),
    extra="matrix",
    make=MAKE,
)
WHATSAPP = PlatformSpec(
    platform=Platform.WHATSAPP,
    title="WhatsApp",
    fields=(
        Field("phone_number_id", "Phone number id", FieldKind.TEXT),
        Field("access_token", "Access token"),
        Field("app_secret", "App secret"),
        Field("verify_token", "Verify token"),
    ),
    extra="whatsapp",
    make=MAKE,
)
OURS = (SLACK, MATRIX, WHATSAPP)
MISSING = PlatformSpec(platform=Platform.SIGNAL, title="signal")
"""One without an adapter."""
SPECS = {**registry.SPECS, **{spec.platform: spec for spec in (*OURS, MISSING)}}
REGISTERED = {"segue.platforms.registry.SPECS": "tests.platforms.specs:SPECS"}
"""For `tests.program.constants`: the specs are registered in a process."""


class Examined(Quiet):
    """An adapter whose platform accepts every value except WRONG."""

    def __init__(self, settings: PlatformSettings) -> None:
        super().__init__(settings.platform)
        self.settings = settings

    async def examine(self, home: Address | None) -> Sequence[Finding]:
        fields = SPECS[self.platform].fields
        if any(self.settings.value(field.name) == WRONG for field in fields):
            return [Finding(False, "The values are wrong.", "Get others.", vital=True)]
        return [Finding(True, "The values are good.")]


def make(settings: PlatformSettings) -> Adapter:
    return Examined(settings)
