"""The JSON frames between a page and its server, parsed once at this edge.

`frames.d.ts` beside this file describes them for the page's scripts. After a change here, type
`.venv/bin/python -m tests.web.page_types`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from segue.core.transcript import Role
from segue.handoffs import values as handoff
from segue.jobs.values import JobAction, JobState
from segue.store.gateways import LinkState
from segue.store.page_sessions import SessionActivity
from segue.store.pages import PageAuthor

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


class LinkProof(Struct, frozen=True, forbid_unknown_fields=True):
    key: _Id
    proof: _Hash


class Prove(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="prove"):
    proof: _Hash
    link: LinkProof | None = None
    """The link that a paired browser was opened with. It is used up, and pairs no other browser."""


# From the page


class _Ask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do"):
    pass


class Open(_Ask, frozen=True, tag="open"):
    """Show a session and follow it. `chat` is its id, or that of a conversation on the page."""

    chat: _Id
    seq: _Number = 0
    """The last message that the page has, with `edits` of the same answer."""
    edits: _Number = 0


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


class Bring(_Ask, frozen=True, tag="bring"):
    """Move the session here."""

    chat: _Id
    key: _Key


class Rename(_Ask, frozen=True, tag="rename"):
    chat: _Id
    key: _Key
    title: Annotated[str, Meta(min_length=1, max_length=1000)]


class Delete(_Ask, frozen=True, tag="delete"):
    chat: _Id
    key: _Key


class Export(_Ask, frozen=True, tag="export"):
    chat: _Id
    key: _Key


class Search(_Ask, frozen=True, tag="search"):
    words: Annotated[str, Meta(max_length=200)]


class More(_Ask, frozen=True, tag="more"):
    """List more sessions."""


class Health(_Ask, frozen=True, tag="health"):
    pass


class ListJobs(_Ask, frozen=True, tag="jobs"):
    """List the jobs, and follow them."""


class ChangeJob(_Ask, frozen=True, tag="job"):
    number: _Number
    key: _Key
    action: JobAction


InChat = Open | Earlier | Say | Press | Bring | Rename | Delete | Export
Ask = InChat | New | Search | More | Health | ListJobs | ChangeJob

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
    """A session in the list."""

    id: str
    title: str
    where: str
    """Completes the sentence "This conversation is …"."""
    state: SessionActivity
    last: str
    active: datetime


class Button(Struct, frozen=True):
    label: str
    data: str


class Message(Struct, frozen=True, kw_only=True):
    """A message that is not in the transcript."""

    no: int
    rev: int
    author: PageAuthor
    html: str
    buttons: tuple[Button, ...]
    at: datetime
    after: int | None = None
    """The line that it follows. None while it waits to be answered."""
    key: str | None = None


class Tool(Struct, frozen=True):
    name: str
    what: str


class Line(Struct, frozen=True, kw_only=True):
    """One message of a transcript."""

    seq: int
    role: Role
    html: str
    at: datetime
    tools: tuple[Tool, ...] = ()
    shows: int | None = None
    """The number of the message that was shown in its place."""


class MoveLine(Struct, frozen=True, kw_only=True):
    """An arrival or a departure."""

    no: int
    after: int
    text: str
    at: datetime


class Hello(_Tell, frozen=True, tag="hello"):
    version: str
    host: str
    chats: tuple[Chat, ...]
    more: bool


class Chats(_Tell, frozen=True, tag="chats"):
    chats: tuple[Chat, ...]
    more: bool


class Shown(_Tell, frozen=True, tag="shown"):
    """A session, or what is new in it."""

    chat: str
    was: str
    """The id under which the page knew it."""
    fresh: bool
    """Whether it replaces what the page has."""
    entry: Chat | None
    """None for a conversation in which nothing was said yet."""
    lines: tuple[Line, ...]
    more: bool
    messages: tuple[Message, ...]
    moves: tuple[MoveLine, ...]
    seq: int
    edits: int


class History(_Tell, frozen=True, tag="earlier"):
    chat: str
    lines: tuple[Line, ...]
    more: bool
    messages: tuple[Message, ...]
    moves: tuple[MoveLine, ...]


class Changed(_Tell, frozen=True, tag="message"):
    chat: str
    message: Message


class Writing(_Tell, frozen=True, tag="writing"):
    """The answer that is being written, as far as it goes. Empty when it is over."""

    chat: str
    html: str
    after: int
    """The last message before it. It may be sent later than the message that it becomes."""


class Gone(_Tell, frozen=True, tag="gone"):
    """The session was deleted."""

    chat: str


class Taken(_Tell, frozen=True, tag="taken"):
    key: str
    chat: str | None = None
    no: int | None = None
    """The number of the message that was sent."""


class Refused(_Tell, frozen=True, tag="refused"):
    reason: str
    key: str | None = None


class SearchHit(Struct, frozen=True, kw_only=True):
    chat: str
    title: str
    text: str
    at: datetime


class Found(_Tell, frozen=True, tag="found"):
    words: str
    hits: tuple[SearchHit, ...]


class Exported(_Tell, frozen=True, tag="exported"):
    """A part of the file with this name. The last one ends with `Taken`."""

    key: str
    name: str
    text: str


class PlatformState(Struct, frozen=True):
    platform: str
    state: LinkState
    detail: str


class GatewayState(Struct, frozen=True, kw_only=True):
    name: str
    since: datetime
    platforms: tuple[PlatformState, ...]


class HandoffState(Struct, frozen=True, kw_only=True):
    session: str
    title: str
    platform: str
    state: handoff.State
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


Lamp = Literal["good", "busy", "bad", ""]


class JobEntry(Struct, frozen=True, kw_only=True):
    """A job in the list, in words."""

    number: int
    name: str
    state: JobState
    error: str | None
    """Why it was paused, if its owner did not do it."""
    next: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    """Names and values."""
    prompt: str
    last: str | None
    """The outcome of its last run."""
    lamp: Lamp
    """The state of its last run."""
    at: datetime | None
    """When its last run started."""
    session: str | None


class JobList(_Tell, frozen=True, tag="jobs"):
    jobs: tuple[JobEntry, ...]


Answer = Hello | Shown | History | Taken | Refused | Healthy | Found | Exported
Change = JobList | Chats | Changed | Writing | Gone
Tell = Proof | Unknown | Answer | Change
