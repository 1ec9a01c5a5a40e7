"""The set-up of a Discord bot, as `segue setup` and `segue doctor` check it."""

from __future__ import annotations

import pytest

from segue.core.address import Address, ChatType, HomeChannel, Platform, audience_growth
from segue.core.errors import ConnectFailed
from segue.platforms import registry
from segue.platforms.base import Finding, Upload
from segue.platforms.discord.account import NEEDED, NO_TOKEN
from segue.platforms.spec import PlatformSettings
from segue.testing.contract.rig import failure, part, reading
from tests.fakes.discord import BOT, USUAL, Flag, Kind, Permission, Settings, Trouble
from tests.rigs.discord.contract import AnnaOnDiscord, Shape, home_at

LINK = f"https://discord.com/oauth2/authorize?client_id={BOT}&scope=bot&permissions=309237746688"


async def found(rig: AnnaOnDiscord, home: Address | None = None) -> list[str]:
    return [it.text for it in await rig.adapter.examine(home)]


async def problem(rig: AnnaOnDiscord, home: Address | None = None) -> Finding:
    [bad] = [it for it in await rig.adapter.examine(home) if not it.ok]
    return bad


async def test_the_invitation_asks_for_exactly_what_the_bot_needs(rig: AnnaOnDiscord):
    *_, servers = await found(rig)
    assert servers.endswith(f"This link adds it to another: {LINK}")
    needed = (Permission.VIEW_CHANNEL, Permission.SEND_MESSAGES, Permission.ATTACH_FILES)
    needed += (Permission.READ_MESSAGE_HISTORY, Permission.CREATE_PUBLIC_THREADS)
    assert sum(NEEDED) == sum((*needed, Permission.SEND_MESSAGES_IN_THREADS))


async def test_a_bot_in_no_server_is_invited(rig: AnnaOnDiscord):
    await rig.driver.kick(rig.guild)
    bad = await problem(rig)
    assert (bad.text, bad.vital) == ("The bot is in no server yet.", False)
    assert bad.fix.endswith(LINK)


async def test_a_good_home_channel_has_nothing_to_fix(rig: AnnaOnDiscord):
    for shape in (Shape.TEXT, Shape.FORUM, Shape.DM):
        home = await home_at(rig, shape)
        assert all(it.ok for it in await rig.adapter.examine(home))
    assert "Each handoff gets a thread there." in await found(rig, await home_at(rig, Shape.FORUM))


async def test_missing_permissions_are_named(rig: AnnaOnDiscord):
    home = await home_at(rig, Shape.TEXT)
    lacking = Permission.CREATE_PUBLIC_THREADS | Permission.ATTACH_FILES
    await rig.driver.permit(int(home.chat_id), USUAL & ~lacking)
    bad = await problem(rig, home)
    assert bad.text == "The bot lacks permissions there: Attach Files, Create Public Threads."
    assert "settings of the channel" in bad.fix
    file = Upload("a.png", "image/png", b"1")
    failed = await failure(rig.adapter.send_file(home, file, part("Look."), key="1"))
    assert not failed.retry
    assert "the bot lacks a permission there; type `segue doctor`" in failed.reason


async def test_a_channel_without_threads_is_named(rig: AnnaOnDiscord):
    bad = await problem(rig, await home_at(rig, Shape.VOICE))
    assert bad.text == "It has no threads, so handoffs share it."


async def test_the_missing_intent_stops_the_set_up(rig: AnnaOnDiscord):
    await rig.driver.bot(Settings(content=False))
    bad = await problem(rig)
    assert bad.vital
    assert "turn Message Content Intent on" in bad.fix


async def test_a_bot_that_was_removed_is_named(rig: AnnaOnDiscord):
    guild = await rig.driver.guild("Club")
    chat = await rig.driver.chat(Kind.TEXT, [int(rig.anna)], guild=guild)
    home = await rig.adapter.find_chat(str(chat))
    assert home is not None
    await rig.driver.kick(guild)
    bad = await problem(rig, home.address)
    assert bad.text == "The bot cannot see the home channel any more."
    failed = await failure(rig.adapter.send(home.address, part("Hello?"), key="1"))
    assert "the bot was removed from that server or channel" in failed.reason


