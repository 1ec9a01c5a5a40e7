"""Slack's envelopes, as they arrive and as Inbounds: the adapter's edge.

The first part has the payloads that we use (https://docs.slack.dev; fields that can be missing can
also be null), and `parse` makes an Inbound of an envelope. Slack sends ids of users and channels:
`SlackNames` adds their names.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from segue.core.address import Address, ChatType, Platform, Sender
from segue.core.text import one_line
from segue.platforms import content
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.content import FileKind
from segue.platforms.errors import UNREADABLE, parsed
from segue.platforms.slack import messages
from segue.platforms.slack.client import (
    FAILURES,
    Me,
    Person,
    Said,
    SlackChannel,
    SlackClient,
    SlackFile,
    SlackItem,
)
from segue.platforms.slack.socket import Envelope
from segue.platforms.slack.spec import COMMAND
from segue.platforms.updates import Recent

_WRITTEN = frozenset({None, "", "file_share", "thread_broadcast", "me_message"})
"""Subtypes of messages that users write. All others are Slack's own, or a bot's."""
_GONE = frozenset({"tombstone", "hidden_by_limit", "external"})  # not on Slack
_SKEW = 60.0  # our clock may be ahead of Slack's by so many seconds
_TS = re.compile(r"\d{10}\.\d{6}")
NAME_SECONDS = 1.0
"""How long an update waits for a name. It must be recorded soon."""
MENTIONS = 10
"""How many names are looked up for one message. Other mentions show their ids."""
_NAME = 80

T = TypeVar("T")


# Payloads


class EventCallback(Struct, frozen=True):
    event_id: str
    event: Raw
    team_id: str | None = None
    enterprise_id: str | None = None
    is_ext_shared_channel: bool | None = None


class Event(Said, frozen=True, kw_only=True):
    """A message, its edit, or the bot's arrival in a channel."""

    type: str
    channel: str
    event_ts: str = ""
    message: Said | None = None
    previous_message: Said | None = None
    deleted_ts: str | None = None
    inviter: str | None = None


class SlashCommand(Struct, frozen=True):
    command: str
    text: str
    channel_id: str
    user_id: str
    team_id: str
    enterprise_id: str | None = None


class BlockActions(Struct, frozen=True, tag_field="type", tag="block_actions"):
    user: SlackItem
    container: SlackItem
    actions: tuple[SlackItem, ...]


# As Inbounds


def address(channel: str, thread: str | None = None, message: str | None = None) -> Address:
    """The address of a channel, or of a thread. The message that opens one is in the channel."""
    kind = ChatType.DM if channel.startswith("D") else ChatType.CHANNEL
    inside = None if thread in ("", message) else thread
    return Address(platform=Platform.SLACK, chat_type=kind, chat_id=channel, thread_id=inside)


@dataclass(frozen=True, slots=True)
class Scope:
    """The app's account, and where an update comes from. An id names a user only within a workspace
    or its organisation: in a channel that is shared with others (Slack Connect), the owner's id
    can be that of a stranger."""

    me: Me
    team: str | None = None
    """The workspace where an event happened."""
    organisation: str | None = None
    """The organisation of that workspace."""
    is_shared: bool = False
    """Whether users of other organisations are there, or might be."""

    def member(self, user: str | None, team: str | None) -> str | None:
        """Return the id of a user of the app's workspace, or of its organisation. Return None for
        all others. `team` is the workspace or the organisation that Slack names for the user."""
        if not user:
            return None
        if not team:
            return None if self.is_shared else user
        if team in (self.me.team_id, self.me.enterprise_id):
            return user
        organisation = self.organisation if team == self.team else None
        if not organisation and user.startswith("W") and team.startswith("T"):
            # Such an id is valid in every workspace of an organisation.
            organisation = self.me.enterprise_id
        return user if organisation and organisation == self.me.enterprise_id else None


def parse(envelope: Envelope, at: float, me: Me) -> Inbound | None:
    """Return the user's action as an Inbound, or None if we ignore it. Ignored are bots (including
    our own messages), users of other workspaces and Slack's service messages. It has no names,
    because Slack sends ids. `at` is the time of its arrival, in seconds."""
    kind = envelope.type
    payload = envelope.payload
    when = f"{at - _SKEW:.6f}"
    name = envelope.envelope_id
    try:
        if kind == "events_api":
            callback = msgspec.json.decode(payload, type=EventCallback)
            event = msgspec.json.decode(callback.event, type=Event)
            scope = Scope(
                me,
                team=callback.team_id,
                organisation=callback.enterprise_id,
                is_shared=bool(callback.is_ext_shared_channel),
            )
            when = event.event_ts
            name = callback.event_id
            inbound = _event(event, scope)
        elif kind == "slash_commands":
            inbound = _command(msgspec.json.decode(payload, type=SlashCommand), me)
        elif kind == "interactive":
            inbound = _pressed(msgspec.json.decode(payload, type=BlockActions), me)
        else:
            return None
    except (*UNREADABLE, ValueError):  # an Address has no empty ids
        return None
    if inbound is None or inbound.update_id:
        return inbound
    return replace(inbound, update_id=f"{when} {name}")


