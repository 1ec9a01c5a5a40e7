"""The events of signal-cli, as they arrive and as Inbounds: the adapter's edge.

The first part has the events (src/main/java/org/asamk/signal/json in
https://github.com/AsamK/signal-cli; fields that can be missing can also be null). `Parser` makes an
Inbound of each.
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
            return self._parse_envelope(event.envelope)
        return None

    def _is_for_us(self, account: str | None) -> bool:
        if account is None:
            return self.is_only_account
        return account == self.account

    def _parse_envelope(self, envelope: SignalEnvelope) -> Inbound | None:
        """Another device of the account belongs to its owner, who writes to the agent in Note to
        Self and in groups. Messages of the owner to other people are ignored."""
        sync = envelope.sync_message
        sent = envelope if sync is None else sync.sent_message
        user = envelope.source_uuid
        if not user or sent is None:
            return None
        name = envelope.source_name or ""
        kind = InboundKind.MESSAGE
        first = envelope.timestamp
        data = sent.data_message if sync is None else sent
        if sent.edit_message is not None:
            kind = InboundKind.EDIT
            data = sent.edit_message.data_message
            target = sent.edit_message.target_sent_timestamp
            first = self._first.get((user, target), target)
            self._first[user, envelope.timestamp] = first
        if data is None or not first:
            return None
        if name:
            self._names[user] = name
        group = data.group_info
        if group is not None:
            chat_id = group.group_id
            chat_name = group.group_name or ""
        elif sync is None:
            chat_id = user
            chat_name = name
        else:
            is_note = sent.destination_uuid == user  # another user may have no UUID
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
            readers="" if group is None else content.members(chat_name),
        )
        if data.reaction is not None:
            return self._reaction(inbound, data.reaction)
        if data.remote_delete is not None:
            return self._deletion(inbound, data.remote_delete)
        return self._message(inbound, data)

    def _deletion(self, inbound: Inbound, deletion: SignalDeletion) -> Inbound:
        """Only the author of a message can delete it for all, by the timestamp of any version."""
        version = deletion.timestamp
        first = self._first.get((inbound.sender.user_id, version), version)
        return replace(inbound, kind=InboundKind.DELETED, message_id=str(first), press_id="")

    def _reaction(self, inbound: Inbound, reaction: SignalReaction) -> Inbound | None:
        if reaction.is_remove or reaction.target_author_number != self.account:
            return None
        target = reaction.target_sent_timestamp
        return replace(
            inbound,
            kind=InboundKind.REACTION,
            message_id=self._sent.get(target, str(target)),
            press_id="",
            text=reaction.emoji,
        )

    def _message(self, inbound: Inbound, data: SignalMessage) -> Inbound | None:
        text, is_named = _words(data, self.account)
        files = tuple(_attachment(file) for file in data.attachments or () if file.id)
        if not (text or files):
            return None
        quote = None
        if data.quote is not None:
            quote = self._quote(data.quote, is_own=not inbound.press_id)
        is_private = inbound.address.chat_type is ChatType.DM
        is_reply_to_us = quote is not None and quote.ours
        addressed = is_private or is_named or is_reply_to_us
        return replace(inbound, text=text, attachments=files, quote=quote, addressed=addressed)

    def _quote(self, quote: SignalQuote, *, is_own: bool) -> Quote:
        """The message that another one replies to. The owner of a linked account and the agent
        write as the same user, so if the owner replies (`is_own`), only the timestamp says whether
        the agent wrote it."""
        is_ours = quote.author_number == self.account
        if is_own and quote.id not in self._sent:
            is_ours = False
        author = self._names.get(quote.author_uuid) or quote.author_number or ""
        first = self._first.get((quote.author_uuid or "", quote.id), quote.id)
        return Quote(
            author="" if is_ours else author,
            text=content.quoted(quote.text or "", map(_attachment, quote.attachments or ())),
            ours=is_ours,
            message_id=self._sent.get(quote.id) or str(first),
        )


def _words(data: SignalMessage, account: str) -> tuple[str, bool]:
    """The text as typed, without the bot's name at its start, and whether it names the bot."""
    text = data.message or ""
    is_named = False
    for mention in sorted(data.mentions or (), key=lambda it: -it.start):
        before, _ = content.marked(text, 0, mention.start)
        place, rest = content.marked(text, mention.start, mention.length)
        if not place:
            continue
        if mention.number == account:
            name = f"{NAME} "
            is_named = True
        else:
            name = content.mention(mention.name or mention.number or "unknown")
        text = f"{before}{name}{rest}"
    start = _NAMED.match(text)
    if start is not None:
        text = content.without_name(text[start.end() :], text)
        is_named = True
    return "\n".join(filter(None, (text, *_other(data)))), is_named


def _other(data: SignalMessage) -> list[str]:
    """Content that is no text, in words."""
    found: list[str] = []
    if data.sticker is not None:
        found.append("[A sticker]")
    for contact in data.contacts or ():
        item = contact.name or SignalItem()
        name = f"{item.given or ''} {item.family or ''}".strip()
        phone = next((it.value for it in contact.phone or () if it.value), "")
        found.append(content.contact(name, phone))
    if data.poll_create is not None:
        found.append(content.poll(data.poll_create.question, data.poll_create.options))
    return found


def _attachment(file: SignalItem) -> Attachment:
    media_type = file.content_type or ""
    kind = _KINDS.get(media_type.partition("/")[0], FileKind.DOCUMENT)
    return content.attachment(
        kind,
        file.id or "",
        name=file.filename or "",
        media_type=media_type,
        size=file.size or 0,
    )
