"""The bot's identity (cross-signing), and clients as current as Element: they accept only devices
that their account has signed."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any

import pytest

from segue.platforms.base import Finding
from segue.platforms.matrix.adapter import MatrixAdapter
from segue.testing.contract.rig import Ear, listening, part
from segue.testing.synapse import Account
from tests.harness.element import Element, element
from tests.platforms.matrix.rig import MatrixRig
from tests.platforms.matrix.test_account import sign_in

pytestmark = pytest.mark.real


async def a_bot(rig: MatrixRig) -> Account:
    """The account of another bot, which has no identity yet."""
    return await asyncio.to_thread(rig.driver.server.register, f"bot-{secrets.token_hex(4)}")


async def identity(rig: MatrixRig, user_id: str) -> Any:
    """The identity of a user, as everyone sees it."""
    found = await rig.user.call("POST", "/keys/query", {"device_keys": {user_id: []}})
    return found["master_keys"].get(user_id)


async def signature(adapter: MatrixAdapter) -> Finding:
    """The finding about the signature of the bot's device."""
    return (await adapter.examine(None))[2]


async def direct(client: Element, ear: Ear, bot: str) -> str:
    """Start an encrypted direct message with the bot."""
    hearing = asyncio.create_task(ear.next())
    room: str = await client("direct", user=bot)
    await hearing  # it came in
    return room


async def test_a_client_that_accepts_only_signed_devices_talks_with_the_bot(rig: MatrixRig):
    server, bot = rig.driver.server, rig.driver.bot.id
    async with element(server, rig.user.account) as client, listening(rig.adapter) as ear:
        room, hearing = await direct(client, ear, bot), asyncio.create_task(ear.next())
        await client("say", room=room, text="Hello?")
        heard = await hearing
        assert heard.text == "Hello?"
        await rig.adapter.send(heard.address, part("Hello."), key="1")
        await client("see", room=room, text="Hello.")


async def test_all_devices_of_an_account_are_signed_by_one_identity(rig: MatrixRig):
    bot, made = rig.driver.bot, await identity(rig, rig.driver.bot.id)
    who = {"type": "m.id.user", "user": bot.id}
    given = {"type": "m.login.password", "identifier": who, "password": bot.account.password}
    another = (await bot.call("POST", "/login", given))["access_token"]
    for token in ("", another):
        assert (await signature(rig.another(token))).ok
    assert await identity(rig, bot.id) == made


async def test_an_identity_that_another_client_made_is_left_alone(rig: MatrixRig):
    account = await a_bot(rig)
    async with element(rig.driver.server, account):
        made = await identity(rig, account.user_id)
        found = await signature(rig.another(account.token))
        assert not found.ok
        assert f"as {account.user_id}, verify the session {account.device_id}" in found.fix
        assert await identity(rig, account.user_id) == made


async def test_a_server_that_asks_for_the_password_gets_it_when_the_bot_signs_in(
    rig: MatrixRig, tmp_path: Path
):
    account, rig.driver.folder, rig.driver.proxy.asks = await a_bot(rig), tmp_path, True
    found = await signature(rig.another(account.token))
    assert not found.ok
    assert "segue setup matrix --user" in found.fix
    given = {"url": rig.driver.proxy.url, "user": account.user_id, "password": account.password}
    signed_in = await sign_in(rig, tmp_path, **given)
    assert (await signature(rig.another(signed_in["token"]))).ok
