"""The Discord adapter."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import NoneType
from typing import Any

from discord.utils import time_snowflake

from segue.core.address import Address, HomeChannel, Platform
from segue.core.text import one_line
from segue.platforms import base, http, sending
from segue.platforms.adapter import RemoteAdapter
from segue.platforms.backlog import Backlog, Events
from segue.platforms.base import Button, Inbound, InboundKind, MenuEntry, Receipt, Upload
from segue.platforms.discord import account, parser, wire
from segue.platforms.discord.client import FAILURES, NO_THREADS, DiscordClient, Event, where
from segue.platforms.discord.wire import Channel, Interaction, Message, Named, Resource
from segue.platforms.errors import Lost, Refused, converted, tolerating_absence
from segue.platforms.spec import PlatformSettings

CAPABILITIES = base.Capabilities(
    threads=True,
    edits=True,
    buttons=True,
    typing=True,
    files=True,
    keys=True,
    length=2000,
    unit=base.Unit.UTF16,
    dialect=base.Dialect.MARKDOWN,
    per_second=40.0,  # the limit is 50 calls a second of any kind
    edit_seconds=1.2,
    typing_seconds=10.0,
    upload_bytes=10 * 1024 * 1024,
)
_QUIET: Mapping[str, Any] = {"allowed_mentions": {"parse": []}, "flags": 1 << 2}
"""Mentions send no notifications, and links have no preview. An edit needs both again."""
_TEXT = {"type": 3, "name": "text", "description": "What follows the command"}
_KINDS = {"MESSAGE_CREATE": Message, "MESSAGE_UPDATE": Message, "INTERACTION_CREATE": Interaction}


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
        self._events = Events[Event]()
        self._make = partial(DiscordClient, self._events.append, token, url, silence, pause)
        self._checks = account.checks
        self._channels: dict[str, Channel] = {}
        self._menu: list[dict[str, Any]] = []
        self._backlog = Backlog(time_snowflake)
        self.remember = self._backlog.remember

    async def _greet(self, client: DiscordClient) -> None:
        me = await client.call("GET", "/users/@me", wire.Profile)
        self.account, self.mention = me.id, f"@{me.name}"
        await client.connect()

    # Inbound

    def receive(self) -> AsyncGenerator[Inbound | None]:
        return self._events.receive(FAILURES, self.client.listen, self._handle)

    async def _handle(self, event: Event) -> Inbound | None:
        name, data = event
        match name, converted(data, _KINDS.get(name, Named)):
            case "READY", _:
                self._events.insert(await self._missed())
            case _, None if name != "RESUMED":
                self._skip([name])
            case _, Message() as message if not parser.is_ignored(message, self.account):
                return await self._said(message, is_new=name == "MESSAGE_CREATE")
            case _, Interaction() as it if channels := await self._place(it.channel_id):
                return parser.acted(it, *channels)
            case "GUILD_CREATE", Named(guild):
                self.connection.in_background(lambda client: self._register(client, guild))
            case _, it:  # perhaps a channel that was changed or deleted
                self._channels.pop(it.id if isinstance(it, Named) else "", None)
        return None

    async def _said(self, message: Message, *, is_new: bool) -> Inbound | None:
        if not (channels := await self._place(message.channel_id)):
            return None
        inbound = parser.said(message, *channels, self.account)
        if inbound and inbound.addressed:
            self._backlog.talks(message.channel_id, message.id)
        if is_new or not inbound:
            self._backlog.heard(message.channel_id, message.id)
            return inbound
        return parser.edited(message, inbound, datetime.now(UTC))

    async def _place(self, channel_id: str) -> tuple[Channel, Channel] | None:
        """The channel with that id, and the channel that it is in if it is a thread. None if the
        bot may not see it. An event names only the thread, and may come before the event that
        announces the thread."""
        with tolerating_absence():
            channel = await self._channel(channel_id)
            return channel, await self._channel(channel.parent or channel_id)
        return None

    async def _channel(self, channel_id: str) -> Channel:
        if channel_id not in self._channels:
            found = await self.client.call("GET", f"/channels/{channel_id}", Channel)
            self._channels[channel_id] = found
        return self._channels[channel_id]

    async def _missed(self) -> list[Event]:
        """What users wrote before this session, as events. Discord keeps those of a session only
        if it continues."""
        found: list[dict[str, Any]] = []
        for channel, last in self._backlog.newest():
            path = f"/channels/{channel}/messages?limit=100&after={last}"
            with tolerating_absence():
                found += await self.client.call("GET", path, list[dict[str, Any]])
        return [("MESSAGE_CREATE", it) for it in sorted(found, key=lambda it: int(it["id"]))]

    def acknowledge(self, press: Inbound) -> None:
        # A button needs no answer. A command has one, which only its sender sees.
        shown = {**_QUIET, "content": one_line(press.text, 100), "flags": 1 << 6}
        is_button = press.kind is InboundKind.BUTTON
        body = {"type": 6} if is_button else {"type": 4, "data": shown}
        path = f"/interactions/{press.press_id}/callback"
        self.connection.in_background(lambda client: client.call("POST", path, NoneType, json=body))

    async def _fetch(self, attachment: base.Attachment) -> bytes:
        channel, message, file = attachment.id.split("/")
        found = await self.client.call("GET", f"/channels/{channel}/messages/{message}", Message)
        if not (url := next((it.url for it in found.files if it.id == file), "")):
            raise Refused(404, "the file is gone")
        return await self.client.fetch(url, self.capabilities.attachment_bytes)

    # Outbound

    async def _send(
        self, to: Address, text: str, *, markup: bool, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        return await self._post(to, key, content=text, components=_rows(buttons))

    async def _edit(
        self, at: Address, receipt: Receipt, text: str, *, markup: bool, buttons: Sequence[Button]
    ) -> None:
        body = {"content": text, "components": _rows(buttons), **_QUIET}
        await self._write(at, "PATCH", f"/{receipt}", json=body)

    async def _upload(
        self, to: Address, file: Upload, caption: str, *, markup: bool, key: str
    ) -> Receipt:
        files = {"files[0]": (sending.file_name(file), file.data, file.media_type)}
        return await self._post(to, key, files, content=caption)

    async def _post(
        self, to: Address, key: str, files: Mapping[str, Any] | None = None, **body: Any
    ) -> Receipt:
        nonce = sending.short_key(where(to), key, length=25)
        body |= {**_QUIET, "nonce": nonce, "enforce_nonce": True}
        form = {"data": {"payload_json": http.encode(body)}, "files": files}
        sent = await self._write(to, "POST", "", **(form if files else {"json": body}))
        self._backlog.talks(where(to), sent)
        return Receipt(sent)

    async def _write(self, at: Address, method: str, path: str, **body: Any) -> str:
        """Write in a channel, and return the id of the message. An archived thread is reopened."""
        channel = f"/channels/{where(at)}"
        write = partial(self.client.call, method, f"{channel}/messages{path}", Named, **body)
        try:
            return (await write()).id
        except Refused as refused:
            if not refused.says("50083"):
                raise
        await self.client.call("PATCH", channel, Named, json={"archived": False})
        return (await write()).id

    async def _typing(self, at: Address) -> None:
        await self.client.call("POST", f"/channels/{where(at)}/typing", NoneType)

    # Threads

    async def _open_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        chat = replace(home, thread_id=None)
        channel = await self.client.call("GET", f"/channels/{where(chat)}", Channel)
        given = await account.rights(self.client, channel, self.account)
        if channel.type in wire.FORUMS:
            thread = await self._open_post(channel, title, key)
        elif channel.type not in wire.WITH_THREADS or account.THREADS & ~given:
            return None
        elif given & account.SEND:
            thread = await self._open_under(chat, channel, title, key)
        else:
            thread = await self._open_alone(channel, title)
        self._backlog.talks(thread, thread)
        return replace(chat, thread_id=thread)

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
        """Open a thread without a message. It takes no key, so this is never repeated."""
        try:
            return await self._open(channel.id, title, type=wire.WITH_THREADS[channel.type])
        except Lost as lost:
            if not lost.arrived:
                raise
            reason = f"{lost.reason}; an empty thread may be left"
            raise FAILURES.undelivered(reason, arrived=True) from lost

    async def _open_post(self, forum: Channel, title: str, key: str) -> str:
        """Open a post in a forum. It takes no key, so a number in its text stands for one."""
        text = f"{title}\n-# Handoff {sending.short_key(forum.id, key, length=12)}"
        path = f"/guilds/{forum.guild_id}/threads/active"
        active = (await self.client.call("GET", path, wire.Detail)).threads
        ours = [it.id for it in active if (it.parent, it.owner_id) == (forum.id, self.account)]
        for post in sorted(ours, key=int)[-10:]:
            found = await self.client.call("GET", f"/channels/{post}/messages/{post}", Message)
            if found.content == text:
                return post
        tags = [it.id for it in forum.available_tags if not it.moderated]
        more = {"applied_tags": tags[:1]} if forum.flags & 1 << 4 else {}
        return await self._open(forum.id, title, message={"content": text, **_QUIET}, **more)

    async def _open(self, under: str, title: str, **more: Any) -> str:
        body = {"name": title, "auto_archive_duration": 10080, **more}  # a week
        return (await self.client.call("POST", f"/channels/{under}/threads", Named, json=body)).id

    async def invite(self, thread: Address, users: Sequence[str]) -> None:
        with FAILURES.delivering():
            members = f"/channels/{where(thread)}/thread-members"
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
        where, more = (f"/guilds/{guild}", {}) if guild else ("", {"contexts": [1]})
        path = f"/applications/{client.ready.application.id}{where}/commands"
        shown = await client.call("GET", path, tuple[Resource, ...])
        wanted = {(it["name"], it["description"]) for it in self._menu}
        if {(it.name, it.description) for it in shown} != wanted:
            await client.call("PUT", path, list[Named], json=[it | more for it in self._menu])

    async def _find(self, chat_id: str) -> HomeChannel | None:
        return await account.find(self.client, chat_id) if chat_id.isdecimal() else None


def _rows(buttons: Sequence[Button]) -> list[dict[str, Any]]:
    grey = {"type": 2, "style": 2}
    return [
        {"type": 1, "components": [{**grey, "label": it.label, "custom_id": it.data} for it in row]}
        for row in sending.rows(buttons, 5)
    ]


def make(settings: PlatformSettings, *, silence: float = 20.0) -> DiscordAdapter:
    """Return an unconnected adapter for the bot in `settings`."""
    return DiscordAdapter(settings.value("token"), settings.value("url"), silence)