async def test_a_wrong_token_is_the_only_finding(rig: AnnaOnDiscord):
    assert list(await rig.denied().examine(None)) == [NO_TOKEN]


@pytest.mark.parametrize("token", ["", "two words", "ü"])
async def test_what_cannot_be_a_token_is_not_sent(token: str):
    settings = PlatformSettings(platform=Platform.DISCORD, values={"token": token})
    adapter = registry.load(registry.SPECS["discord"], registry.SPECS["discord"].make)(settings)
    with pytest.raises(ConnectFailed, match="token"):
        await adapter.connect()  # pyright: ignore[reportAttributeAccessIssue]


async def test_a_user_is_found_as_their_direct_message(rig: AnnaOnDiscord):
    at = await rig.place(Shape.DM)
    expected = Address(platform=Platform.DISCORD, chat_type=ChatType.DM, chat_id=at.chat)
    home = HomeChannel(address=expected, name="Anna")
    assert await rig.adapter.find_chat(rig.anna) == home
    assert await rig.adapter.find_chat(at.chat) == home
    assert await rig.adapter.find_chat("nowhere") is None


async def test_only_users_of_discord_are_found(rig: AnnaOnDiscord):
    adapter = rig.another()
    assert await adapter.find_user(f" {rig.anna}\n") is True
    assert await adapter.find_user("1200000000000000009") is False
    await rig.driver.fail("get_user", Trouble.DROP_BEFORE)
    with pytest.raises(ConnectFailed):
        await adapter.find_user(rig.anna)


# What a message is


async def test_a_message_and_its_edit_notify_nobody_and_fetch_no_link(rig: AnnaOnDiscord):
    home = await home_at(rig, Shape.TEXT)
    await rig.driver.permit(int(home.chat_id), USUAL | Permission.MENTION_EVERYONE)
    text = f"@everyone <@{rig.anna}> https://example.com"
    receipt = await rig.adapter.send(home, part(text), key="1")
    for shown in (text, f"{text} again"):
        if shown != text:
            await rig.adapter.edit(home, receipt, part(shown))
        message = await rig.driver.message(shown)
        assert (message.mentions, message.everyone, message.preview) == ((), False, False)
        assert message.flags & Flag.SUPPRESS_EMBEDS
        assert message.nonce


async def test_a_group_is_told_how_to_address_the_bot(rig: AnnaOnDiscord):
    at = await rig.place(Shape.TEXT)
    async with reading(rig.adapter) as reader:
        await rig.say(at, "hello all")
        assert not (await reader.next()).addressed
        await rig.say(at, f"<@{BOT}> hello")
        told = await reader.next()
    assert (told.text, told.addressed) == ("hello", True)
    assert "`@segue`" in rig.adapter.how_to_address(told.address)


async def test_the_readers_of_a_private_channel_are_those_to_whom_it_is_open(rig: AnnaOnDiscord):
    view = int(Permission.VIEW_CHANNEL)
    home = await home_at(rig, Shape.TEXT)
    anna = int(rig.anna)
    bob = await rig.driver.user("Bob")
    closed = (rig.guild, 0, view)
    public = await rig.adapter.audience(home, [rig.anna])
    await rig.driver.overwrite(int(home.chat_id), [closed, (anna, view, 0)])
    private = await rig.adapter.audience(home, [rig.anna])
    await rig.driver.overwrite(int(home.chat_id), [closed, (anna, view, 0), (bob, view, 0)])
    shared = await rig.adapter.audience(home, [rig.anna])
    await rig.driver.overwrite(int(home.chat_id), [closed, (bob, view, 0)])
    without = await rig.adapter.audience(home, [rig.anna])
    assert public is not None
    assert private is not None
    assert shared is not None
    assert without is not None
    assert public.is_public
    assert private.has_owner
    assert audience_growth(private, shared) == "1 new reader"
    assert audience_growth(private, public) == "it is public now"
    assert not without.has_owner
