"""The parts of signal-cli's events and answers that we use.

The records in src/main/java/org/asamk/signal/json of https://github.com/AsamK/signal-cli. What can
be missing can be null too.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct


class Camel(Struct, frozen=True, rename="camel"):
    pass


class SignalEvent(Camel, frozen=True):
    """An envelope, or one that could not be read."""

    account: str
    envelope: Raw = Raw(b"null")
    exception: SignalError | None = None


class SignalError(Camel, frozen=True):
    type: str = ""


class SignalMention(Camel, frozen=True):
    start: int
    length: int
    name: str | None = None
    number: str | None = None


class SignalAttachment(Camel, frozen=True):
    id: str | None = None
    content_type: str | None = None
    filename: str | None = None
    size: int | None = None


class SignalQuote(Camel, frozen=True):
    id: int
    author_number: str | None = None
    author_uuid: str | None = None
    text: str | None = None
    attachments: tuple[SignalAttachment, ...] | None = None


class SignalReaction(Camel, frozen=True):
    emoji: str
    target_sent_timestamp: int
    target_author_number: str | None = None
    is_remove: bool = False


class SignalGroupInfo(Camel, frozen=True):
    group_id: str
    group_name: str | None = None


class ContactPart(Camel, frozen=True):
    """A name, or a phone number."""

    given: str | None = None
    family: str | None = None
    value: str | None = None


class SignalContact(Camel, frozen=True):
    name: ContactPart | None = None
    phone: tuple[ContactPart, ...] | None = None


class SignalPoll(Camel, frozen=True):
    question: str
    options: tuple[str, ...]


class DataMessage(Camel, frozen=True, kw_only=True):
    timestamp: int = 0
    message: str | None = None
    reaction: SignalReaction | None = None
    quote: SignalQuote | None = None
    mentions: tuple[SignalMention, ...] | None = None
    attachments: tuple[SignalAttachment, ...] | None = None
    sticker: Any = None
    contacts: tuple[SignalContact, ...] | None = None
    poll_create: SignalPoll | None = None
    group_info: SignalGroupInfo | None = None


class EditMessage(Camel, frozen=True):
    target_sent_timestamp: int
    data_message: DataMessage


class SentMessage(DataMessage, frozen=True, kw_only=True):
    """What another device of the account sent. An edit is inside."""

    destination_uuid: str | None = None
    edit_message: EditMessage | None = None


class SyncMessage(Camel, frozen=True):
    sent_message: SentMessage | None = None


class SignalEnvelope(Camel, frozen=True, kw_only=True):
    source_uuid: str
    timestamp: int
    source_name: str | None = None
    data_message: DataMessage | None = None
    edit_message: EditMessage | None = None
    sync_message: SyncMessage | None = None


# Answers


class RpcError(Camel, frozen=True):
    code: int
    message: str = ""
    data: Raw = Raw(b"null")


class RpcAnswer(Camel, frozen=True):
    result: Raw = Raw(b"null")
    error: RpcError | None = None


class SendResult(Camel, frozen=True):
    """JsonSendMessageResult"""

    type: str
    token: str | None = None
    retry_after_seconds: float | None = None


class SendAnswer(Camel, frozen=True):
    timestamp: int
    results: tuple[SendResult, ...] = ()


class FailedSend(Camel, frozen=True):
    response: SendAnswer


class SignalAccount(Camel, frozen=True):
    number: str


class SignalGroup(Camel, frozen=True):
    id: str
    name: str | None = None
    is_member: bool = False
    is_blocked: bool = False


class SignalIdentity(Camel, frozen=True):
    trust_level: str
    number: str | None = None
    uuid: str | None = None
