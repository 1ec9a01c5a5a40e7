"""Names of users and chats."""

from __future__ import annotations

import asyncio

import pytest

from segue.core.address import Platform
from segue.platforms import names
from segue.platforms.errors import Failures, Refused


async def test_a_name_is_requested_once():
    known, asked = names.KnownNames(Failures(Platform.SLACK)), list[str]()

    async def ask() -> str:
        asked.append("U1")
        return "Anna"

    for _ in range(2):
        assert await known.get("U1", ask, "") == "Anna"
    assert asked == ["U1"]


async def test_an_update_does_not_wait_for_a_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(names, "SECONDS", 0.01)
    known = names.KnownNames(Failures(Platform.SLACK))

    async def refuse() -> str:
        raise Refused(429, "it is busy")

    async def hang() -> str:
        await asyncio.sleep(30)
        return "Anna"

    for ask in (refuse, hang):
        assert await known.get("U1", ask, "nobody") == "nobody"
