"""The state of the WhatsApp fake, as types: what it adds to the types of all platforms."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import TypeAlias

from segue.testing import peers
from segue.testing.peers.templates import Json as Json
from segue.testing.peers.templates import Templates
from tests.fakes.protocols.hub import HubSettings

PHONE = "106540352242922"
"""The id of the bot's number."""
NUMBER = "15550783881"
"""The bot's number, as it is shown."""
Thread: TypeAlias = peers.Thread[str]


class _Objects(Templates):
    def sha256(self, content: bytes) -> str:
        return base64.b64encode(hashlib.sha256(content).digest()).decode()


fill = _Objects(Path(__file__).with_name("objects.json"))
"""Shapes: facebook/openapi (business-messaging-api), the webhook reference, and the updates in the
tests of pywa."""


class Settings(HubSettings, frozen=True, kw_only=True):
    """The number's settings at Meta."""

    window_seconds: float = 86_400.0
    """How long after a user's last message the bot can write freely."""
    window_checked_late: bool = True
    """A message outside of the window is accepted, and fails with a status. That is what bots
    report (fabrahaingo/joel pull request 314); the documentation also allows a refusal."""
    url_seconds: float = 300.0
    """How long the URL of a file is valid."""
    templates: tuple[str, ...] = ("segue_message/en",)
    """Approved templates, `name/language`, each with one parameter in its body."""
    statuses: tuple[str, ...] = ("sent", "delivered")
    """What the bot hears of a message that arrives."""
    policy: int = 0
    """The code with which every message is refused, such as 368."""


class Message(peers.Message[str], frozen=True, kw_only=True):
    """Its id is a `wamid`. Its chat is the user, by `wa_id`."""

    kind: str = "text"
    """The `type` on the wire."""
    tracker: str | None = None
    """`biz_opaque_callback_data`, which its statuses repeat."""
    reaction: str = ""
    """The emoji with which the other side reacted."""
    template: str = ""
    forwarded: bool = False


class Shown(peers.Shown[str, Message, Thread], frozen=True, kw_only=True):
    verified: bool
    """Whether the webhook answered the handshake."""
    answers: dict[str, int]
    """How often the webhook answered with each HTTP status. 0: it did not answer."""
    read: tuple[str, ...]
    """The messages of users that the bot marked as read."""
    failed: dict[str, int]
    """The code of each message of the bot that was accepted and not delivered."""
