"""The WhatsApp fake's state: users, the bot's number, and the webhook."""

from __future__ import annotations

import base64
import time

import msgspec

from segue.testing import peers
from segue.testing.peers import File, Pulse, Updates, Upload, User
from tests.fakes.protocols.hub import Hub
from tests.fakes.whatsapp import errors, snapshot
from tests.fakes.whatsapp.errors import refuse
from tests.fakes.whatsapp.snapshot import NUMBER, PHONE, Json, Message, Settings, Thread, fill

APP_SECRET = "the-secret-of-the-app-for-tests"
_SHOWN = f"+{NUMBER[0]} {NUMBER[1:4]}-{NUMBER[4:7]}-{NUMBER[7:]}"
_FIRST_USER = 491_510_000_000_001  # 15 digits: no number is longer


class State(peers.State[Settings, str, peers.Chat[str], Thread, Message]):
    def __init__(self, settings: Settings, pulse: Pulse) -> None:
        super().__init__(settings, pulse, Updates(pulse), errors.injected)
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

    def snapshot(self, chat: str | None) -> snapshot.Shown:
        answers = {str(status): times for status, times in self.hub.answers.items()}
        return snapshot.Shown(
            **self.shown(chat),
            verified=self.hub.is_verified,
            answers=answers,
            read=tuple(self.read),
            failed=dict(self.failed),
        )
