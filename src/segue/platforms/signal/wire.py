"""The parts of signal-cli's events and answers that we use: src/main/java/org/asamk/signal/json of
https://github.com/AsamK/signal-cli. What can be missing can be null too."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


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


# Answers


class SignalEntry(Struct, frozen=True, rename="camel"):
    """An entry of a list in an answer. Its kind decides which fields are set."""

    number: str | None = None
    uuid: str | None = None
    name: str | None = None
    is_member: bool = False
    is_blocked: bool = False
    members: tuple[SignalEntry, ...] = ()
    trust_level: str = ""
    type: str = ""
    recipient_address: SignalEntry | None = None
    token: str | None = None
    retry_after_seconds: float | None = None


class SendAnswer(Struct, frozen=True, rename="camel"):
    timestamp: int
    results: tuple[SignalEntry, ...] = ()
