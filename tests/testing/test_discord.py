"""The Discord fake, as the real discord.py sees it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import discord
import pytest
import websockets
import yarl
from discord import app_commands
from discord.gateway import DiscordWebSocket
from discord.http import Route, handle_message_parameters

from tests.fakes.discord import (
    USUAL,
    Driver,
    Kind,
    Peer,
    Permission,
    Settings,
    Trouble,
    Upload,
    running,
    serving,
)


class Bot(discord.Client):
    """Keeps the events that it gets."""

    def __init__(self, *, content: bool = True, heartbeat_timeout: float = 60.0) -> None:
        intents = discord.Intents.default()
        intents.message_content = content
        super().__init__(
            intents=intents,
            guild_ready_timeout=0.05,
            heartbeat_timeout=heartbeat_timeout,
            max_messages=None,
        )
        self.tree = app_commands.CommandTree(self)
        self.events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Do not wait five seconds before a new session."""

    async def on_message(self, message: discord.Message) -> None:
        if message.author != self.user:
            self.events.put_nowait(("message", message))

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        self.events.put_nowait(("edit", event))

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        self.events.put_nowait(("interaction", interaction))

    async def on_raw_thread_update(self, event: discord.RawThreadUpdateEvent) -> None:
        self.events.put_nowait(("thread", event.data["thread_metadata"]))

    async def on_guild_remove(self, guild: discord.Guild) -> None:
        self.events.put_nowait(("removed", guild))

    async def on_resumed(self) -> None:
        self.events.put_nowait(("resumed", None))

    async def next(self, kind: str) -> Any:
        """The next event of that kind."""
        async with asyncio.timeout(10):
            while True:
                found, event = await self.events.get()
                if found == kind:
                    return event


@dataclass
class Stage:
    peer: Peer
    driver: Driver
    bot: Bot
    anna: int
    chat: int

    @property
    def channel(self) -> discord.TextChannel:
        channel = self.bot.get_channel(self.chat)
        assert isinstance(channel, discord.TextChannel)
        return channel


@contextlib.asynccontextmanager
async def connected(peer: Peer, bot: Bot) -> AsyncGenerator[None]:
    Route.BASE, before = peer.base_url, Route.BASE
    DiscordWebSocket.DEFAULT_GATEWAY, gateway = (
        yarl.URL(peer.socket_url),
        DiscordWebSocket.DEFAULT_GATEWAY,
    )
    running = asyncio.create_task(bot.start(peer.token))
    ready = asyncio.create_task(bot.wait_until_ready())
    try:
        await asyncio.wait((running, ready), return_when=asyncio.FIRST_COMPLETED, timeout=10)
        if running.done():
            running.result()
        yield
    finally:
        ready.cancel()
        await bot.close()
        await asyncio.gather(running, return_exceptions=True)
        Route.BASE = before
        DiscordWebSocket.DEFAULT_GATEWAY = gateway


@contextlib.asynccontextmanager
async def stage(
    kind: Kind = Kind.TEXT, settings: Settings | None = None, heartbeat_timeout: float = 60.0
) -> AsyncGenerator[Stage]:
    async with serving(settings) as peer, peer.driver() as driver:
        anna = await driver.user("Anna")
        chat = await driver.chat(kind, [anna])
        bot = Bot(heartbeat_timeout=heartbeat_timeout)
        async with connected(peer, bot):
            yield Stage(peer, driver, bot, anna, chat)


