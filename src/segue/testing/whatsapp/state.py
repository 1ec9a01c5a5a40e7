"""The WhatsApp fake's state: users, the bot's number, and the webhook."""

from __future__ import annotations

import base64
import time
from collections import Counter
from dataclasses import dataclass

import msgspec

from segue.testing import peers
from segue.testing.peers import File, Pulse, Updates, Upload, User
from segue.testing.whatsapp import errors, snapshot
from segue.testing.whatsapp.errors import CODES, mistake
from segue.testing.whatsapp.snapshot import NUMBER, PHONE, Json, Message, Settings, Thread, fill

_FIRST_USER = 491_510_000_000_001  # 15 digits: no number is longer


@dataclass(slots=True)
class Webhook:
    url: str
    verify_token: str
    verified: bool = False


class State(peers.State[Settings, str, peers.Chat[str], Thread, Message]):
    def __init__(self, settings: Settings, pulse: Pulse) -> None:
        super().__init__(settings, pulse, Updates(pulse), errors.injected)
        self.users[PHONE] = User(id=PHONE, name="Segue", bot=True)
        self.webhook: Webhook | None = None
        self.answers: Counter[int] = Counter()
        self.heard: dict[str, float] = {}
        """When each user wrote last."""
        self.read: list[str] = []
        self.failed: dict[str, int] = {}
        self.blocked: set[str] = set()
        self.received: dict[str, str] = {}
        """The user of each message that the bot received."""

    def wamid(self, user: str) -> str:
        """The user's number and a random id, in no order: only the timestamp has one."""
        inside = f"\x1c\x18\x0f{user}\x15\x02{self.number('message') * 2_654_435_761 % 2**32:08X}"
        return f"wamid.{base64.b64encode(inside.encode()).decode()}"

    def add_user(self, name: str) -> str:
        number = str(self.number("user", _FIRST_USER))
        self.users[number] = User(id=number, name=name)
        self.chats[number] = peers.Chat(id=number, title=name, members=(number,))
        return number

    def user(self, name: str) -> User[str]:
        if (user := self.users.get(name)) is None:
            raise mistake(f"there is no user {name}")
        return user

    def message(self, name: str) -> Message:
        found = next((it for it in self.messages.values() if it.id == name), None)
        if found is None:
            raise mistake(f"there is no message {name}")
        return found

    def store(self, upload: Upload) -> File:
        return self.add_file(str(self.number("file", 1_003_383_421_387_256)), upload)

    # What the bot hears

    def hear(self, message: Message, content: Json, context: Json | None = None) -> None:
        """Queue an update about a user's message, which opens the window."""
        self.heard[message.author] = time.time()
        self.received[message.id] = message.author
        whole = fill("message", it=message, kind=message.kind, context=context) | content
        contact = fill("contact", it=self.users[message.author])
        self.tell(contacts=[contact], messages=[whole])

    def report(self, message: Message, status: str, code: int = 0) -> None:
        """Queue a status of the bot's message."""
        failure = (
            [fill("error", code=code, title=CODES[code][1], details=CODES[code][1])]
            if code
            else None
        )
        made = fill(
            "status",
            it=message,
            status=status,
            time=int(time.time()),
            errors=failure,
            conversation=None if code else fill("conversation"),
            pricing=None if code else fill("pricing"),
        )
        self.tell(statuses=[made])

    def tell(
        self,
        contacts: list[Json] | None = None,
        messages: list[Json] | None = None,
        statuses: list[Json] | None = None,
    ) -> None:
        given = {"contacts": contacts, "messages": messages, "statuses": statuses}
        value = fill("value", number=NUMBER, phone=PHONE, **given)
        frame = msgspec.json.encode(fill("payload", value=value)).decode()
        self.updates.inject(frame)

    def snapshot(self, chat: str | None) -> snapshot.Shown:
        return snapshot.Shown(
            **self.shown(chat),
            verified=self.webhook is not None and self.webhook.verified,
            answers={str(status): number for status, number in self.answers.items()},
            read=tuple(self.read),
            failed=dict(self.failed),
        )
