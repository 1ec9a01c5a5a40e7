"""The JSON frames between a page and its server, parsed once at this edge."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

TEXT_LIMIT = 200_000
FRAME_LIMIT = 1024 * 1024
"""Maximum bytes per frame; the library rejects larger ones."""
PROOF_LIMIT = 1024
"""The same limit for a page that is not authenticated yet."""

_Id = Annotated[str, Meta(max_length=100)]
_Key = Annotated[str, Meta(min_length=8, max_length=64, pattern=r"^[A-Za-z0-9-]+\Z")]
_Number = Annotated[int, Meta(ge=0, lt=1 << 53)]

_Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]

# Authentication


class Greet(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="greet"):
    key: _Id
    """The id of a link or a browser."""
    nonce: _Hash


class Prove(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="prove"):
    proof: _Hash


# From the page


class _Ask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do"):
    pass


class Open(_Ask, frozen=True, tag="open"):
    chat: _Id
    after: _Number = 0


class Earlier(_Ask, frozen=True, tag="earlier"):
    chat: _Id
    before: _Number


class Say(_Ask, frozen=True, tag="say"):
    chat: _Id
    key: _Key
    text: Annotated[str, Meta(min_length=1, max_length=TEXT_LIMIT)]


class Press(_Ask, frozen=True, tag="press"):
    chat: _Id
    key: _Key
    message: _Number
    data: _Id


class New(_Ask, frozen=True, tag="new"):
    key: _Key


class Health(_Ask, frozen=True, tag="health"):
    pass


Ask = Open | Earlier | Say | Press | New | Health

# To the page


class _Tell(Struct, frozen=True, kw_only=True, tag_field="is"):
    pass


class Proof(_Tell, frozen=True, tag="proof"):
    """The server's proof."""

    nonce: str
    proof: str


class Unknown(_Tell, frozen=True, tag="unknown"):
    """The key is not valid here, or no longer."""


class Chat(Struct, frozen=True, kw_only=True):
    id: str
    title: str
    where: str
    active: datetime


class Button(Struct, frozen=True):
    label: str
    data: str


class Message(Struct, frozen=True, kw_only=True):
    no: int
    rev: int
    author: str
    html: str
    buttons: tuple[Button, ...]
    at: datetime
    key: str | None = None


class Tool(Struct, frozen=True):
    name: str
    what: str


class Line(Struct, frozen=True, kw_only=True):
    """One message of a transcript."""

    seq: int
    role: str
    html: str
    at: datetime
    tools: tuple[Tool, ...] = ()


class Hello(_Tell, frozen=True, tag="hello"):
    version: str
    host: str
    chats: tuple[Chat, ...]


class Chats(_Tell, frozen=True, tag="chats"):
    chats: tuple[Chat, ...]


class Shown(_Tell, frozen=True, tag="shown"):
    chat: str
    history: tuple[Line, ...]
    more: bool
    messages: tuple[Message, ...]
    rev: int


class History(_Tell, frozen=True, tag="earlier"):
    chat: str
    history: tuple[Line, ...]
    more: bool


class Changed(_Tell, frozen=True, tag="message"):
    chat: str
    message: Message


class Working(_Tell, frozen=True, tag="working"):
    chat: str
    seconds: float


class Taken(_Tell, frozen=True, tag="taken"):
    key: str
    chat: str


class Refused(_Tell, frozen=True, tag="refused"):
    reason: str
    key: str | None = None


class PlatformState(Struct, frozen=True):
    platform: str
    state: str
    detail: str


class GatewayState(Struct, frozen=True, kw_only=True):
    name: str
    since: datetime
    platforms: tuple[PlatformState, ...]


class HandoffState(Struct, frozen=True, kw_only=True):
    session: str
    title: str
    platform: str
    state: str
    step: str | None
    error: str | None
    at: datetime


class Trouble(Struct, frozen=True, kw_only=True):
    address: str
    error: str
    at: datetime


class Healthy(_Tell, frozen=True, tag="health"):
    gateway: GatewayState | None
    handoffs: tuple[HandoffState, ...]
    troubles: tuple[Trouble, ...]


Answer = Hello | Shown | History | Taken | Refused | Healthy
Change = Chats | Changed | Working
Tell = Proof | Unknown | Answer | Change
