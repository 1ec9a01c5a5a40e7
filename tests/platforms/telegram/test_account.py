"""The bot itself: its token, its name, its menu, and how it is set up."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import traceback
from collections.abc import Sequence

import pytest

from segue.core.address import Address, ChatType, Platform
from segue.core.errors import ConnectFailed, DeliveryFailed, LibraryMissing
from segue.core.secret import Secret
from segue.platforms import registry
from segue.platforms.base import Adapter, MenuEntry
from segue.platforms.spec import PlatformSettings
from segue.platforms.telegram.adapter import TelegramAdapter
from segue.testing.contract.rig import home_of, listening, part
from segue.testing.telegram import TOKEN, Kind, Peer, Settings, Status, Trouble
from tests.platforms.telegram.rig import UNKNOWN_TOKEN, Shape, TelegramRig, home_at

HOME = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="1")

# The token


@pytest.mark.parametrize("token", [UNKNOWN_TOKEN, "7:short", "two words", "a/../b?c#d", "ünïcödé"])
async def test_a_token_that_is_not_right_is_named_and_not_shown(
    peer: Peer, rig: TelegramRig, token: str
):
    adapter = TelegramAdapter(token, peer.url)
    with pytest.raises(ConnectFailed, match="token is not right") as caught:
        await adapter.connect()
    assert token not in str(caught.value)
    with pytest.raises(ConnectFailed, match="token is not right"):
        await adapter.send(HOME, part("hello"), key="1")
    [finding] = await adapter.examine(None)
    assert (finding.ok, finding.vital) == (False, True)
    assert "@BotFather" in finding.fix


async def test_without_a_token_the_way_to_one_is_named(peer: Peer):
    with pytest.raises(ConnectFailed, match="segue setup telegram"):
        await TelegramAdapter("", peer.url).connect()
    [finding] = await TelegramAdapter("", peer.url).examine(None)
    assert "segue setup telegram" in finding.fix


@pytest.mark.parametrize(
    "trouble", [None, Trouble.BROKEN, Trouble.GARBLED, Trouble.DROP_AFTER, Trouble.FORBIDDEN]
)
async def test_the_token_is_in_no_log_and_no_error(
    rig: TelegramRig, caplog: pytest.LogCaptureFixture, trouble: Trouble | None
):
    with caplog.at_level(logging.DEBUG):
        for name in ("httpx", "httpcore", "telegram", "segue"):
            caplog.set_level(logging.DEBUG, name)
        adapter = rig.another()
        await adapter.connect()
        told = [repr(adapter), str(adapter), repr(vars(adapter)["connection"])]
        async with listening(adapter) as ear:
            home = await home_of(rig, ear, await rig.place(Shape.DM))
            if trouble is not None:
                for method in ("sendMessage", "getMe", "getUpdates"):
                    await rig.hands.fail(method, trouble)
            for doing in (adapter.send(home, part("Hello."), key="1"), adapter.connect()):
                try:
                    await doing
                except (DeliveryFailed, ConnectFailed) as error:
                    told += [repr(error), *traceback.format_exception(error)]
        await adapter.close()
        with pytest.raises(ConnectFailed) as caught:
            await TelegramAdapter(TOKEN, "http://127.0.0.1:1").connect()
        told += traceback.format_exception(caught.value)
    assert caplog.records
    secret = TOKEN.partition(":")[2]
    assert secret not in "".join(told)
    assert secret not in caplog.text


async def test_only_calls_without_a_url_are_logged_by_the_library(
    rig: TelegramRig, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.DEBUG, "telegram"):
        await rig.adapter.examine(None)
    assert "getWebhookInfo" in caplog.text


# Its name


async def test_a_bot_is_known_by_its_id_and_links_to_itself(rig: TelegramRig):
    assert rig.adapter.account == TOKEN.partition(":")[0]
    assert rig.adapter.pairing_link("ABCD") == "https://t.me/segue_test_bot?start=ABCD"
    unconnected = rig.another()
    assert (unconnected.account, unconnected.pairing_link("ABCD")) == ("", None)


async def test_what_is_being_sent_goes_on_while_the_bot_connects_again(rig: TelegramRig):
    async with listening(rig.adapter) as ear:
        home = await home_of(rig, ear, await rig.place(Shape.DM))
    await rig.hands.fail("sendMessage", Trouble.DELAY, seconds=0.3)
    sending = asyncio.ensure_future(rig.adapter.send(home, part("Slowly."), key="1"))
    await rig.hands.until(lambda shown: shown.calls.get("sendMessage", 0) == 1)
    await rig.adapter.connect()
    await sending
    assert await rig.seen("Slowly.")


# Its menu


async def test_commands_are_on_the_menu_as_telegram_takes_them(rig: TelegramRig):
    menu = [
        MenuEntry("Status", "See how things are"),
        MenuEntry("two-words", "Telegram takes no hyphen"),
        MenuEntry("x" * 33, "nor this"),
        MenuEntry("help", ""),
        MenuEntry("resume", "long " * 100),
    ]
    await rig.adapter.offer(menu)
    menu = (await rig.hands.look()).menu
    assert [(it.command, it.description[:10]) for it in menu] == [
        ("status", "See how th"),
        ("help", "help"),
        ("resume", "long long "),
    ]


async def test_a_menu_that_is_there_is_not_set_again(rig: TelegramRig):
    menu = [MenuEntry("status", "See how things are"), MenuEntry("help", "See all")]
    for entries in (menu, menu, menu[:1]):
        await rig.adapter.offer(entries)
    assert len(await rig.hands.calls("setMyCommands")) == 2


async def test_a_menu_that_could_not_be_set_is_a_failed_delivery(rig: TelegramRig):
    await rig.hands.fail("setMyCommands", Trouble.BUSY, seconds=3)
    with pytest.raises(DeliveryFailed) as caught:
        await rig.adapter.offer([MenuEntry("status", "See how things are")])
    assert (caught.value.retry, caught.value.after) == (True, 3)


# How it is set up


async def found(rig: TelegramRig, at: Address | None, adapter: Adapter | None = None) -> list[str]:
    """What is missing, and how to mend it."""
    findings = await (adapter or rig.adapter).examine(at)
    assert "@segue_test_bot" in findings[0].text
    assert not [call for call in await rig.hands.calls() if call.method == "getUpdates"]
    return [f"{it.text} {it.fix}" for it in findings if not it.ok]


def only(missing: Sequence[str], *words: str) -> bool:
    return len(missing) == 1 and all(word in missing[0] for word in words)


async def test_all_is_well(rig: TelegramRig):
    assert await found(rig, None) == []
    assert await found(rig, await home_at(rig, Shape.TOPICS)) == []
    assert await found(rig, await home_at(rig, Shape.FORUM)) == []
    assert await found(rig, None, rig.another()) == []


async def test_direct_messages_without_topics_are_named(rig: TelegramRig):
    at = await home_at(rig, Shape.DM)
    await rig.hands.bot(Settings(topics=False))
    assert only(await found(rig, None), "@BotFather", "Threaded Mode")
    assert only(await found(rig, at), "Threaded Mode")
    assert await found(rig, await home_at(rig, Shape.FORUM)) == []


async def test_a_group_without_topics_is_named(rig: TelegramRig):
    at = await home_at(rig, Shape.SUPERGROUP)
    await rig.hands.rights(int(rig.anna), int(at.chat_id), Status.ADMINISTRATOR, manage_topics=True)
    assert only(await found(rig, at), "no topics", "settings of the group")


async def test_a_forum_that_the_bot_may_not_manage_is_named(rig: TelegramRig):
    at = await home_at(rig, Shape.REFUSED)
    assert only(await found(rig, at), "may not manage topics", "administrator")
    await rig.hands.rights(int(rig.anna), int(at.chat_id), Status.ADMINISTRATOR)
    assert only(await found(rig, at), "may not manage topics")


async def test_privacy_mode_is_named_where_it_matters(rig: TelegramRig):
    at = await home_at(rig, Shape.REFUSED)
    await rig.hands.bot(Settings(reads_all=False))
    assert [it for it in await found(rig, at) if "/setprivacy" in it]
    await rig.hands.rights(int(rig.anna), int(at.chat_id), Status.ADMINISTRATOR, manage_topics=True)
    assert await found(rig, at) == []
    assert await found(rig, None) == []


async def test_a_webhook_is_named(rig: TelegramRig):
    await rig.hands.bot(Settings(webhook="https://example.com/hook"))
    assert only(await found(rig, None), "webhook", "segue gateway start")


async def test_a_home_that_is_out_of_reach_is_named(rig: TelegramRig):
    at = await home_at(rig, Shape.FORUM)
    await rig.hands.rights(int(rig.anna), int(at.chat_id), Status.KICKED)
    assert only(await found(rig, at), "cannot be reached", "/sethome")
    nowhere = Address(platform=at.platform, chat_type=at.chat_type, chat_id="-1009999999999")
    assert only(await found(rig, nowhere), "cannot be reached")


@pytest.mark.parametrize("trouble", [Trouble.BROKEN, Trouble.GARBLED, Trouble.DROP_BEFORE])
async def test_a_telegram_that_does_not_answer_is_named(rig: TelegramRig, trouble: Trouble):
    await rig.hands.fail("getMe", trouble)
    assert [it.ok for it in await rig.adapter.examine(None)] == [False]
    await rig.hands.fail("getWebhookInfo", trouble)
    first, second = await rig.adapter.examine(None)
    assert first.ok
    assert (second.ok, second.vital) == (False, True)
    assert "network" in second.fix


# Its chats


@pytest.mark.parametrize("shape", Shape)
async def test_a_chat_is_found_by_its_id(rig: TelegramRig, shape: Shape):
    at = await home_at(rig, shape)
    found = await rig.adapter.find_chat(f" {at.chat_id}\n")
    assert found is not None
    name = rig.name if shape in (Shape.DM, Shape.TOPICS) else "Team"
    assert (found.address, found.name) == (at, name)


async def test_a_chat_without_the_bot_is_not_found(rig: TelegramRig):
    at = await home_at(rig, Shape.FORUM)
    await rig.hands.rights(int(rig.anna), int(at.chat_id), Status.LEFT)
    channel = await rig.hands.chat(Kind.CHANNEL, [int(rig.anna)], admin=True)
    for chat in (at.chat_id, str(channel), "-1009999999999", "4711", "", "nowhere"):
        assert await rig.adapter.find_chat(chat) is None


async def test_a_chat_cannot_be_found_while_telegram_is_out_of_reach(rig: TelegramRig):
    await rig.hands.fail("getChat", Trouble.DROP_BEFORE)
    with pytest.raises(ConnectFailed):
        await rig.adapter.find_chat("4711")


# Making one


def settings(url: str = "", token: str = TOKEN) -> PlatformSettings:
    return PlatformSettings(
        platform=Platform.TELEGRAM,
        values={"url": url, "token": Secret(token, "platforms.telegram.token")},
    )


async def test_the_built_in_adapter_is_made_by_the_settings(peer: Peer, rig: TelegramRig):
    adapter = registry.make(Platform.TELEGRAM, settings(f"{peer.url}/"))
    await adapter.connect()
    assert adapter.account == TOKEN.partition(":")[0]
    await adapter.close()


def test_without_the_library_its_package_is_named(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.startswith("segue.platforms.telegram.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "telegram", None)
    with pytest.raises(LibraryMissing, match="`make extra NAME=telegram`"):
        registry.make(Platform.TELEGRAM, settings())


def test_the_library_is_not_loaded_before_an_adapter_is_made():
    code = (
        "import sys, segue.platforms.registry, segue.platforms.telegram, segue.gateway.platforms\n"
        "assert not {'telegram', 'httpx', 'segue.platforms.telegram.adapter'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
