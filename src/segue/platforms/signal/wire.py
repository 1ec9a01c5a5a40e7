"""The parts of signal-cli's events and answers that we use.

The records in src/main/java/org/asamk/signal/json of https://github.com/AsamK/signal-cli. What can
be missing can be null too.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct


class Camel(Struct, frozen=True, rename="camel"):
    pass


class SignalItem(Camel, frozen=True):
    """A file, a mention, a group, a poll, or a part of a contact. Its kind decides which fields are
    set."""

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


class SignalContact(Camel, frozen=True):
    name: SignalItem | None = None
    phone: tuple[SignalItem, ...] | None = None


class SignalQuote(Camel, frozen=True):
    id: int
    author_number: str | None = None
    author_uuid: str | None = None
    text: str | None = None
    attachments: tuple[SignalItem, ...] | None = None


class SignalReaction(Camel, frozen=True):
    emoji: str
    target_sent_timestamp: int
    target_author_number: str | None = None
    is_remove: bool = False


class SignalMessage(Camel, frozen=True, kw_only=True):
    """A message, or what contains one: an edit has the new text, and a sync message what another
    device of the account sent, perhaps an edit."""

    message: str | None = None
    reaction: SignalReaction | None = None
    quote: SignalQuote | None = None
    mentions: tuple[SignalItem, ...] | None = None
    attachments: tuple[SignalItem, ...] | None = None
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


class SignalEvent(Camel, frozen=True):
    """An envelope, or the exception of one that could not be read."""

    account: str
    envelope: SignalEnvelope | None = None
    exception: dict[str, Any] | None = None


# Answers


class RpcError(Camel, frozen=True):
    code: int
    message: str = ""
    data: Raw = Raw(b"null")


class RpcAnswer(Camel, frozen=True):
    result: Raw = Raw(b"null")
    error: RpcError | None = None


class SignalEntry(Camel, frozen=True):
    """An account, a group, an identity, or the result for one recipient. Its kind decides which
    fields are set."""

    number: str | None = None
    uuid: str | None = None
    name: str | None = None
    is_member: bool = False
    is_blocked: bool = False
    trust_level: str = ""
    type: str = ""
    token: str | None = None
    retry_after_seconds: float | None = None


class SendAnswer(Camel, frozen=True):
    timestamp: int
    results: tuple[SignalEntry, ...] = ()
