"""Turn envelopes into Inbounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms import content
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.content import FileKind
from segue.platforms.signal.events import update_id
from segue.platforms.signal.wire import (
    DataMessage,
    EditMessage,
    SignalAttachment,
    SignalEnvelope,
    SignalQuote,
    SignalReaction,
)

NAME = "@segue"
"""What users write to address the bot in a group. In groups of a linked account it is the only way:
nobody can mention themselves."""
_NAMED = re.compile(rf"\s*{NAME}\b", re.IGNORECASE)
_MOST = 10_000
_NOTE = "Note to Self"
_KINDS = {
    "image": FileKind.PHOTO,
    "audio": FileKind.AUDIO,
    "video": FileKind.VIDEO,
}


def address(chat_id: str, *, group: bool) -> Address:
    kind = ChatType.GROUP if group else ChatType.DM
    return Address(platform=Platform.SIGNAL, chat_type=kind, chat_id=chat_id)


class Parser:
    """Parses envelopes. It remembers names, and the first version of each message."""

    def __init__(self, sent: Callable[[int], str | None]) -> None:
        """`sent` returns the receipt of our message of which a timestamp is a version, if known."""
        self._sent = sent
        self._names: dict[str, str] = {}
        self._versions: dict[tuple[str, int], int] = {}

    def parse(self, account: str, envelope: SignalEnvelope) -> Inbound | None:
        """Return what a user wrote as an Inbound, or None if we ignore it.

        Another device of the account belongs to its owner, who writes to the agent in Note to Self
        and in groups. What the owner writes to other people is ignored.
        """
        sync = envelope.sync_message
        if sync is None:
            return self._said(account, envelope, envelope.data_message, envelope.edit_message)
        sent = sync.sent_message
        if sent is None or sent.destination_uuid not in (None, envelope.source_uuid):
            return None
        return self._said(account, envelope, sent, sent.edit_message)

    def _said(
        self,
        account: str,
        envelope: SignalEnvelope,
        data: DataMessage | None,
        edit: EditMessage | None,
    ) -> Inbound | None:
        data = data if edit is None else edit.data_message
        user, name = envelope.source_uuid, envelope.source_name or ""
        if data is None or not user:
            return None
        _remember(self._names, user, name)
        is_own, group = envelope.sync_message is not None, data.group_info
        at = address(user, group=False) if group is None else address(group.group_id, group=True)
        chat_name = _NOTE if is_own else name
        more: dict[str, Any] = {"chat_name": chat_name, "press_id": "" if is_own else "read"}
        if group is not None:
            chat_name = group.group_name or ""
            more |= {"chat_name": chat_name, "readers": content.members(chat_name)}
        sender = Sender(platform=Platform.SIGNAL, user_id=user, name=name)
        made = {"update_id": update_id(envelope), "address": at, "sender": sender, **more}
        if data.reaction is not None:
            return self._reaction(account, data.reaction, made)
        return self._message(account, envelope, data, edit, made)

    def _reaction(
        self, account: str, reaction: SignalReaction, made: dict[str, Any]
    ) -> Inbound | None:
        target = reaction.target_sent_timestamp
        if reaction.is_remove or reaction.target_author_number != account:
            return None
        message = self._sent(target) or str(target)
        made |= {"message_id": message, "text": reaction.emoji, "press_id": ""}
        return Inbound(kind=InboundKind.REACTION, **made)

    def _message(
        self,
        account: str,
        envelope: SignalEnvelope,
        data: DataMessage,
        edit: EditMessage | None,
        made: dict[str, Any],
    ) -> Inbound | None:
        text, is_named = _words(data, account)
        files = tuple(_attachment(file) for file in data.attachments or () if file.id)
        if not (text or files):
            return None
        quote = data.quote and self._quote(account, envelope, data.quote)
        kind, first = InboundKind.MESSAGE, envelope.timestamp
        if edit is not None:
            target = (envelope.source_uuid, edit.target_sent_timestamp)
            kind, first = InboundKind.EDIT, self._versions.get(target, edit.target_sent_timestamp)
            _remember(self._versions, (envelope.source_uuid, envelope.timestamp), first)
        made |= {"kind": kind, "message_id": str(first), "text": text, "attachments": files}
        is_dm = made["address"].chat_type is ChatType.DM
        addressed = is_dm or is_named or bool(quote and quote.ours)
        return Inbound(quote=quote, addressed=addressed, **made)

    def _quote(self, account: str, envelope: SignalEnvelope, quote: SignalQuote) -> Quote:
        """The owner of a linked account and the agent write as the same user, so what the agent
        wrote is known only by its timestamp."""
        ours = quote.author_number == account
        if envelope.sync_message is not None:
            ours = ours and self._sent(quote.id) is not None
        files = (_attachment(file) for file in quote.attachments or ())
        text = content.quoted(quote.text or "", files)
        author = self._names.get(quote.author_uuid or "") or quote.author_number or ""
        return Quote(author="" if ours else author, text=text, ours=ours)


def _words(data: DataMessage, account: str) -> tuple[str, bool]:
    """The text as typed, without the bot's name at its start, and whether it names the bot."""
    text, is_named = data.message or "", False
    for mention in sorted(data.mentions or (), key=lambda it: -it.start):
        place, rest = content.marked(text, mention.start, mention.length)
        before, _ = content.marked(text, 0, mention.start)
        if not place:
            continue
        to_us = mention.number == account
        is_named = is_named or to_us
        if to_us and not before.strip():
            text = content.without_name(rest, NAME)
        else:
            text = f"{before}@{mention.name or mention.number or 'unknown'}{rest}"
    if named := _NAMED.match(text):
        text, is_named = content.without_name(text[named.end() :], text), True
    return "\n".join(filter(None, (text, *_other(data)))), is_named


def _other(data: DataMessage) -> list[str]:
    """What is no text, in words."""
    found = ["[A sticker]"] if data.sticker is not None else []
    for contact in data.contacts or ():
        name = contact.name and f"{contact.name.given or ''} {contact.name.family or ''}"
        phone = next((it.value for it in contact.phone or () if it.value), "")
        found.append(content.contact((name or "").strip(), phone))
    if data.poll_create is not None:
        found.append(content.poll(data.poll_create.question, data.poll_create.options))
    return found


def _attachment(file: SignalAttachment) -> Attachment:
    media_type = file.content_type or ""
    kind = _KINDS.get(media_type.partition("/")[0], FileKind.DOCUMENT)
    name, size = file.filename or "", file.size or 0
    return content.attachment(kind, file.id or "", name=name, media_type=media_type, size=size)


def _remember(known: dict[Any, Any], key: object, value: object) -> None:
    if value:
        known[key] = value
    if len(known) > _MOST:
        del known[next(iter(known))]