async def test_discord_py_talks_with_a_user_in_a_thread_from_a_message() -> None:
    async with stage() as at:
        assert (await at.bot.http.get_bot_gateway())[1].startswith(at.peer.socket_url)
        root = await at.channel.send("Moving in", nonce="n1", suppress_embeds=True)
        again = await at.channel.send("Moving in", nonce="n1")
        assert again.id == root.id
        thread = await root.create_thread(name="Moving in")
        assert thread.id == root.id
        await at.driver.fail("create_message", Trouble.FORBIDDEN, chat=at.chat)
        with pytest.raises(discord.Forbidden, match="50001"):
            await thread.send("a fault of the channel is one of its threads")
        with pytest.raises(discord.HTTPException) as caught:
            await root.create_thread(name="Again")
        assert caught.value.code == 160004
        await thread.add_user(discord.Object(at.anna))
        await at.driver.say(at.anna, thread.id, "hello")
        heard = await at.bot.next("message")
        assert (heard.content, heard.channel.id, heard.author.id) == ("hello", thread.id, at.anna)
        file = discord.File(io.BytesIO(b"abc"), "a.txt")
        answer = await heard.channel.send("hi @everyone", file=file)
        await answer.edit(content="hi Anna")
        [fetched] = [it async for it in thread.history(limit=1)]
        assert (fetched.content, await fetched.attachments[0].read()) == ("hi Anna", b"abc")
        shown = await at.driver.look(at.chat)
        assert shown.texts == ["Moving in", "hello", "hi Anna"]
        assert (shown.messages[0].preview, shown.messages[2].preview) == (False, True)
        assert shown.messages[2].earlier == ("hi @everyone",)
        assert not any(message.everyone for message in shown.messages)
        assert [it.title for it in shown.threads] == ["Moving in"]
        assert set(shown.threads[0].members) == {at.bot.application_id, at.anna}
        assert not await at.driver.errors()


async def test_archived_and_locked_threads_answer_as_documented() -> None:
    async with stage() as at:
        thread = await at.channel.create_thread(name="t", type=discord.ChannelType.public_thread)
        message = await thread.send("one")
        await at.driver.set_thread(thread.id, archived=True)
        assert (await at.bot.next("thread"))["archived"]
        with pytest.raises(discord.HTTPException, match="50083"):
            await message.edit(content="two")
        await thread.send("three")
        assert not (await at.bot.next("thread"))["archived"]
        await at.driver.set_thread(thread.id, archived=True, locked=True)
        with pytest.raises(discord.Forbidden, match="160005"):
            await thread.send("four")
        await at.driver.delete_channel(thread.id)
        with pytest.raises(discord.NotFound, match="10003"):
            await thread.send("five")


async def test_forums_and_direct_messages_have_their_own_ways() -> None:
    async with stage(Kind.FORUM) as at:
        forum = at.bot.get_channel(at.chat)
        assert isinstance(forum, discord.ForumChannel)
        post = await forum.create_thread(name="Post", content="first")
        assert post.thread.id == post.message.id
        await at.driver.say(at.anna, post.thread.id, "in the post")
        assert (await at.bot.next("message")).channel.id == post.thread.id
        with pytest.raises(discord.HTTPException, match="50008"):
            await at.bot.http.send_message(at.chat, params=handle_message_parameters("x"))
        direct = await at.bot.create_dm(discord.Object(at.anna))
        sent = await direct.send("psst")
        await at.driver.say(at.anna, sent.channel.id, "yes?")
        assert (await at.bot.next("message")).content == "yes?"
        with pytest.raises(discord.HTTPException, match="50024"):
            await at.bot.http.start_thread_with_message(
                sent.channel.id, sent.id, name="x", auto_archive_duration=60
            )
        await at.driver.dm(at.anna, closed=True)
        with pytest.raises(discord.Forbidden, match="50007"):
            await direct.send("more")
        assert not await at.driver.errors()


async def test_buttons_and_slash_commands_are_acknowledged_once_and_in_time() -> None:
    async with stage() as at:
        view = discord.ui.View()
        view.add_item(discord.ui.Button(label="Yes", custom_id="yes:1"))
        asked = await at.channel.send("Sure?", view=view)
        await at.driver.press(at.anna, at.chat, asked.id, "Yes")
        pressed: discord.Interaction = await at.bot.next("interaction")
        assert (pressed.data or {}).get("custom_id") == "yes:1"
        assert pressed.user.id == at.anna
        await pressed.response.defer()
        await asked.edit(content="Yes.", view=None)
        with pytest.raises(discord.HTTPException, match="40060"):
            await discord.InteractionResponse(pressed).defer()
        await at.driver.bot(Settings(interaction_seconds=0.0))
        await at.driver.press(at.anna, at.chat, asked.id, "Yes", "yes:1")
        late: discord.Interaction = await at.bot.next("interaction")
        with pytest.raises(discord.NotFound, match="10062"):
            await late.response.defer()
        await at.driver.bot(Settings())

        @at.bot.tree.command(name="status", description="Show the status")
        async def _(interaction: discord.Interaction, what: str) -> None:
            await interaction.response.send_message(f"{what}: fine", ephemeral=True)

        guild = at.channel.guild
        at.bot.tree.copy_global_to(guild=guild)
        await at.bot.tree.sync(guild=guild)
        await at.driver.slash(at.anna, at.chat, "/status disk")
        shown = await at.driver.until(lambda shown: "disk: fine" in shown.texts, chat=at.chat)
        assert shown.texts == ["Yes.", "disk: fine"]
        assert shown.messages[1].only_for == at.anna
        assert len(shown.answered) == 2
        assert (shown.commands, shown.errors) == ({"status": "Show the status"}, ())


