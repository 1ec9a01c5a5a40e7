"""The state of the Slack fake, as types: what it adds to the types of all platforms."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from msgspec import field

from segue.testing import peers
from segue.testing.peers.templates import Json, Templates

fill = Templates(Path(__file__).with_name("objects.json"))
"""Shapes: docs.slack.dev/reference/objects and /reference/events, slack-api-specs (`events-api`),
the samples in java-slack-sdk (`json-logs`), and the tests of bolt-python and slack-go."""
Ts: TypeAlias = str | None
"""The `ts` of a root, or None outside of threads."""
Thread: TypeAlias = peers.Thread[str]
"""Its id is the `ts` of its root. It exists from the first reply on."""
BOT: peers.User[str] = peers.User(id="U0100000000", name="Segue", username="segue", bot=True)
TEAM = "T0100000001"
"""The workspace of the app."""
OTHER_TEAM = "T0200000001"
"""The workspace of another organisation. Its users can have the same ids."""
COMMAND = "/segue"
"""The app's slash command."""


class Kind(StrEnum):
    """The kinds of conversation, as in a message event's `channel_type`."""

    CHANNEL = "channel"
    GROUP = "group"
    """A private channel. Its id begins with C, as a public channel's does."""
    IM = "im"
    MPIM = "mpim"
    """A direct message with several users."""

    @property
    def family(self) -> str:
        """The kind in the names of scopes and subscriptions."""
        return f"{self}s" if self in (Kind.CHANNEL, Kind.GROUP) else str(self)


class Settings(peers.Settings, frozen=True, kw_only=True):
    """The app's settings, and the speed of the server."""

    scopes: tuple[str, ...] = tuple(fill("app")["scopes"])
    app_scopes: tuple[str, ...] = ("connections:write",)
    events: tuple[str, ...] = tuple(fill("app")["events"])
    """The events that the app subscribed to."""
    streams: bool = True
    """Whether channels support streamed messages."""
    stream_seconds: float = 300.0
    """The longest that a message streams: python-slack-sdk issue 1859, vercel/chat issue 637."""
    ack_seconds: float = 3.0
    retry_seconds: tuple[float, ...] = (0.0, 60.0, 300.0)
    """The pause before each redelivery of an event."""
    page: int = 999
    """The most messages on a page of a history. 15 for an app that is sold outside of the
    Marketplace: docs.slack.dev/changelog/2025/05/29/rate-limit-changes-for-non-marketplace-apps."""
    page_seconds: float = 0.0
    """The time between two pages; 60 for such an app, and 1.2 for others (tier 3)."""
    leave_seconds: float = 10.0
    """How long a socket stays open after the warning."""
    most_sockets: int = 10
    """How many sockets an app can have."""


class Chat(peers.Chat[str], frozen=True, kw_only=True):
    kind: Kind
    archived: bool = False
    shared: bool = False
    """With another organisation: Slack Connect."""
    restriction: str = ""
    """The error for messages here, such as `restricted_action_read_only_channel`."""


class Message(peers.Message[str], frozen=True, kw_only=True):
    """Its id is its `ts`. Its text, with the markup, is that of the blocks, if it has blocks."""

    fallback: str = ""
    """The `text` on the wire."""
    blocks: tuple[Json, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    subtype: str = ""
    team: str = TEAM
    """The workspace of the author."""
    attachments: tuple[Json, ...] = ()
    """The message that a user forwarded with it."""
    mentions: tuple[str, ...] = ()
    """The users and groups that it notifies, such as `<@U1>` and `<!channel>`."""
    streaming: bool = False
    started: float = 0.0  # to stream


class Shown(peers.Shown[str, Message, Thread], frozen=True, kw_only=True):
    sockets: int
    """The number of connections that take new envelopes."""
    connections: int
    """The number of connections that are open, those too that the bot was asked to leave."""
    most_connections: int
    """The largest number that were open at the same time."""
    failed: tuple[str, ...]
    """The commands, presses and events that the bot did not acknowledge in time."""
