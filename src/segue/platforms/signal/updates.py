"""The events of signal-cli, as they arrive and as Inbounds: the adapter's edge.

The first part has the events (src/main/java/org/asamk/signal/json in
https://github.com/AsamK/signal-cli; what can be missing can be null too). `Parser` makes an Inbound
of each.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms import content
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.content import FileKind
from segue.platforms.errors import parsed
from segue.platforms.updates import Recent

logger = logging.getLogger(__name__)

NAME = "@segue"
"""What users write to address the bot in a group. The owner of the account cannot mention it."""
_NAMED = re.compile(rf"\s*{NAME}\b", re.IGNORECASE)
_KINDS = {"image": FileKind.PHOTO, "audio": FileKind.AUDIO, "video": FileKind.VIDEO}


class SignalItem(Struct, frozen=True, rename="camel"):
    """A part of a message. Its kind decides which fields are set."""

    id: str | None = None
    content_type: str | None = None
    filename: str | None = None
    size: int | None = None
    start: int = 0
    length: int = 0
    name: str | None = None
    number: str | None = None
    group_id: str | None = None
    group_name: str | None = None
    question: str = ""
    options: tuple[str, ...] = ()
    given: str | None = None
    family: str | None = None
    value: str | None = None


class SignalContact(Struct, frozen=True, rename="camel"):
    name: SignalItem | None = None
    phone: tuple[SignalItem, ...] | None = None


class SignalQuote(Struct, frozen=True, rename="camel"):
    id: int
    author_number: str | None = None
    author_uuid: str | None = None
    text: str | None = None
    attachments: tuple[SignalItem, ...] | None = None


class SignalReaction(Struct, frozen=True, rename="camel"):
    emoji: str
    target_sent_timestamp: int
    target_author_number: str | None = None
    is_remove: bool = False


class SignalDeletion(Struct, frozen=True):
    timestamp: int


class SignalMessage(Struct, frozen=True, rename="camel", kw_only=True):
    """A message, or what contains one: an edit has the new text, and a sync message what another
    device of the account sent, perhaps an edit."""

    message: str | None = None
    reaction: SignalReaction | None = None
    quote: SignalQuote | None = None
    mentions: tuple[SignalItem, ...] | None = None
    attachments: tuple[SignalItem, ...] | None = None
    remote_delete: SignalDeletion | None = None
    sticker: Any = None
    contacts: tuple[SignalContact, ...] | None = None
    poll_create: SignalItem | None = None
    group_info: SignalItem | None = None
    destination_uuid: str | None = None
    target_sent_timestamp: int = 0
    data_message: SignalMessage | None = None
    edit_message: SignalMessage | None = None
    sent_message: SignalMessage | None = None
    sync_message: SignalMessage | None = None


class SignalEnvelope(SignalMessage, frozen=True, kw_only=True):
    timestamp: int
    source_uuid: str | None = None
    source_name: str | None = None


class SignalEvent(Struct, frozen=True, rename="camel"):
    account: str | None = None
    """The number that it came to. A daemon that was started for one account may leave it out."""
    envelope: SignalEnvelope | None = None
    exception: dict[str, Any] | None = None  # of an envelope that could not be read


# As Inbounds


def address(chat_id: str, *, group: bool) -> Address:
    kind = ChatType.GROUP if group else ChatType.DM
    return Address(platform=Platform.SIGNAL, chat_type=kind, chat_id=chat_id)


class Parser:
    """Parses events. It remembers names, and the first version of each message."""

    def __init__(self, sent: Mapping[int, str]) -> None:
        """`sent` has the receipts of our messages, by the timestamps of their versions."""
        self.account = ""
        self.is_only_account = False
        """Whether an event that names no account is for this one: the daemon has no other."""
        self._sent = sent
        self._names = Recent[str | None, str]()
        self._first = Recent[tuple[str, int], int]()

    def parse(self, data: bytes) -> Inbound | None:
        """Return what a user did as an Inbound, or None if we ignore it."""
        event = parsed(data, SignalEvent)
        if event is None:
            logger.warning("updates skipped platform=signal ids=unknown")
        elif event.exception is not None:
            # It stays with signal-cli until the sender's new safety number is trusted.
            log = "message not readable platform=signal reason=%s: type `segue doctor`"
            logger.warning(log, event.exception.get("type"))
        elif event.envelope is not None and self._is_for_us(event.account):
            return self._said(event.envelope)
        return None

    def _is_for_us(self, account: str | None) -> bool:
        if account is None:
            return self.is_only_account
        return account == self.account

    def _said(self, envelope: SignalEnvelope) -> Inbound | None:
        """Another device of the account belongs to its owner, who writes to the agent in Note to
        Self and in groups. What the owner writes to other people is ignored."""
        sync = envelope.sync_message
        user = envelope.source_uuid
        name = envelope.source_name or ""
        sent = envelope if sync is None else sync.sent_message
        if not user or sent is None:
            return None
        edit = sent.edit_message
        data = sent.data_message if sync is None else sent
        kind = InboundKind.MESSAGE
        first = envelope.timestamp
        if edit is not None:
            kind = InboundKind.EDIT
            data = edit.data_message
            target = edit.target_sent_timestamp
            self._first[user, first] = first = self._first.get((user, target), target)
        if data is None or not first:
            return None
        if name:
            self._names[user] = name
        group = data.group_info
        chat_id = user
        chat_name = name
        if group is not None:
            chat_id = group.group_id
            chat_name = group.group_name or ""
        elif sync is not None:
            is_note = sent.destination_uuid == user  # someone else may have no UUID
            chat_id = user if is_note else None
            chat_name = "Note to Self"
        if not chat_id:
            return None
        inbound = Inbound(
            kind=kind,
            update_id=f"{envelope.timestamp} {user}",  # which identifies a message of its author
            address=address(chat_id, group=group is not None),
            sender=Sender(platform=Platform.SIGNAL, user_id=user, name=name),
            message_id=str(first),
            press_id="read" if sync is None else "",
            chat_name=chat_name,
            readers=content.members(chat_name) if group else "",
        )
        if data.reaction is not None:
            return self._reaction(inbound, data.reaction)
        if data.remote_delete is not None:
            return self._deletion(inbound, data.remote_delete)
        return self._message(inbound, data)

    def _deletion(self, inbound: Inbound, deletion: SignalDeletion) -> Inbound:
        """Only the author of a message can delete it for all, by the timestamp of any version."""
        at = deletion.timestamp
        user = inbound.sender.user_id
        first = self._first.get((user, at), at)
        return replace(inbound, kind=InboundKind.DELETED, message_id=str(first), press_id="")

    def _reaction(self, inbound: Inbound, reaction: SignalReaction) -> Inbound | None:
        if reaction.is_remove or reaction.target_author_number != self.account:
            return None
        target = reaction.target_sent_timestamp
        changes = {"press_id": "", "text": reaction.emoji}
        message = self._sent.get(target, str(target))
        return replace(inbound, kind=InboundKind.REACTION, message_id=message, **changes)

    def _message(self, inbound: Inbound, data: SignalMessage) -> Inbound | None:
        text, to_us = _words(data, self.account)
        files = tuple(_attachment(file) for file in data.attachments or () if file.id)
        if not (text or files):
            return None
        quote = data.quote and self._quote(data.quote, is_own=not inbound.press_id)
        is_dm = inbound.address.chat_type is ChatType.DM
        addressed = is_dm or to_us or bool(quote and quote.ours)
        return replace(inbound, text=text, attachments=files, quote=quote, addressed=addressed)

    def _quote(self, quote: SignalQuote, *, is_own: bool) -> Quote:
        """The owner of a linked account and the agent write as the same user, so what the agent
        wrote is known only by its timestamp."""
        ours = quote.author_number == self.account and not (is_own and quote.id not in self._sent)
        text = content.quoted(quote.text or "", map(_attachment, quote.attachments or ()))
        author = self._names.get(quote.author_uuid) or quote.author_number or ""
        first = self._first.get((quote.author_uuid or "", quote.id), quote.id)
        message_id = self._sent.get(quote.id) or str(first)
        return Quote(author="" if ours else author, text=text, ours=ours, message_id=message_id)


def _words(data: SignalMessage, account: str) -> tuple[str, bool]:
    """The text as typed, without the bot's name at its start, and whether it names the bot."""
    text = data.message or ""
    to_us = False
    for mention in sorted(data.mentions or (), key=lambda it: -it.start):
        before, _ = content.marked(text, 0, mention.start)
        place, rest = content.marked(text, mention.start, mention.length)
        if place:
            is_ours = mention.number == account
            other = content.mention(mention.name or mention.number or "unknown")
            name = f"{NAME} " if is_ours else other
            text = f"{before}{name}{rest}"
            to_us = to_us or is_ours
    if named := _NAMED.match(text):
        text = content.without_name(text[named.end() :], text)
        to_us = True
    return "\n".join(filter(None, (text, *_other(data)))), to_us


def _other(data: SignalMessage) -> list[str]:
    """What is no text, in words."""
    found = ["[A sticker]"] if data.sticker is not None else []
    for contact in data.contacts or ():
        name = contact.name or SignalItem()
        phone = next((it.value for it in contact.phone or () if it.value), "")
        found.append(content.contact(f"{name.given or ''} {name.family or ''}".strip(), phone))
    if (poll := data.poll_create) is not None:
        found.append(content.poll(poll.question, poll.options))
    return found


def _attachment(file: SignalItem) -> Attachment:
    media_type = file.content_type or ""
    name = file.filename or ""
    size = file.size or 0
    kind = _KINDS.get(media_type.partition("/")[0], FileKind.DOCUMENT)
    return content.attachment(kind, file.id or "", name=name, media_type=media_type, size=size)
