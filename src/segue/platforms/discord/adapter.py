"""The Discord adapter."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import NoneType
from typing import Any

from discord.utils import snowflake_time, time_snowflake
from msgspec import structs

from segue.core.address import Address, Audience, HomeChannel, Platform, Sender
from segue.core.text import one_line
from segue.platforms import base, http, sending
from segue.platforms.adapter import RemoteAdapter
from segue.platforms.backlog import Backlog, BacklogPage
from segue.platforms.base import Button, Inbound, InboundKind, MenuEntry, Receipt, Upload
from segue.platforms.discord import account, updates
from segue.platforms.discord.client import (
    FAILURES,
    NO_THREADS,
    DiscordClient,
    Event,
    EventQueue,
    channel_of,
)
from segue.platforms.discord.spec import UPLOADS
from segue.platforms.discord.updates import Channel, Interaction, Message, Named, Resource
from segue.platforms.errors import Lost, Refused, converted, tolerating_absence
from segue.platforms.markup.splitter import size
from segue.platforms.spec import PlatformSettings

CAPABILITIES = base.Capabilities(
    threads=True,
    edits=True,
    buttons=True,
    typing=True,
    files=True,
    keys=True,
    key_age=timedelta(minutes=3),  # Discord checks a nonce for "the past few minutes"
    length=2000,
    unit=base.Unit.UTF16,
    dialect=base.Dialect.MARKDOWN,
    per_second=40.0,  # the limit is 50 calls a second of any kind
    edit_seconds=1.2,
    typing_seconds=10.0,
    upload_bytes=UPLOADS.most,
)
_QUIET: Mapping[str, Any] = {"allowed_mentions": {"parse": []}, "flags": 1 << 2}
"""Mentions send no notifications, and links have no preview. An edit needs both again."""
_TEXT = {"type": 3, "name": "text", "description": "What follows the command"}
_PAGE = 100
MENTIONS = 10
"""How many channels are looked up for one message. Other mentions show their ids."""
_NAME = 100
_NAME_SECONDS = 1.0
"""How long a message waits for the name of a channel. It must be recorded soon."""
_REQUIRES_TAG = 1 << 4
"""The flag of a forum whose posts must have a tag."""
_POSTS = 10
"""How many posts of a forum to search for a key."""
_KINDS = {
    "MESSAGE_CREATE": Message,
    "MESSAGE_UPDATE": Message,
    "MESSAGE_DELETE": updates.Deletion,
    "INTERACTION_CREATE": Interaction,
}


class DiscordAdapter(RemoteAdapter[DiscordClient]):
    """The adapter of one bot."""

    platform = Platform.DISCORD
    capabilities = CAPABILITIES
    no_account = account.NO_TOKEN
    title_length = 100

    def __init__(self, token: str, url: str, silence: float = 20.0, pause: float = 5.0) -> None:
        """`url` replaces Discord's own server. `silence` is the timeout in seconds after which a
        call counts as lost, `pause` the time that Discord wants between two new sessions."""
        super().__init__(FAILURES)
        self._events = EventQueue()
        self._make = partial(DiscordClient, self._on_event, token, url, silence, pause)
        self._checks = account.checks
        self._has_user = account.has_user
        self._channels: dict[str, Channel] = {}
        self._menu: list[dict[str, Any]] = []
        self._opened: set[str] = set()
        """The threads that this process opened or uses."""
        self._backlog = Backlog(FAILURES, time_snowflake, snowflake_time)
        self.remember = self._backlog.remember

    async def _greet(self, client: DiscordClient) -> None:
        me = await client.call("GET", "/users/@me", updates.Profile)
        self.account = me.id
        self.mention = f"@{me.name}"
        await client.connect()

    # Inbound

    @property
    def is_caught_up(self) -> bool:
        return self._backlog.is_read

    def receive(self) -> AsyncGenerator[Inbound | None]:
        return self._events.receive(self.client.listen, self._handle)

    def _on_event(self, event: Event) -> None:
        if event[0] == "READY":
            # Discord keeps the events of a session only if it continues, and this is a new one.
            self._backlog.away()
        self._events.append(event)

    async def _handle(self, event: Event) -> AsyncGenerator[Inbound | None]:
        name, data = event
        if name == "READY":
            async with contextlib.aclosing(self._backlog.receive(self._page)) as missed:
                async for inbound in missed:
                    yield inbound
            return
        channel = (converted(data, dict[str, Any]) or {}).get("channel_id")
        read = partial(self._read, name, data)
        with FAILURES.connecting():
            inbound = await self.containment.attempt(f"{name} of {channel}", read)
        if inbound is not None:
            yield inbound

    async def _read(self, name: str, data: Any) -> Inbound | None:
        if name == "RESUMED":
            return None
        match converted(data, _KINDS.get(name, Named)):
            case None:
                self._skip([name])
            case Message() as message:
                return await self._read_message(message, is_new=name == "MESSAGE_CREATE")
            case updates.Deletion() as deletion:
                channels = await self._channel_and_parent(deletion.channel_id)
                return channels and updates.deleted(deletion, channels[0])
            case Interaction() as interaction:
                channels = await self._channel_and_parent(interaction.channel_id)
                return channels and updates.acted(interaction, *channels)
            case Named(guild) if name == "GUILD_CREATE":
                self.connection.in_background(lambda client: self._register(client, guild))
            case Named(changed):  # a channel or a thread that was changed or deleted
                self._channels.pop(changed, None)
        return None

    async def _read_message(self, message: Message, *, is_new: bool) -> Inbound | None:
        if updates.is_ignored(message, self.account):
            return None
        channels = await self._channel_and_parent(message.channel_id)
        if channels is None:
            return None
        inbound = updates.said(message, *channels, self.account)
        if inbound is None:
            return None
        await self._backlog.arrived(inbound)
        inbound = await self._with_names(inbound)
        return inbound if is_new else updates.edited(message, inbound, datetime.now(UTC))

    async def _with_names(self, inbound: Inbound) -> Inbound:
        """Show the names of the channels in the text. Discord sends the names of users only.
        Messages of others cause no calls."""
        mentioned = updates.mentioned_channels(inbound.text)[:MENTIONS]
        if not mentioned or not await self._backlog.wants(inbound):
            return inbound
        found = await asyncio.gather(*map(self._channel_name, mentioned))
        names = {it: name for it, name in zip(mentioned, found, strict=True) if name}
        return structs.replace(inbound, text=updates.with_channels(inbound.text, names))

    async def _channel_name(self, channel_id: str) -> str:
        """The name of a channel. Empty if Discord does not answer in time."""
        try:
            async with asyncio.timeout(_NAME_SECONDS):
                channel = await self._channel(channel_id)
        except (TimeoutError, *FAILURES.all):
            return ""
        return one_line(channel.name or "", _NAME)

    async def _channel_and_parent(self, channel_id: str) -> tuple[Channel, Channel] | None:
        """The channel with that id, and the channel that it is in if it is a thread, else the same
        one again. None if the bot may not see it. An event names only the thread, and may come
        before the event that announces the thread."""
        with tolerating_absence():
            channel = await self._channel(channel_id)
            parent = await self._channel(channel.parent or channel_id)
            return channel, parent
        return None

    async def _channel(self, channel_id: str) -> Channel:
        if channel_id not in self._channels:
            found = await self.client.call("GET", f"/channels/{channel_id}", Channel)
            self._channels[channel_id] = found
        return self._channels[channel_id]

    async def _page(self, at: Address, last: int, before: str) -> BacklogPage[Inbound]:
        """The messages after `last`: all if they fit on one page, else the newest, or those before
        `before`."""
        channel_id = channel_of(at)
        path = f"/channels/{channel_id}/messages?limit={_PAGE}"
        bound = f"&before={before}" if before else f"&after={last}"
        raw = await self.client.call("GET", path + bound, list[dict[str, Any]])
        if not before and len(raw) >= _PAGE:  # those are the oldest
            raw = await self.client.call("GET", path, list[dict[str, Any]])
        named = [converted(it, Named) for it in raw]
        ids = sorted(int(it.id) for it in named if it is not None)
        messages = [converted(it, Message) for it in raw]
        new = [it for it in messages if it is not None and int(it.id) > last]
        new.sort(key=lambda it: int(it.id), reverse=True)
        await self._discover(at, new)
        found = await self._from_users(channel_id, new)
        if not ids:
            return BacklogPage(found=found, size=len(raw))
        is_last = len(raw) < _PAGE or ids[0] <= last
        return BacklogPage(
            found=found,
            size=len(raw),
            edge=snowflake_time(ids[0]),
            newest=ids[-1],
            next="" if is_last else str(ids[0]),
        )

    async def _discover(self, at: Address, messages: Sequence[Message]) -> None:
        """Also read the threads that began under these messages, if the bot or an owner wrote them.
        Threads of others cause no calls."""
        for message in messages:
            if not message.began_thread:
                continue
            by = Sender(platform=Platform.DISCORD, user_id=message.author.id)
            if by.user_id == self.account or await self._backlog.is_wanted(by):
                self._backlog.discover(replace(at, thread_id=message.id), int(message.id))

    async def _from_users(self, channel_id: str, messages: Sequence[Message]) -> list[Inbound]:
        """The messages of users among these messages of a channel."""
        written = [it for it in messages if not updates.is_ignored(it, self.account)]
        if not written:
            return []
        channels = await self._channel_and_parent(channel_id)
        if channels is None:
            return []
        found = [updates.said(it, *channels, self.account) for it in written]
        return [await self._with_names(it) for it in found if it is not None]

    def acknowledge(self, press: Inbound) -> None:
        if press.kind is InboundKind.BUTTON:
            body: dict[str, Any] = {"type": 6}  # no answer
        else:
            shown = {**_QUIET, "content": one_line(press.text, 100), "flags": 1 << 6}
            body = {"type": 4, "data": shown}  # an answer that only the sender sees
        path = f"/interactions/{press.press_id}/callback"
        self.connection.in_background(lambda client: client.call("POST", path, NoneType, json=body))

    async def _fetch(self, attachment: base.Attachment) -> bytes:
        channel_id, message_id, file_id = attachment.id.split("/")
        path = f"/channels/{channel_id}/messages/{message_id}"
        message = await self.client.call("GET", path, Message)
        for file in message.files:
            if file.id == file_id:
                return await self.client.fetch(file.url, self.capabilities.attachment_bytes)
        raise Refused(404, "the file is gone")

    # Outbound

    async def _send(
        self, to: Address, text: str, *, markup: bool, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        forum = await self._forum(to)
        if forum is not None:
            return await self._post_in_forum(forum, to, text, key, buttons)
        return await self._post(to, key, content=text, components=_rows(buttons))

    async def _forum(self, at: Address) -> Channel | None:
        """The channel, if it is a forum. None if it is a post in one, which is a thread."""
        if at.thread_id is not None:
            return None
        channel = await self._channel(channel_of(at))
        return channel if channel.type in updates.FORUMS else None

    async def _post_in_forum(
        self, forum: Channel, to: Address, text: str, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        """Open a post whose first message is the text. A forum takes messages only in posts. The
        later parts of a long message are messages in the post of the first."""
        name, _, number = key.rpartition("/")
        mark = _mark("Message", forum, name or key)
        components = _rows(buttons)
        post = await self._find_post(forum, mark)
        if post is not None:
            if number in ("", "0"):
                return Receipt(post)
            at = replace(to, thread_id=post)
            return await self._post(at, key, content=text, components=components)
        title = self._title_of(text)
        marked = f"{text}\n{mark}"
        if size(marked, base.Unit.UTF16) <= self.capabilities.length:
            post = await self._open_post(forum, title, marked, components=components)
        else:
            post = await self._open_post(forum, title, f"{title}\n{mark}")
            at = replace(to, thread_id=post)
            await self._post(at, key, content=text, components=components)
        return Receipt(post)

    async def _post_for_file(self, forum: Channel, text: str, key: str) -> str:
        """The post of a message that has a file. It is opened with a title, and the file follows:
        opening a post takes no key."""
        name, _, _ = key.rpartition("/")
        mark = _mark("Message", forum, name or key)
        post = await self._find_post(forum, mark)
        if post is not None:
            return post
        title = self._title_of(text)
        return await self._open_post(forum, title, f"{title}\n{mark}")

    def _title_of(self, text: str) -> str:
        first_line = text.partition("\n")[0]
        return sending.title(first_line, self.title_length, base.Unit.UTF16)

    async def _edit(
        self, at: Address, receipt: Receipt, text: str, *, markup: bool, buttons: Sequence[Button]
    ) -> None:
        body = {"content": text, "components": _rows(buttons), **_QUIET}
        if await self._forum(at) is not None:
            at = replace(at, thread_id=receipt)  # the first message of a post has the post's id
        await self._write(at, "PATCH", f"/{receipt}", json=body)

    async def _upload(
        self, to: Address, file: Upload, caption: str, *, markup: bool, key: str
    ) -> Receipt:
        name = sending.file_name(file)
        files = {"files[0]": (name, file.data, file.media_type)}
        forum = await self._forum(to)
        if forum is not None:
            post = await self._post_for_file(forum, caption or name, key)
            to = replace(to, thread_id=post)
        return await self._post(to, key, files, content=caption)

    async def _post(
        self, to: Address, key: str, files: Mapping[str, Any] | None = None, **body: Any
    ) -> Receipt:
        nonce = sending.short_key(channel_of(to), key, length=25)
        body |= {**_QUIET, "nonce": nonce, "enforce_nonce": True}
        if files is None:
            sent = await self._write(to, "POST", "", json=body)
        else:
            form = {"payload_json": http.encode(body)}
            sent = await self._write(to, "POST", "", data=form, files=files)
        self._backlog.follow(to, sent)
        return Receipt(sent)

    async def _write(self, at: Address, method: str, path: str, **body: Any) -> str:
        """Write in a channel, and return the id of the message. An archived thread is reopened."""
        channel = f"/channels/{channel_of(at)}"
        write = partial(self.client.call, method, f"{channel}/messages{path}", Named, **body)
        try:
            return (await write()).id
        except Refused as refused:
            if not refused.says("50083"):
                raise
        await self.client.call("PATCH", channel, Named, json={"archived": False})
        return (await write()).id

    async def _typing(self, at: Address) -> None:
        await self.client.call("POST", f"/channels/{channel_of(at)}/typing", NoneType)

    # Threads

    async def _open_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        chat = replace(home, thread_id=None)
        channel = await self.client.call("GET", f"/channels/{channel_of(chat)}", Channel)
        given = await account.rights(self.client, channel, self.account)
        if channel.type in updates.FORUMS:
            mark = _mark("Handoff", channel, key)
            thread = await self._find_post(channel, mark)
            if thread is None:
                thread = await self._open_post(channel, title, f"{title}\n{mark}")
        elif channel.type not in updates.WITH_THREADS or account.THREADS & ~given:
            return None
        elif given & account.SEND:
            thread = await self._open_under(chat, channel, title, key)
        else:
            thread = await self._open_alone(channel, title)
        opened = replace(chat, thread_id=thread)
        self._backlog.follow(opened, thread)
        return opened

    async def _open_under(self, chat: Address, channel: Channel, title: str, key: str) -> str:
        """Open a thread under a message. Both have the same id, so a key opens only one."""
        root = await self._post(chat, f"thread {key}", content=title)
        try:
            return await self._open(f"{channel.id}/messages/{root}", title)
        except Refused as refused:
            if refused.says("160004"):  # it is there
                return root
            if not refused.says(*NO_THREADS):
                raise
        return await self._open_alone(channel, title)

    async def _open_alone(self, channel: Channel, title: str) -> str:
        """Open a thread without a message. It takes no key. If an earlier attempt has left an empty
        one with this title, use that."""
        for thread in await self._active(channel):
            is_empty = thread.name == title and not thread.message_count
            if is_empty and thread.id not in self._opened:
                self._opened.add(thread.id)
                return thread.id
        try:
            return await self._open(channel.id, title, type=updates.WITH_THREADS[channel.type])
        except Lost as lost:
            if not lost.arrived:
                raise
            reason = f"{lost.reason}; an empty thread may be left"
            raise FAILURES.undelivered(reason, arrived=True) from lost

    async def _find_post(self, forum: Channel, mark: str) -> str | None:
        """The bot's post in a forum whose first message ends with `mark`, which stands for a key:
        a post takes none."""
        posts = sorted((it.id for it in await self._active(forum)), key=int)
        for post in posts[-_POSTS:]:
            with tolerating_absence():  # its first message may be deleted
                found = await self.client.call("GET", f"/channels/{post}/messages/{post}", Message)
                if found.content.endswith(f"\n{mark}"):
                    return post
        return None

    async def _open_post(self, forum: Channel, title: str, text: str, **more: Any) -> str:
        """Open a post in a forum, with its first message."""
        body: dict[str, Any] = {"message": {"content": text, **_QUIET, **more}}
        if forum.flags & _REQUIRES_TAG:
            tags = [it.id for it in forum.available_tags if not it.moderated]
            body["applied_tags"] = tags[:1]
        return await self._open(forum.id, title, **body)

    async def _active(self, channel: Channel) -> list[Channel]:
        """The threads of the bot in a channel that are not archived."""
        path = f"/guilds/{channel.guild_id}/threads/active"
        active = (await self.client.call("GET", path, updates.Detail)).threads
        return [it for it in active if (it.parent, it.owner_id) == (channel.id, self.account)]

    async def _open(self, under: str, title: str, **more: Any) -> str:
        body = {"name": title, "auto_archive_duration": 10080, **more}  # a week
        path = f"/channels/{under}/threads"
        opened = (await self.client.call("POST", path, Named, json=body)).id
        self._opened.add(opened)
        return opened

    async def invite(self, thread: Address, users: Sequence[str], *, key: str) -> None:
        with FAILURES.delivering():
            members = f"/channels/{channel_of(thread)}/thread-members"
            for user in users:
                await self.client.call("PUT", f"{members}/{user}", NoneType)

    # Profile

    async def _set_menu(self, menu: Sequence[MenuEntry]) -> None:
        """Set the commands of direct messages, and of each server, where they appear at once."""
        self._menu = [{"name": it.name, "description": it.help, "options": [_TEXT]} for it in menu]
        for guild in ("", *(it.id for it in self.client.ready.guilds)):
            with tolerating_absence():  # the bot may have left that server
                await self._register(self.client, guild)

    async def _register(self, client: DiscordClient, guild: str) -> None:
        """Set the commands of a server, or of direct messages, if they differ."""
        path = f"/applications/{client.ready.application.id}"
        if guild:
            path += f"/guilds/{guild}/commands"
            menu = self._menu
        else:
            path += "/commands"
            menu = [{**it, "contexts": [1]} for it in self._menu]
        shown = await client.call("GET", path, tuple[Resource, ...])
        wanted = {(it["name"], it["description"]) for it in menu}
        if {(it.name, it.description) for it in shown} != wanted:
            await client.call("PUT", path, list[Named], json=menu)

    async def _audience(self, chat: Address, users: Sequence[str]) -> Audience | None:
        return await account.audience(self.client, chat, users)

    async def _find(self, chat_id: str) -> HomeChannel | None:
        if not chat_id.isdecimal():
            return None
        return await account.find(self.client, chat_id)


def _mark(kind: str, forum: Channel, key: str) -> str:
    """The last line of a post's first message, which stands for its key."""
    return f"-# {kind} {sending.short_key(forum.id, key, length=12)}"


def _rows(buttons: Sequence[Button]) -> list[dict[str, Any]]:
    rows = sending.rows(buttons, 5)
    return [{"type": 1, "components": [_button(it) for it in row]} for row in rows]


def _button(button: Button) -> dict[str, Any]:
    return {"type": 2, "style": 2, "label": button.label, "custom_id": button.data}


def make(settings: PlatformSettings, *, silence: float = 20.0) -> DiscordAdapter:
    """Return an unconnected adapter for the bot in `settings`."""
    return DiscordAdapter(settings.value("token"), settings.value("url"), silence)