async def test_a_cut_connection_is_resumed_and_nothing_is_lost() -> None:
    async with stage() as at:
        for number, cut in enumerate((None, 4000, 7, 9)):
            if cut in (None, 4000):
                await at.driver.cut(cut)
            else:
                await at.driver.signal(cut, resumable=True)
            await at.driver.say(at.anna, at.chat, f"message {number}")
            assert (await at.bot.next("message")).content == f"message {number}"
            await at.driver.until(lambda shown: (shown.connected, shown.sessions) == (1, 1))
        await at.driver.down()
        await at.driver.say(at.anna, at.chat, "in the dark")
        assert (await at.driver.look()).unconfirmed == 1
        await at.driver.up()
        assert (await at.bot.next("message")).content == "in the dark"
        texts = [it.content async for it in at.channel.history(after=discord.Object(0), limit=2)]
        assert texts == ["message 0", "message 1"]
        await at.driver.cut(forget=True)
        await at.driver.until(lambda shown: shown.connected == 1)
        assert not await at.driver.errors()


async def test_what_a_dead_bot_missed_is_unconfirmed_until_it_reads_the_channel() -> None:
    async with serving() as peer, peer.driver() as driver:
        anna = await driver.user("Anna")
        chat = await driver.chat(Kind.TEXT, [anna])
        identify = {"op": 2, "d": {"token": peer.token, "intents": 1 << 0 | 1 << 9}}
        async with websockets.connect(f"{peer.socket_url}/?v=10&encoding=json") as socket:
            await socket.send(json.dumps(identify))
            await driver.until(lambda shown: shown.connected == 1)
            socket.transport.abort()
        await driver.until(lambda shown: shown.connected == 0)
        await driver.say(anna, chat, "hello?")
        bot = Bot()
        async with connected(peer, bot):
            assert (await driver.look()).unconfirmed == 1
            channel = bot.get_channel(chat)
            assert isinstance(channel, discord.TextChannel)
            assert [it.content async for it in channel.history()] == ["hello?"]
            assert (await driver.look()).unconfirmed == 0


async def test_a_silent_gateway_is_left_and_an_unwelcome_bot_is_closed_out() -> None:
    async with stage(settings=Settings(heartbeats=(0.3, 60.0)), heartbeat_timeout=0.4) as at:
        await at.driver.silence()
        await at.bot.next("resumed")
        await at.driver.silence(on=False)
    for settings, error in (
        (Settings(content=False), discord.PrivilegedIntentsRequired),
        (Settings(revoked=True), discord.LoginFailure),
    ):
        async with serving(settings) as peer:
            with pytest.raises(error):
                async with connected(peer, Bot()):
                    pass


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("nonsense", 4002),
        ('{"op": 77}', 4001),
        ('{"op": 3, "d": {}}', 4003),
        ('{"op": 2, "d": {"token": "TOKEN", "intents": 524288}}', 4013),
        ('{"op": 2, "d": {"token": "another", "intents": 1}}', 4004),
        (None, 4000),
    ],
)
async def test_a_client_that_breaks_the_protocol_is_closed_out(said: str | None, code: int) -> None:
    settings = Settings(heartbeats=(60.0, 0.2 if said is None else 60.0))
    async with serving(settings) as peer, peer.driver() as driver:
        async with websockets.connect(f"{peer.socket_url}/?v=10&encoding=json") as socket:
            assert json.loads(await socket.recv())["op"] == 10
            if said is not None:
                await socket.send(said.replace("TOKEN", peer.token))
            with pytest.raises(websockets.ConnectionClosed):
                await socket.recv()
            assert socket.close_code == code
        assert len(await driver.errors()) == (code != 4004)