def deleted_thread(envelope: Envelope) -> Address | None:
    """Return the thread of the message whose deletion this is, or None. The thread is gone: a
    message with replies stays as a tombstone."""
    payload = bytes(envelope.payload)
    if b"message_deleted" not in payload:
        return None
    callback = parsed(payload, EventCallback)
    event = None if callback is None else parsed(bytes(callback.event), Event)
    if event is None or event.subtype != "message_deleted":
        return None
    if not event.deleted_ts or not event.channel:
        return None
    return address(event.channel, event.deleted_ts)


def _event(event: Event, scope: Scope) -> Inbound | None:
    if event.type == "member_joined_channel" and event.user == scope.me.user_id:
        inviter = scope.member(event.inviter, None)  # the event names only the team of the bot
        return _inbound(InboundKind.JOINED, address(event.channel), inviter)
    # A mention is also sent as an event of another type, with the same message.
    if event.type != "message":
        return None
    is_tombstone = event.message is not None and event.message.is_tombstone
    if event.previous_message and (event.subtype == "message_deleted" or is_tombstone):
        return _deleted(event.channel, event.previous_message, scope)
    if event.subtype == "message_changed" and event.message:
        before = event.previous_message
        return written(event.channel, event.message, scope, InboundKind.EDIT, before)
    return written(event.channel, event, scope)


def _deleted(channel: str, said: Said, scope: Scope) -> Inbound | None:
    """The deletion of a user's message. Its author may not be who deleted it. Slack deletes a
    tombstone with the last reply."""
    ts = said.ts or ""
    is_ignored = said.bot_id or said.is_tombstone or said.user == scope.me.user_id
    if is_ignored or not _TS.fullmatch(ts):
        return None
    at = address(channel, said.thread_ts, ts)
    author = scope.member(said.user, said.author_team)
    return _inbound(InboundKind.DELETED, at, author, message_id=ts)


def _command(command: SlashCommand, me: Me) -> Inbound | None:
    """`/segue resume my project` is the command /resume. Threads have no slash commands."""
    if command.command != COMMAND:
        return None
    text = f"/{command.text.strip().removeprefix('/') or 'help'}"
    scope = Scope(me, command.team_id, command.enterprise_id, is_shared=True)
    user = scope.member(command.user_id, command.team_id)
    return _inbound(InboundKind.COMMAND, address(command.channel_id), user, text=text)


def _pressed(press: BlockActions, me: Me) -> Inbound | None:
    shown = press.container
    if not press.actions or not shown.message_ts:
        return None
    data = press.actions[0].value
    if data is None:
        return None
    at = address(shown.channel_id, shown.thread_ts, shown.message_ts)
    user = Scope(me, is_shared=True).member(press.user.id, press.user.team_id)
    return _inbound(InboundKind.BUTTON, at, user, text=data, message_id=shown.message_ts)


def written(
    channel: str,
    said: Said,
    scope: Scope,
    kind: InboundKind = InboundKind.MESSAGE,
    before: Said | None = None,
) -> Inbound | None:
    """Return a message in a channel, or its edit, as an Inbound. Return None if we ignore it.
    `before` is the message before the edit."""
    me = scope.me.user_id
    ts = said.ts or ""
    is_ours = said.bot_id or said.user == me
    if is_ours or said.subtype not in _WRITTEN or not _TS.fullmatch(ts):
        return None
    text, is_named = _words(said.text, me)
    files = said.files
    author = None
    quote = None
    # A message of another user that the sender shares, with or without words of their own.
    shared = next((it for it in said.attachments if it.is_share), None)
    if shared is not None:
        files += shared.files
        shared_author = shared.author_name or ""
        shared_text, _ = _words(shared.text, me)
        was_empty = before is not None and not before.text  # an edit does not make it typed
        if text and not was_empty:
            quote = Quote(author=shared_author, text=shared_text)
        else:
            author = shared_author
            text = text or shared_text
            is_named = False
    if not (text or files):
        return None
    at = address(channel, said.thread_ts, ts)
    is_private = at.chat_type is ChatType.DM
    return _inbound(
        kind,
        at,
        scope.member(said.user, said.author_team),
        text=text,
        message_id=ts,
        # A message has the same id in its event and in the history.
        update_id=f"{ts} {channel}" if kind is InboundKind.MESSAGE else "",
        attachments=tuple(_attachment(file) for file in files if file.mode not in _GONE),
        addressed=is_private or is_named or said.parent_user_id == me,
        forwarded_from=author,
        quote=quote,
    )


