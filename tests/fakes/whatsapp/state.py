"""The WhatsApp fake's state: users, the bot's number, and the webhook.

`errors.json` has the status and the text of each error of the Graph API.
developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes: the codes,
each with its HTTP status. An error comes as the response to a call, or later in a status, or both.
"""

from __future__ import annotations

import base64
import hashlib
import time
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from segue.testing import peers
from segue.testing.http import Response
from segue.testing.peers import File, Pulse, Refuse, Trouble, Updates, Upload, User
from tests.fakes.protocols.errors import Codes, bad_gateway
from tests.fakes.protocols.hub import Hub, HubSettings
from tests.fakes.protocols.templates import Json as Json
from tests.fakes.protocols.templates import Templates

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


MEDIA = msgspec.json.decode(
    Path(__file__).with_name("media.json").read_bytes(), type=dict[str, tuple[int, tuple[str, ...]]]
)
"""The largest size and the media types of each kind of file."""


class GraphCodes(Codes):
    def body(self, code: int, status: int, **more: Any) -> Json:
        data = {"messaging_product": "whatsapp", **more} if more else None
        return fill("refusal", code=code, title=self.text(code), data=data)

    def invalid(self, reason: str, kind: str = "", *, mistake: bool = True) -> Refuse:
        return self(100, details=reason, mistake=mistake)


refuse = GraphCodes(Path(__file__).with_name("errors.json"), invalid=100)
check = refuse.check


def missing(name: str) -> Refuse:
    """The error of an object that does not exist, or is not the app's."""
    body = msgspec.json.encode(fill("missing", name=name))
    return Refuse(f"there is no {name}", Response(400, body=body))


def injected(trouble: Trouble, seconds: float) -> Refuse:
    """Return the error for a fault that a test ordered. WhatsApp never says how long to wait."""
    if trouble is Trouble.BUSY:
        return refuse(130429, details="Cloud API message throughput has been reached.")
    return refuse(131005) if trouble is Trouble.FORBIDDEN else bad_gateway()


APP_SECRET = "the-secret-of-the-app-for-tests"
_SHOWN = f"+{NUMBER[0]} {NUMBER[1:4]}-{NUMBER[4:7]}-{NUMBER[7:]}"
_FIRST_USER = 491_510_000_000_001  # 15 digits: no number is longer


class State(peers.State[Settings, str, peers.Chat[str], Thread, Message]):
    def __init__(self, settings: Settings, pulse: Pulse) -> None:
        super().__init__(settings, pulse, Updates(pulse), injected)
        self.hub = Hub(self, APP_SECRET)
        self.users[PHONE] = User(id=PHONE, name=_SHOWN, bot=True)
        self.heard: dict[str, float] = {}
        """When each user wrote last."""
        self.read: list[str] = []
        self.failed: dict[str, int] = {}
        self.blocked: set[str] = set()
        self.received: dict[str, str] = {}
        """The user of each message that the bot received."""

    def close(self) -> None:
        self.hub.close()

    def wamid(self, user: str) -> str:
        """The user's number and a random id, in no order: only the timestamp has one."""
        inside = f"\x1c\x18\x0f{user}\x15\x02{self.number('message') * 2_654_435_761 % 2**32:08X}"
        return f"wamid.{base64.b64encode(inside.encode()).decode()}"

    def add_user(self, name: str) -> str:
        number = str(self.number("user", _FIRST_USER))
        self.users[number] = User(id=number, name=name)
        self.chats[number] = peers.Chat(id=number, title=name, members=(number,))
        return number

    def message(self, name: str) -> Message:
        found = next((it for it in self.messages.values() if it.id == name), None)
        if found is None:
            raise refuse.invalid(f"there is no message {name}")
        return found

    def store(self, upload: Upload) -> File:
        return self.add_file(str(self.number("file", 1_003_383_421_387_256)), upload)

    # What the bot hears

    def hear(self, message: Message, content: Json, context: Json | None = None) -> None:
        """Queue an update about a user's message, which opens the window."""
        self.heard[message.author] = time.time()
        self.received[message.id] = message.author
        whole = fill("message", it=message, kind=message.kind, context=context) | content
        self._tell(message.author, messages=[whole])

    def fail(self, message: Message, code: int) -> None:
        """Report that a message of the bot, which was accepted, is not delivered."""
        self.failed[message.id] = code
        self.report(message, "failed", errors=[fill("error", code=code, title=refuse.text(code))])

    def report(self, message: Message, status: str, errors: list[Json] | None = None) -> None:
        """Queue a status of the bot's message."""
        billed = {it: None if errors else fill(it) for it in ("conversation", "pricing")}
        given: Json = {"status": status, "time": int(time.time()), "errors": errors, **billed}
        self._tell(message.chat, statuses=[fill("status", it=message, **given)])

    def _tell(self, user: str, **given: list[Json]) -> None:
        contact = fill("contact", it=self.users.get(user) or User(id=user, name=""))
        value = fill("value", number=NUMBER, phone=PHONE, contacts=[contact]) | given
        self.updates.inject(msgspec.json.encode(fill("payload", value=value)).decode())

    def snapshot(self, chat: str | None) -> Shown:
        answers = {str(status): times for status, times in self.hub.answers.items()}
        return Shown(
            **self.shown(chat),
            verified=self.hub.is_verified,
            answers=answers,
            read=tuple(self.read),
            failed=dict(self.failed),
        )
