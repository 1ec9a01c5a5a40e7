"""The account of the bot: its token, its name, its menu, and its setup."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import traceback

import pytest

from segue.core.address import Address, ChatType, Platform, audience_growth
from segue.core.errors import ConnectFailed, DeliveryFailed, LibraryMissing
from segue.platforms import registry
from segue.platforms.base import MenuEntry
from segue.platforms.spec import PlatformSettings
from segue.platforms.telegram.adapter import TelegramAdapter
from segue.testing.contract.rig import home_of, part, reading
from tests.fakes.telegram import TOKEN, Kind, Peer, Settings, Status, Trouble
from tests.rigs.telegram.contract import UNKNOWN_TOKEN, AnnaOnTelegram, Shape, home_at

HOME = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="1")

# The token


@pytest.mark.parametrize("token", [UNKNOWN_TOKEN, "7:short", "two words", "a/../b?c#d", "ü", ""])
async def test_an_invalid_token_is_reported_and_not_shown(
    peer: Peer, rig: AnnaOnTelegram, token: str
):
    adapter = TelegramAdapter(token, peer.url)
    reason = "token is not right" if token else "no token"
    with pytest.raises(ConnectFailed, match=f"{reason}.* `segue setup telegram`") as caught:
        await adapter.connect()
    assert not token or token not in str(caught.value)
    with pytest.raises(ConnectFailed, match=reason):
        await adapter.send(HOME, part("hello"), key="1")
    [finding] = await adapter.examine(None)
    assert (finding.ok, finding.vital) == (False, True)
    assert "@BotFather" in finding.fix
    assert "segue setup telegram" in finding.fix


@pytest.mark.parametrize(
    "trouble", [None, Trouble.BROKEN, Trouble.GARBLED, Trouble.DROP_AFTER, Trouble.FORBIDDEN]
)
async def test_the_token_is_in_no_log_and_no_error(
    rig: AnnaOnTelegram, caplog: pytest.LogCaptureFixture, trouble: Trouble | None
):
    with caplog.at_level(logging.DEBUG):
        for name in ("httpx", "httpcore", "telegram", "segue"):
            caplog.set_level(logging.DEBUG, name)
        adapter = rig.another()
        await adapter.connect()
        output = [repr(adapter), str(adapter), repr(vars(adapter)["connection"])]
        async with reading(adapter) as reader:
            home = await home_of(rig, reader, await rig.place(Shape.DM))
            if trouble is not None:
                for method in ("sendMessage", "getMe", "getUpdates"):
                    await rig.driver.fail(method, trouble)
            for doing in (adapter.send(home, part("Hello."), key="1"), adapter.connect()):
                try:
                    await doing
                except (DeliveryFailed, ConnectFailed) as error:
                    output += [repr(error), *traceback.format_exception(error)]
        await adapter.close()
        with pytest.raises(ConnectFailed) as caught:
            await TelegramAdapter(TOKEN, "http://127.0.0.1:1").connect()
        output += traceback.format_exception(caught.value)
    assert "getWebhookInfo" in caplog.text
    secret = TOKEN.partition(":")[2]
    assert secret not in "".join(output)
    assert secret not in caplog.text


async def test_an_account_has_the_id_and_the_link_of_the_bot(rig: AnnaOnTelegram):
    assert rig.adapter.account == TOKEN.partition(":")[0]
    assert rig.adapter.pairing_link("ABCD") == "https://t.me/segue_test_bot?start=ABCD"
    unconnected = rig.another()
    assert (unconnected.account, unconnected.pairing_link("ABCD")) == ("", None)


async def test_a_menu_has_only_commands_that_telegram_accepts(rig: AnnaOnTelegram):
    names = ("Status", "two-words", "x" * 33, "resume")
    await rig.adapter.offer([MenuEntry(name, "long " * 100) for name in names])
    shown = (await rig.driver.look()).menu
    assert [(it.command, len(it.description)) for it in shown] == [("status", 255), ("resume", 255)]


# Setup


DEAF = Settings(reads_all=False)
PLAIN = Settings(topics=False)
HOOKED = Settings(webhook="https://example.com/hook")
MANAGER = (Status.ADMINISTRATOR, True)


@pytest.mark.parametrize(
    ("shape", "settings", "rights", "missing"),
    [
        (None, Settings(), None, []),
        (Shape.TOPICS, Settings(), None, []),
        (Shape.FORUM, Settings(), None, []),
        (None, PLAIN, None, ["Threaded Mode"]),
        (Shape.DM, PLAIN, None, ["Threaded Mode"]),
        (Shape.FORUM, PLAIN, None, []),
        (Shape.SUPERGROUP, Settings(), MANAGER, ["no topics.* settings of the group"]),
        (Shape.REFUSED, Settings(), None, ["may not manage topics.* administrator"]),
        (Shape.REFUSED, Settings(), (Status.ADMINISTRATOR, False), ["may not manage topics"]),
        (Shape.REFUSED, DEAF, None, ["may not manage topics", "/setprivacy"]),
        (Shape.REFUSED, DEAF, MANAGER, []),
        (None, DEAF, None, []),
        (None, HOOKED, None, ["webhook.* `segue gateway start`"]),
        (Shape.FORUM, Settings(), (Status.KICKED, False), ["cannot be reached.* /sethome"]),
    ],
)
async def test_exactly_the_missing_rights_are_named(
    rig: AnnaOnTelegram,
    shape: Shape | None,
    settings: Settings,
    rights: tuple[Status, bool] | None,
    missing: list[str],
):
    at = None if shape is None else await home_at(rig, shape)
    await rig.driver.bot(settings)
    if at is not None and rights is not None:
        status, manage = rights
        chat = int(at.chat_id)
        await rig.driver.rights(int(rig.anna), chat, status, manage_topics=manage)
    findings = await rig.another().examine(at)
    assert "@segue_test_bot" in findings[0].text
    assert await rig.driver.calls("getUpdates") == []
    bad = [f"{it.text} {it.fix}" for it in findings if not it.ok]
    assert len(bad) == len(missing), bad
    assert all(map(re.search, missing, bad)), bad


# Chats


@pytest.mark.parametrize("shape", Shape)
async def test_a_chat_is_found_by_its_id(rig: AnnaOnTelegram, shape: Shape):
    at = await home_at(rig, shape)
    found = await rig.adapter.find_chat(f" {at.chat_id}\n")
    assert found is not None
    name = rig.name if shape in (Shape.DM, Shape.TOPICS) else "Team"
    assert (found.address, found.name) == (at, name)


async def test_a_chat_without_the_bot_is_not_found(rig: AnnaOnTelegram):
    at = await home_at(rig, Shape.FORUM)
    await rig.driver.rights(int(rig.anna), int(at.chat_id), Status.LEFT)
    channel = await rig.driver.chat(Kind.CHANNEL, [int(rig.anna)], admin=True)
    for chat in (at.chat_id, str(channel), "-1009999999999", "4711", "", "nowhere"):
        assert await rig.adapter.find_chat(chat) is None
    await rig.driver.fail("getChat", Trouble.DROP_BEFORE)
    with pytest.raises(ConnectFailed):
        await rig.adapter.find_chat("4711")


async def test_only_users_who_wrote_to_the_bot_are_known_to_exist(rig: AnnaOnTelegram):
    await home_at(rig, Shape.DM)
    adapter = rig.another()
    assert await adapter.find_user(rig.anna) is True
    assert await adapter.find_user("4711") is None


# The library


def test_without_the_library_its_package_is_named(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.startswith("segue.platforms.telegram.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "telegram", None)
    settings = PlatformSettings(platform=Platform.TELEGRAM, values={"token": TOKEN})
    with pytest.raises(LibraryMissing, match="`make extra NAME=telegram`"):
        registry.make(Platform.TELEGRAM, settings)


def test_the_library_is_not_loaded_before_an_adapter_is_made():
    code = (
        "import sys, segue.platforms.registry, segue.platforms.telegram\n"
        "import segue.gateway.connections\n"
        "assert not {'telegram', 'httpx', 'segue.platforms.telegram.adapter'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# The readers of a group


async def test_a_group_with_a_public_name_is_public(rig: AnnaOnTelegram):
    home = await home_at(rig, Shape.SUPERGROUP)
    before = await rig.adapter.audience(home, [rig.anna])
    await rig.driver.publish(int(home.chat_id), "our_team")
    now = await rig.adapter.audience(home, [rig.anna])
    assert before is not None
    assert now is not None
    assert audience_growth(before, now) == "it is public now"


async def test_where_members_are_hidden_the_owner_counts_as_one(rig: AnnaOnTelegram):
    home = await home_at(rig, Shape.SUPERGROUP)
    await rig.driver.populate(int(home.chat_id), [await rig.driver.user("Bob")])
    await rig.driver.hide_members(int(home.chat_id))
    found = await rig.adapter.audience(home, [rig.anna])
    assert found is not None
    assert found.has_owner