def _inbound(kind: InboundKind, at: Address, user: str | None, **more: Any) -> Inbound | None:
    if not user:
        return None
    sender = Sender(platform=Platform.SLACK, user_id=user)
    more.setdefault("update_id", "")
    return Inbound(kind=kind, address=at, sender=sender, **more)


# Content


def _words(text: str | None, me: str) -> tuple[str, bool]:
    """The text as typed, without the bot's name at its start, and whether it names the bot."""
    text = text or ""
    names = [name for name in messages.LINK.finditer(text) if name[1] == f"@{me}"]
    if names and not text[: names[0].start()].strip():
        text = content.without_name(text[names[0].end() :], text)
    return messages.typed(text), bool(names)


def _attachment(file: SlackFile) -> Attachment:
    return content.attachment(
        FileKind.DOCUMENT,
        file.id,
        name=file.name or "",
        media_type=file.mimetype or "",
        size=file.size or 0,
    )


# Names


class SlackNames:
    """The names of users and channels. Slack is asked once about each."""

    def __init__(self, client: Callable[[], SlackClient]) -> None:
        """`client` returns the connected client."""
        self._client = client
        self._known = Recent[str, Any]()

    async def add(self, inbound: Inbound, me: Me) -> Inbound:
        """Add the names of the sender, of the channel, and of the users and channels in the text.
        Slack sends ids, so each name costs a call."""
        name = await self._user_name(inbound.sender.user_id)
        chat = await self._channel_name(inbound.address.chat_id)
        if inbound.kind in (InboundKind.MESSAGE, InboundKind.EDIT):
            inbound = await self._with_names(inbound, me)
        sender = dataclasses.replace(inbound.sender, name=name)
        if inbound.address.chat_type is ChatType.DM:
            return replace(inbound, sender=sender, chat_name=name)
        chat_name = f"#{chat}" if chat else ""
        readers = content.members(chat_name)
        return replace(inbound, sender=sender, chat_name=chat_name, readers=readers)

    async def _with_names(self, inbound: Inbound, me: Me) -> Inbound:
        quote = inbound.quote or Quote()
        mentions = messages.mentioned(f"{inbound.text} {quote.text}")[:MENTIONS]
        found = await asyncio.gather(*(self._mentioned_name(it, me) for it in mentions))
        names: dict[str, str] = {}
        for mention, name in zip(mentions, found, strict=True):
            shown = one_line(name, _NAME)  # users choose their names
            if shown:
                names[mention] = f"{mention[0]}{shown}"
        text = messages.with_names(inbound.text, names)
        if inbound.quote is None:
            return replace(inbound, text=text)
        quote = replace(quote, text=messages.with_names(quote.text, names))
        return replace(inbound, text=text, quote=quote)

    async def _mentioned_name(self, mention: str, me: Me) -> str:
        name = mention[1:]
        if name == me.user_id:
            return me.user
        if mention.startswith("@"):
            return await self._user_name(name)
        return await self._channel_name(name)

    async def _user_name(self, user: str) -> str:
        """The name of a user. Empty if Slack does not say."""
        ask = partial(self._client().call, "users.info", Person, "user", user=user)
        person = await self._get(user, ask, Person())
        return person.profile.display_name or person.profile.real_name or person.name

    async def _channel_name(self, chat: str) -> str:
        """The name of a channel. Empty if Slack does not say, or if it consists of the names of the
        members."""
        channel = await self._get(chat, partial(self._client().channel, chat), SlackChannel())
        return "" if channel.is_mpim else channel.name

    async def _get(self, name: str, ask: Callable[[], Awaitable[T]], unknown: T) -> T:
        """What `ask` returns about the user or channel with the id `name`, or `unknown` if Slack
        does not answer in time."""
        if name not in self._known:
            try:
                async with asyncio.timeout(NAME_SECONDS):
                    self._known[name] = await ask()
            except (TimeoutError, *FAILURES.all):
                return unknown
        return self._known[name]
