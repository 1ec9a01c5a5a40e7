"""The parts of webhooks and answers that we use.

https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages
What can be missing can be null too.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Raw, Struct, field


class Change(Struct, frozen=True):
    value: Raw
    field: str = ""


class WaEntry(Struct, frozen=True):
    changes: tuple[Change, ...]


class Payload(Struct, frozen=True):
    object: Literal["whatsapp_business_account"]
    entry: tuple[WaEntry, ...]


class WaItem(Struct, frozen=True):
    """A part of an update. Its kind decides which fields are set."""

    id: str | None = None
    title: str | None = None
    body: str | None = None
    caption: str | None = None
    filename: str | None = None
    mime_type: str | None = None
    voice: bool | None = None
    message_id: str | None = None
    emoji: str | None = None
    text: str | None = None
    button_reply: WaItem | None = None
    list_reply: WaItem | None = None
    latitude: float | None = None
    longitude: float | None = None
    name: str | None = None
    address: str | None = None
    phone: str | None = None
    wa_id: str | None = None
    formatted_name: str | None = None
    details: str | None = None


class Metadata(Struct, frozen=True):
    phone_number_id: str
    display_phone_number: str = ""


class WaContact(Struct, frozen=True):
    wa_id: str | None = None
    profile: WaItem = WaItem()


class Value(Struct, frozen=True):
    metadata: Metadata
    contacts: tuple[WaContact, ...] | None = None
    messages: tuple[Raw, ...] | None = None
    statuses: tuple[Raw, ...] | None = None


class WaContext(Struct, frozen=True):
    """What a message replies to, or that it is forwarded."""

    id: str | None = None
    author: str | None = field(name="from", default=None)
    forwarded: bool | None = None
    frequently_forwarded: bool | None = None


class SharedContact(Struct, frozen=True):
    name: WaItem
    phones: tuple[WaItem, ...] | None = None


class WaContent(Struct, frozen=True, kw_only=True):
    """What a user sent. The field of the same name as its type is set."""

    type: str
    context: WaContext | None = None
    text: WaItem | None = None
    image: WaItem | None = None
    video: WaItem | None = None
    audio: WaItem | None = None
    document: WaItem | None = None
    sticker: WaItem | None = None
    location: WaItem | None = None
    contacts: tuple[SharedContact, ...] | None = None
    reaction: WaItem | None = None
    interactive: WaItem | None = None
    button: WaItem | None = None


class EditedContent(Struct, frozen=True):
    original_message_id: str
    message: WaContent


class WaMessage(WaContent, frozen=True, kw_only=True):
    id: str
    sender: str = field(name="from")
    timestamp: str
    group_id: str | None = None
    edit: EditedContent | None = None


class GraphError(Struct, frozen=True):
    code: int
    message: str | None = None
    title: str | None = None
    error_data: WaItem | None = None

    @property
    def reason(self) -> str:
        details = self.error_data and self.error_data.details
        return details or self.message or self.title or f"error {self.code}"


class WaStatus(Struct, frozen=True):
    id: str
    status: str
    timestamp: str
    recipient_id: str
    errors: tuple[GraphError, ...] | None = None


# Answers


class ErrorAnswer(Struct, frozen=True):
    error: GraphError


class SentAnswer(Struct, frozen=True):
    messages: tuple[NamedAnswer, ...]


class SuccessAnswer(Struct, frozen=True):
    success: bool


class NamedAnswer(Struct, frozen=True):
    id: str
    url: str = ""


class NumberAnswer(Struct, frozen=True):
    id: str
    display_phone_number: str = ""
    verified_name: str = ""
    webhook_configuration: dict[str, str] = {}