async def test_requests_that_are_not_documented_are_refused_and_recorded() -> None:
    async with stage() as at:
        route = Route("POST", "/channels/{channel_id}/messages", channel_id=at.chat)
        thread = Route("POST", "/channels/{channel_id}/threads", channel_id=at.chat)
        for number, (where, body) in enumerate(
            (
                (route, {"content": 7}),
                (route, {"content": "x", "text": "x"}),
                (route, {"content": "x", "nonce": "x" * 26}),
                (route, {"content": "x", "message_reference": {}}),
                (thread, {"name": "nobody sees a thread without a type"}),
                (thread, {"name": "x", "auto_archive_duration": 61}),
            ),
            1,
        ):
            with pytest.raises(discord.HTTPException, match="50035"):
                await at.bot.http.request(where, json=body)
            assert len(await at.driver.errors()) == number
        with pytest.raises(discord.NotFound):
            await at.bot.http.request(Route("GET", "/voice/regions"))
        assert len(await at.driver.errors()) == 7


async def test_without_the_intent_only_messages_for_the_bot_have_content() -> None:
    async with serving(Settings(content=False)) as peer, peer.driver() as driver:
        anna = await driver.user("Anna")
        chat = await driver.chat(Kind.TEXT, [anna])
        dm = await driver.dm(anna)
        bot = Bot(content=False)
        async with connected(peer, bot):
            for where, text in (
                (chat, "hidden"),
                (chat, f"<@{bot.application_id}> seen"),
                (dm, "dm"),
            ):
                await driver.say(anna, where, text)
            heard = [(await bot.next("message")).content for _ in range(3)]
        assert heard == ["", f"<@{bot.application_id}> seen", "dm"]


async def test_limits_faults_and_missing_permissions_are_told_as_discord_does() -> None:
    async with stage(settings=Settings(chat_seconds=0.05)) as at:
        await at.driver.fail("create_message", Trouble.BUSY, seconds=0.1)
        for number in range(7):
            await at.channel.send(str(number))
        calls = await at.driver.calls("create_message")
        assert [it.status for it in calls] == [429] + [200] * 7
        assert calls[-1].at - calls[0].at > 0.2
        for text, code in (("x" * 2001, 50035), ("", 50006)):
            with pytest.raises(discord.HTTPException) as caught:
                await at.channel.send(text)
            assert caught.value.code == code
        await at.driver.permit(at.chat, USUAL & ~Permission.CREATE_PUBLIC_THREADS)
        with pytest.raises(discord.Forbidden, match="50013"):
            await at.channel.create_thread(name="x", type=discord.ChannelType.public_thread)
        assert not await at.driver.errors()
        guild = at.channel.guild.id
        channel = at.channel
        await at.driver.kick(guild)
        assert (await at.bot.next("removed")).id == guild
        with pytest.raises(discord.Forbidden, match="50001"):
            await channel.send("anyone?")


def test_the_fake_runs_as_a_process() -> None:
    async def talk(peer: Peer) -> None:
        async with peer.driver() as driver:
            anna = await driver.user("Anna")
            chat = await driver.chat(Kind.ANNOUNCEMENT, [anna])
            bot = Bot()
            async with connected(peer, bot):
                files = [Upload(name="a.txt", media_type="text/plain", content=b"abc")]
                said = await driver.say(anna, chat, "look", files=files)
                heard: discord.Message = await bot.next("message")
                assert (heard.id, await heard.attachments[0].read()) == (said, b"abc")
                await driver.unfurl(chat, said)
                assert (await bot.next("edit")).data["content"] == "look"
                thread = await heard.create_thread(name="News")
                assert thread.type is discord.ChannelType.news_thread

    with running() as peer:
        asyncio.run(talk(peer))
