"""The bot itself: its token, its name, its menu, and how it is set up."""

from __future__ import annotations

import dataclasses
import logging
import subprocess
import sys
import traceback

import pytest

from segue.core.address import Address, ChatType, Platform
from segue.core.errors import ConnectFailed, DeliveryFailed, LibraryMissing
from segue.core.secret import Secret
from segue.platforms import registry
from segue.platforms.base import MenuEntry
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
    assert "getWebhookInfo" in caplog.text
    secret = TOKEN.partition(":")[2]
    assert secret not in "".join(told)
    assert secret not in caplog.text


# Its name


async def test_a_bot_is_known_by_its_id_and_links_to_itself(rig: TelegramRig):
    assert rig.adapter.account == TOKEN.partition(":")[0]
    assert rig.adapter.pairing_link("ABCD") == "https://t.me/segue_test_bot?start=ABCD"
    unconnected = rig.another()
    assert (unconnected.account, unconnected.pairing_link("ABCD")) == ("", None)


async def test_a_menu_is_set_if_it_differs_and_has_what_telegram_takes(rig: TelegramRig):
    menu = [
        MenuEntry("Status", "See how things are"),
        MenuEntry("two-words", "Telegram takes no hyphen"),
        MenuEntry("x" * 33, "nor this"),
        MenuEntry("resume", "long " * 100),
    ]
    for entries in (menu, menu, menu[:1]):
        await rig.adapter.offer(entries)
    assert len(await rig.hands.calls("setMyCommands")) == 2
    await rig.adapter.offer(menu)
    shown = (await rig.hands.look()).menu
    assert [(it.command, len(it.description)) for it in shown] == [("status", 18), ("resume", 255)]


# How it is set up


async def found(rig: TelegramRig, at: Address | None, *missing: tuple[str, ...]) -> None:
    """Assert that exactly these findings are not ok, by words in them."""
    findings = await rig.another().examine(at)
    assert "@segue_test_bot" in findings[0].text
    assert not [call for call in await rig.hands.calls() if call.method == "getUpdates"]
    bad = [f"{it.text} {it.fix}" for it in findings if not it.ok]
    assert len(bad) == len(missing), bad
    for text, words in zip(bad, missing, strict=True):
        assert all(word in text for word in words), text


@pytest.mark.parametrize("shape", [None, Shape.TOPICS, Shape.FORUM])
async def test_nothing_is_missing(rig: TelegramRig, shape: Shape | None):
    await found(rig, None if shape is None else await home_at(rig, shape))


async def test_direct_messages_without_topics_are_named(rig: TelegramRig):
    at = await home_at(rig, Shape.DM)
    await rig.hands.bot(Settings(topics=False))
    await found(rig, None, ("@BotFather", "Threaded Mode"))
    await found(rig, at, ("Threaded Mode",))
    await found(rig, await home_at(rig, Shape.FORUM))


async def test_a_group_without_topics_is_named(rig: TelegramRig):
    at = await home_at(rig, Shape.SUPERGROUP)
    await rig.hands.rights(int(rig.anna), int(at.chat_id), Status.ADMINISTRATOR, manage_topics=True)
    await found(rig, at, ("no topics", "settings of the group"))


async def test_a_forum_that_the_bot_may_not_manage_is_named(rig: TelegramRig):
    at = await home_at(rig, Shape.REFUSED)
    await found(rig, at, ("may not manage topics", "administrator"))
    await rig.hands.rights(int(rig.anna), int(at.chat_id), Status.ADMINISTRATOR)
    await found(rig, at, ("may not manage topics",))


async def test_privacy_mode_is_named_where_it_matters(rig: TelegramRig):
    at = await home_at(rig, Shape.REFUSED)
    await rig.hands.bot(Settings(reads_all=False))
    await found(rig, at, ("may not manage topics",), ("/setprivacy",))
    await rig.hands.rights(int(rig.anna), int(at.chat_id), Status.ADMINISTRATOR, manage_topics=True)
    await found(rig, at)
    await found(rig, None)


async def test_a_webhook_is_named(rig: TelegramRig):
    await rig.hands.bot(Settings(webhook="https://example.com/hook"))
    await found(rig, None, ("webhook", "segue gateway start"))


async def test_a_home_that_is_out_of_reach_is_named(rig: TelegramRig):
    at = await home_at(rig, Shape.FORUM)
    await rig.hands.rights(int(rig.anna), int(at.chat_id), Status.KICKED)
    await found(rig, at, ("cannot be reached", "/sethome"))
    await found(rig, dataclasses.replace(at, chat_id="-1009999999999"), ("cannot be reached",))


@pytest.mark.parametrize("trouble", [Trouble.BROKEN, Trouble.GARBLED, Trouble.DROP_BEFORE])
async def test_a_telegram_that_does_not_answer_is_named(rig: TelegramRig, trouble: Trouble):
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
