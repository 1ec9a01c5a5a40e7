"""The bot's identity (cross-signing), and clients as current as Element: they accept only devices
that their account has signed."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from segue.platforms.base import Finding, Inbound
from segue.platforms.matrix import folder
from segue.platforms.matrix.adapter import MatrixAdapter
from segue.testing.contract.rig import Place, UpdateReader, failure, home_of, part, reading
from tests.fakes.synapse import Account
from tests.harness.element import Element, element
from tests.platforms.matrix.test_account import sign_in
from tests.rigs.matrix.contract import AnnaOnMatrix, Shape

pytestmark = pytest.mark.real


@contextlib.asynccontextmanager
async def strict(
    rig: AnnaOnMatrix, token: str = ""
) -> AsyncGenerator[tuple[MatrixAdapter, UpdateReader]]:
    """An adapter that trusts no device until it is verified."""
    await rig.adapter.close()
    adapter = rig.another(token, trust="verified")
    await adapter.connect()
    try:
        async with reading(adapter) as reader:
            yield adapter, reader
    finally:
        await adapter.close()


async def a_bot(rig: AnnaOnMatrix) -> Account:
    """The account of another bot, which has no identity yet."""
    return await asyncio.to_thread(rig.driver.server.register, f"bot-{secrets.token_hex(4)}")


async def identity(rig: AnnaOnMatrix, user_id: str) -> Any:
    """The identity of a user, as everyone sees it."""
    found = await rig.user.call("POST", "/keys/query", {"device_keys": {user_id: []}})
    return found["master_keys"].get(user_id)


async def signature(adapter: MatrixAdapter) -> Finding:
    """The finding about the signature of the bot's device."""
    return (await adapter.examine(None))[2]


def signs(emoji: Iterable[Sequence[str]]) -> list[str]:
    """Emoji without their names, some of which differ, and without what only chooses a font."""
    return [sign.strip("\ufe0f") for sign, _ in emoji]


def compare(rig: AnnaOnMatrix, emoji: Iterable[Sequence[str]]) -> None:
    """Say that the emoji are the same, as `segue verify` does."""
    found = folder.find_pending(rig.driver.folder)
    assert found is not None
    device, shown = found
    assert signs(shown.emoji) == signs(emoji)
    device.save(folder.FILE, replace(shown, confirmed=True))


@contextlib.asynccontextmanager
async def heard(reader: UpdateReader) -> AsyncGenerator[asyncio.Task[Inbound]]:
    """What the bot hears next. It receives meanwhile."""
    receiving = asyncio.create_task(reader.next())
    try:
        yield receiving
    finally:
        receiving.cancel()
        await asyncio.wait([receiving])


async def direct(client: Element, reader: UpdateReader, bot: str) -> str:
    """Start an encrypted direct message with the bot."""
    async with heard(reader) as receiving:
        room: str = await client("direct", user=bot)
        await receiving  # it came in
    return room


async def test_a_client_that_accepts_only_signed_devices_talks_with_the_bot(rig: AnnaOnMatrix):
    server = rig.driver.server
    bot = rig.driver.bot.id
    async with element(server, rig.user.account) as client, reading(rig.adapter) as reader:
        room = await direct(client, reader, bot)
        async with heard(reader) as receiving:
            await client("say", room=room, text="Hello?")
            said = await receiving
        assert said.text == "Hello?"
        await rig.adapter.send(said.address, part("Hello."), key="1")
        await client("see", room=room, text="Hello.")


async def test_all_devices_of_an_account_are_signed_by_one_identity(rig: AnnaOnMatrix):
    bot = rig.driver.bot
    made = await identity(rig, rig.driver.bot.id)
    who = {"type": "m.id.user", "user": bot.id}
    given = {"type": "m.login.password", "identifier": who, "password": bot.account.password}
    another = (await bot.call("POST", "/login", given))["access_token"]
    for token in ("", another):
        assert (await signature(rig.another(token))).ok
    assert await identity(rig, bot.id) == made


async def test_an_identity_that_another_client_made_is_left_alone_and_can_sign_the_bot(
    rig: AnnaOnMatrix,
):
    account = await a_bot(rig)
    async with (
        element(rig.driver.server, account) as client,
        strict(rig, account.token) as (adapter, reader),
    ):
        made = await identity(rig, account.user_id)
        given = {"user": account.user_id, "password": account.password}
        await sign_in(rig, rig.driver.folder, **given)  # it could replace it
        assert await identity(rig, account.user_id) == made
        found = await signature(adapter)
        assert not found.ok
        assert f"as {account.user_id}, verify the session {account.device_id}" in found.fix
        async with heard(reader):
            given = {"user": account.user_id, "device": account.device_id}
            compare(rig, await client("verifyDevice", **given))
            await client("confirm")
            await client("finish")
            await client("signed", device=account.device_id)
        assert (await signature(adapter)).ok
        assert await identity(rig, account.user_id) == made


