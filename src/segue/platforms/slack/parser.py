"""Convert an envelope to an Inbound: the adapter's edge."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms import content
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.content import FileKind
from segue.platforms.errors import UNREADABLE, parsed
from segue.platforms.markup import mrkdwn
from segue.platforms.slack import wire
from segue.platforms.slack.socket import EnvelopeDelivery
from segue.platforms.slack.spec import COMMAND

_WRITTEN = frozenset({None, "", "file_share", "thread_broadcast", "me_message"})
"""Subtypes of messages that users write. All others are Slack's own, or a bot's."""
_GONE = frozenset({"tombstone", "hidden_by_limit", "external"})  # not on Slack
_SKEW = 60.0  # our clock may be ahead of Slack's by so many seconds
_TS = re.compile(r"\d{10}\.\d{6}")


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

    me: wire.Me
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


def parse(delivery: EnvelopeDelivery, me: wire.Me) -> Inbound | None:
    """Return the user's action as an Inbound, or None if we ignore it. Ignored are bots (including
    our own messages), users of other workspaces and Slack's service messages. It has no names,
    because Slack sends ids."""
    kind, payload = delivery.envelope.type, delivery.envelope.payload
    when, name = f"{delivery.at - _SKEW:.6f}", delivery.envelope.envelope_id
    try:
        if kind == "events_api":
            callback = msgspec.json.decode(payload, type=wire.EventCallback)
            event = msgspec.json.decode(callback.event, type=wire.Event)
            scope = Scope(
                me,
                team=callback.team_id,
                organisation=callback.enterprise_id,
                is_shared=bool(callback.is_ext_shared_channel),
            )
            when, name, inbound = event.event_ts, callback.event_id, _event(event, scope)
        elif kind == "slash_commands":
            inbound = _command(msgspec.json.decode(payload, type=wire.SlashCommand), me)
        elif kind == "interactive":
            inbound = _pressed(msgspec.json.decode(payload, type=wire.BlockActions), me)
        else:
            return None
    except (*UNREADABLE, ValueError):  # an Address has no empty ids
        return None
    return inbound and replace(inbound, update_id=inbound.update_id or f"{when} {name}")


def deleted_thread(delivery: EnvelopeDelivery) -> Address | None:
    """Return the thread of the message whose deletion this is, or None. The thread is gone: a
    message with replies stays as a tombstone."""
    payload = bytes(delivery.envelope.payload)
    if b"message_deleted" not in payload:
        return None
    callback = parsed(payload, wire.EventCallback)
    event = callback and parsed(bytes(callback.event), wire.Event)
    if not event or event.subtype != "message_deleted" or not event.deleted_ts:
        return None
    return address(event.channel, event.deleted_ts) if event.channel else None


def _event(event: wire.Event, scope: Scope) -> Inbound | None:
    if event.type == "member_joined_channel" and event.user == scope.me.user_id:
        inviter = scope.member(event.inviter, None)  # the event names only the team of the bot
        return _inbound(InboundKind.JOINED, address(event.channel), inviter)
    # A mention is an event of its own too, with the same message.
    if event.type != "message":
        return None
    is_tombstone = event.message is not None and event.message.is_tombstone
    if event.previous_message and (event.subtype == "message_deleted" or is_tombstone):
        return _deleted(event.channel, event.previous_message, scope)
    if event.subtype == "message_changed" and event.message:
        before = event.previous_message
        return _said(InboundKind.EDIT, event.channel, event.message, scope, before)
    return written(event.channel, event, scope)


def _deleted(channel: str, said: wire.Said, scope: Scope) -> Inbound | None:
    """The deletion of a user's message. Its author may not be who deleted it. Slack deletes a
    tombstone with the last reply."""
    ts = said.ts or ""
    is_ignored = said.bot_id or said.is_tombstone or said.user == scope.me.user_id
    if is_ignored or not _TS.fullmatch(ts):
        return None
    at = address(channel, said.thread_ts, ts)
    author = scope.member(said.user, said.author_team)
    return _inbound(InboundKind.DELETED, at, author, message_id=ts)


def _command(command: wire.SlashCommand, me: wire.Me) -> Inbound | None:
    """`/segue resume my project` is the command /resume. Threads have no slash commands."""
    if command.command != COMMAND:
        return None
    text = f"/{command.text.strip().removeprefix('/') or 'help'}"
    scope = Scope(me, command.team_id, command.enterprise_id, is_shared=True)
    user = scope.member(command.user_id, command.team_id)
    return _inbound(InboundKind.COMMAND, address(command.channel_id), user, text=text)


def _pressed(press: wire.BlockActions, me: wire.Me) -> Inbound | None:
    shown = press.container
    if not press.actions or (data := press.actions[0].value) is None or not shown.message_ts:
        return None
    at = address(shown.channel_id, shown.thread_ts, shown.message_ts)
    user = Scope(me, is_shared=True).member(press.user.id, press.user.team_id)
    return _inbound(InboundKind.BUTTON, at, user, text=data, message_id=shown.message_ts)


def _said(
    kind: InboundKind,
    channel: str,
    said: wire.Said,
    scope: Scope,
    before: wire.Said | None = None,
) -> Inbound | None:
    me = scope.me.user_id
    ts, is_ours = said.ts or "", said.bot_id or said.user == me
    if is_ours or said.subtype not in _WRITTEN or not _TS.fullmatch(ts):
        return None
    at = address(channel, said.thread_ts, ts)
    text, to_us = _words(said.text, me)
    files, author, quote = said.files, None, None
    # A message of another user that the sender shares, with or without words of their own.
    if shared := next((it for it in said.attachments if it.is_share), None):
        quote = Quote(author=shared.author_name or "", text=_words(shared.text, me)[0])
        files += shared.files
        if not text or (before is not None and not before.text):  # an edit does not make it typed
            author, text, quote, to_us = quote.author, text or quote.text, None, False
    if not (text or files):
        return None
    return _inbound(
        kind,
        at,
        scope.member(said.user, said.author_team),
        text=text,
        message_id=ts,
        # A message has the same id in its event and in the history.
        update_id=f"{ts} {channel}" if kind is InboundKind.MESSAGE else "",
        attachments=tuple(_attachment(file) for file in files if file.mode not in _GONE),
        addressed=at.chat_type is ChatType.DM or to_us or said.parent_user_id == me,
        forwarded_from=author,
        quote=quote,
    )


written = partial(_said, InboundKind.MESSAGE)
"""Return a message in a channel as an Inbound, or None if we ignore it."""


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
    names = [name for name in mrkdwn.LINK.finditer(text) if name[1] == f"@{me}"]
    if names and not text[: names[0].start()].strip():
        text = content.without_name(text[names[0].end() :], text)
    return mrkdwn.typed(text), bool(names)


def _attachment(file: wire.SlackFile) -> Attachment:
    name, kind, size = file.name or "", file.mimetype or "", file.size or 0
    return content.attachment(FileKind.DOCUMENT, file.id, name=name, media_type=kind, size=size)
