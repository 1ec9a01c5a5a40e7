"""What all parts of the contract share."""

from __future__ import annotations

from typing import ClassVar

import pytest

from segue.testing.contract.rig import File, Rig

ODD_TEXTS = (
    "Grüße, 世界! Ελληνικά, עברית, العربية",
    "👩‍👩‍👧‍👦 🇩🇪 👍🏽 e\u0301 \U0001f9d1\u200d\U0001f680",
    "<b>not bold</b> & *not* _this_ either [x](y) `z` \\ \\n {0} %s $HOME",
    "two\nlines\n\nand a\ttab",
    "/not a command",
    "@everyone <!channel> <@U1>",
)
PHOTO = File("photo.png", "image/png", bytes(range(256)) * 40)


class Contract:
    """Tests with a fixture `rig`, which the subclass or its module must have."""

    pytestmark: ClassVar = [pytest.mark.anyio]

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    def shape(self, rig: Rig) -> str:
        """The kind of chat that a test takes place in."""
        return rig.usual