async def test_a_server_that_asks_for_the_password_gets_it_when_the_bot_signs_in(
    rig: AnnaOnMatrix, tmp_path: Path
):
    account = await a_bot(rig)
    rig.driver.folder = tmp_path
    rig.driver.proxy.asks = True
    found = await signature(rig.another(account.token))
    assert not found.ok
    assert "segue setup matrix --user" in found.fix
    given = {"url": rig.driver.proxy.url, "user": account.user_id, "password": account.password}
    signed_in = await sign_in(rig, tmp_path, **given)
    assert (await signature(rig.another(signed_in["token"]))).ok


async def test_the_owner_verifies_the_bot_in_the_room_once_for_all_devices(rig: AnnaOnMatrix):
    server = rig.driver.server
    bot = rig.driver.bot.id
    anna = rig.user.account
    async with strict(rig) as (adapter, reader), element(server, anna) as client:
        room = await direct(client, reader, bot)
        async with heard(reader) as receiving:
            compare(rig, await client("verify", user=bot, room=room))
            await client("confirm")
            await client("verified", user=bot)
            async with element(server, anna) as phone:
                await phone("say", room=room, text="Hello?")
                home = (await receiving).address
                await adapter.send(home, part("Hello."), key="1")
                for device in (client, phone):
                    await device("see", room=room, text="Hello.")
        async with heard(reader):
            await client("reset", password=anna.password)
            # It is refused, and the bot learns of the new identity before.
            await rig.user.say(room, "In the clear.")
            await rig.driver.until(lambda _: room in adapter.client.warned)
        refused = await failure(adapter.send(home, part("Secret."), key="2"))
        assert "`segue verify`" in refused.reason
        assert "Your identity is not the one" in (await adapter.examine(home))[-1].text


async def test_the_owner_verifies_the_bots_device(rig: AnnaOnMatrix):
    server = rig.driver.server
    bot = rig.driver.bot.account
    async with strict(rig) as (adapter, reader), element(server, rig.user.account) as client:
        room = await direct(client, reader, bot.user_id)
        async with heard(reader) as receiving:
            await client("say", room=room, text="Hello?")
            home = (await receiving).address
        refused = await failure(adapter.send(home, part("Secret."), key="1"))
        assert "`segue verify`" in refused.reason
        assert not refused.retry
        async with heard(reader):
            compare(rig, await client("verifyDevice", user=bot.user_id, device=bot.device_id))
            await client("confirm")
            await client("finish")
        await adapter.send(home, part("Secret."), key="1")
        await client("see", room=room, text="Secret.")
        assert folder.find_pending(rig.driver.folder) is None


@pytest.mark.parametrize("answer", ["deny", "confirm"])
async def test_without_the_word_of_the_owner_on_both_sides_nothing_is_verified(
    rig: AnnaOnMatrix, answer: str
):
    server = rig.driver.server
    bot = rig.driver.bot.id
    async with strict(rig) as (adapter, reader), element(server, rig.user.account) as client:
        room = await direct(client, reader, bot)
        async with heard(reader) as receiving:
            await client("verify", user=bot, room=room)
            await client(answer)
            await client("say", room=room, text="No.")
            await receiving
        assert (folder.find_pending(rig.driver.folder) is None) == (answer == "deny")
        assert not adapter.client.keys.is_verified(rig.anna)


async def test_only_the_owner_can_verify(rig: AnnaOnMatrix):
    eve = rig.driver.users[await rig.driver.user("Eve")]
    at = Place(await rig.driver.chat([rig.anna, eve.id]))
    bot = rig.driver.bot.account
    request = {"from_device": "EVE", "methods": ["m.sas.v1"], "timestamp": 1}
    to_device = {"messages": {bot.user_id: {bot.device_id: {**request, "transaction_id": "1"}}}}
    async with strict(rig) as (_, reader):
        await eve.call("PUT", "/sendToDevice/m.key.verification.request/1", to_device)
        in_room = {**request, "msgtype": "m.key.verification.request", "to": bot.user_id}
        await eve.send(at.chat, {**in_room, "body": "Verify me."})
        await home_of(rig, reader, at)  # the adapter has read what came before
        told = await eve.call("GET", "/sync?timeout=0")
    assert "m.key.verification.ready" not in str(told)


async def test_a_request_may_be_encrypted(rig: AnnaOnMatrix):
    at = await rig.place(Shape.ENCRYPTED_DM)
    bot = rig.driver.bot.id
    request = {"from_device": rig.user.account.device_id, "methods": ["m.sas.v1"], "to": bot}
    request |= {"msgtype": "m.key.verification.request", "body": "Verify me."}
    async with reading(rig.adapter) as reader:
        sent = await rig.user.send(at.chat, request)
        await home_of(rig, reader, at)
    [ready] = [it for it in await rig.user.events(at.chat) if it["type"].endswith(".ready")]
    assert ready["content"]["m.relates_to"] == {"rel_type": "m.reference", "event_id": sent}
