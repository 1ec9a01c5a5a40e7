"""The parts of webhooks and answers that we use.

https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages
What can be missing can be null too.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct, field

Timestamp = Annotated[str, Meta(pattern="^[0-9]{1,12}$")]


class WaItem(Struct, frozen=True):
    """A part of an update. Its kind decides which fields are set."""

    id: str | None = None
    author: str | None = field(name="from", default=None)
    forwarded: bool | None = None
    frequently_forwarded: bool | None = None
    body: str | None = None
    text: str | None = None
    caption: str | None = None
    filename: str | None = None
    mime_type: str | None = None
    voice: bool | None = None
    emoji: str | None = None
    button_reply: WaItem | None = None
    list_reply: WaItem | None = None
    latitude: float | None = None
    longitude: float | None = None
    name: str | None = None
    address: str | None = None
    formatted_name: str | None = None
    phone: str | None = None
    details: str | None = None
    phone_number_id: str | None = None
    display_phone_number: str | None = None
    original_message_id: str | None = None
    message: WaMessage | None = None


class WaContact(Struct, frozen=True):
    """The sender of a message, or a contact that a user shares."""

    wa_id: str | None = None
    profile: WaItem | None = None
    name: WaItem | None = None
    phones: tuple[WaItem, ...] | None = None


class WaMessage(Struct, frozen=True, kw_only=True):
    """What a user sent. The field of the same name as its type is set."""

    type: str
    id: str = ""
    sender: str = field(name="from", default="")
    timestamp: Timestamp = ""
    group_id: str | None = None
    context: WaItem | None = None
    text: WaItem | None = None
    image: WaItem | None = None
    video: WaItem | None = None
    audio: WaItem | None = None
    document: WaItem | None = None
    sticker: WaItem | None = None
    location: WaItem | None = None
    contacts: tuple[WaContact, ...] | None = None
    reaction: WaItem | None = None
    interactive: WaItem | None = None
    button: WaItem | None = None
    edit: WaItem | None = None
    revoke: WaItem | None = None


class GraphError(Struct, frozen=True):
    code: int
    message: str | None = None
    title: str | None = None
    error_data: WaItem | None = None

    @property
    def reason(self) -> str:
        details = self.error_data and self.error_data.details
        return details or self.message or self.title or "no reason was given"


class WaStatus(Struct, frozen=True):
    id: str
    status: str
    timestamp: Timestamp
    recipient_id: str
    errors: tuple[GraphError, ...] | None = None
    biz_opaque_callback_data: str | None = None


class Value(Struct, frozen=True):
    metadata: WaItem
    contacts: tuple[WaContact, ...] | None = None
    messages: tuple[Raw, ...] | None = None
    statuses: tuple[Raw, ...] | None = None


class Change(Struct, frozen=True):
    value: Raw
    field: str = ""


class WaEntry(Struct, frozen=True):
    changes: tuple[Change, ...]


class Payload(Struct, frozen=True):
    object: Literal["whatsapp_business_account"]
    entry: tuple[WaEntry, ...]


# Answers


class NamedAnswer(Struct, frozen=True):
    id: str
    url: str = ""


class SentAnswer(Struct, frozen=True):
    messages: tuple[NamedAnswer, ...]


class NumberAnswer(NamedAnswer, frozen=True):
    display_phone_number: str = ""
    verified_name: str = ""
    webhook_configuration: dict[str, str] = {}
