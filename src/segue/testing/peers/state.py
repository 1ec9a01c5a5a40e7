"""The state that all fakes share, with its limits. `clear` replaces it with a fresh one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from segue.platforms.base import Unit
from segue.testing.peers.faults import Faults, Refuse, Trouble
from segue.testing.peers.snapshot import (
    AnyMessage,
    AnyThread,
    Button,
    Called,
    Chat,
    Draft,
    File,
    Id,
    Typing,
    Upload,
    User,
)
from segue.testing.peers.updates import Pulse, Updates

_LEEWAY = 0.1
"""The fraction of an interval by which a call may be early: clocks and networks are inexact."""


def size(text: str, unit: Unit) -> int:
    """The length of `text` in the platform's unit."""
    match unit:
        case Unit.CHARACTERS:
            return len(text)
        case Unit.UTF16:
            return len(text.encode("utf-16-le", "surrogatepass")) // 2
        case Unit.BYTES:
            return len(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Pace:
    """One call every `seconds`, after a burst of `burst` calls."""

    what: str
    """The key of the limit: the account, a chat or a message."""
    seconds: float
    burst: int


class Meter:
    """Enforces several rate limits at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._free: dict[str, float] = {}

    def wait(self, *paces: Pace) -> float:
        """Count the call and return 0 if it meets every limit, else return the seconds to wait."""
        now = self._clock()
        waits = [self._early(pace, now) for pace in paces]
        if (longest := max(waits, default=0.0)) > 0:
            return longest
        for pace in paces:
            self._free[pace.what] = max(self._free.get(pace.what, now), now) + pace.seconds
        return 0.0

    def _early(self, pace: Pace, now: float) -> float:
        ahead = max(self._free.get(pace.what, now) - now, 0.0)
        return max(ahead - pace.seconds * (pace.burst - 1 + _LEEWAY), 0.0)


class Windows:
    """Allows `limit` calls of a bucket in each window of time, which begins with the first call.

    A bucket counts separately for each chat.
    """

    def __init__(self, limit: int = 5, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self._clock = clock
        self._used: dict[tuple[str, str], tuple[float, int]] = {}

    def _left(self, bucket: str, chat: str) -> tuple[int, float]:
        """The calls that are left in the window, and the seconds until it ends."""
        end, used = self._used.get((bucket, chat), (0.0, 0))
        seconds = end - self._clock()
        return (self.limit - used, seconds) if seconds > 0 else (self.limit, 0.0)

    def headers(self, bucket: str, chat: str) -> dict[str, str]:
        """What is left, as headers."""
        left, seconds = self._left(bucket, chat)
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(left),
            "X-RateLimit-Reset": f"{time.time() + seconds:.3f}",
            "X-RateLimit-Reset-After": f"{seconds:.3f}",
            "X-RateLimit-Bucket": bucket,
        }

    def wait(self, bucket: str, chat: str, window: float) -> float:
        """Count the call and return 0 if the window allows it, else the seconds to wait."""
        left, seconds = self._left(bucket, chat)
        if not left:
            return seconds
        self._used[bucket, chat] = (self._clock() + (seconds or window), self.limit - left + 1)
        return 0.0


Settings = TypeVar("Settings")
AnyChat = TypeVar("AnyChat", bound=Chat[Any])


class Place(NamedTuple, Generic[AnyChat, AnyThread]):
    """A chat, or a thread in it."""

    chat: AnyChat
    thread: AnyThread | None

    @property
    def ids(self) -> tuple[Any, Any]:
        thread = None if self.thread is None else self.thread.id
        return self.chat.id, thread


class State(Generic[Settings, Id, AnyChat, AnyThread, AnyMessage]):
    """Users, chats, threads, messages and files, and the updates, faults and calls of the bot."""

    def __init__(
        self,
        settings: Settings,
        pulse: Pulse,
        updates: Updates,
        refusal: Callable[[Trouble, float], Refuse],
    ) -> None:
        """`refusal` makes the platform's error for an injected fault."""
        self.settings = settings
        self.pulse = pulse
        self.updates = updates
        self.faults = Faults(pulse, refusal)
        self.meter = Meter()
        self.windows = Windows()
        self.url = ""
        """The URL for the bot."""
        self._counters: dict[str, int] = {}
        self.users: dict[Id, User[Id]] = {}
        self.chats: dict[Id, AnyChat] = {}
        self.threads: dict[tuple[Id, Id], AnyThread] = {}
        """By chat and id, as the messages are: some platforms number them per chat."""
        self.messages: dict[tuple[Id, Id], AnyMessage] = {}
        self.files: dict[str, tuple[File, bytes]] = {}
        self.typing: Counter[tuple[Id, Id | None]] = Counter()
        self.drafts: dict[tuple[Id, Id | None], Draft[Id]] = {}
        self.presses: set[str] = set()
        """The button presses that the bot can acknowledge."""
        self.answered: list[str] = []
        self.counts: Counter[str] = Counter()
        self.calls: list[Called] = []
        """Every call except successful polls."""
        self.refusals: list[str] = []
        """The reason of each refused call."""
        self.errors: list[str] = []

    @property
    def socket_url(self) -> str:
        """The URL for WebSockets of the bot."""
        return self.url.replace("http", "ws", 1)

    def number(self, kind: str, first: int = 1, step: int = 1) -> int:
        """The next number of that kind."""
        found = self._counters.get(kind, first)
        self._counters[kind] = found + step
        return found

    def post(self, message: AnyMessage) -> AnyMessage:
        """Show the message, in place of any draft."""
        self.drafts.pop((message.chat, message.thread), None)
        return self.put(message)

    def edit(self, before: AnyMessage, after: AnyMessage) -> AnyMessage:
        """Replace a message by its new version."""
        earlier = (*before.earlier, before.text)
        now = time.monotonic()
        date = int(time.time())
        return self.put(replace(after, earlier=earlier, edited=date, at=now))

    def put(self, message: AnyMessage) -> AnyMessage:
        self.messages[message.chat, message.id] = message
        return message

    def replies(self, chat: Id, thread: Id | None) -> list[AnyMessage]:
        """The messages in a thread, or in the chat itself."""
        return [it for it in self.messages.values() if (it.chat, it.thread) == (chat, thread)]

    def locate(self, name: Id) -> Place[AnyChat, AnyThread] | None:
        """The chat or thread with that id, where no chat has the id of a thread."""
        thread = next((it for it in self.threads.values() if it.id == name), None)
        chat_id = name if thread is None else thread.chat
        chat = self.chats.get(chat_id)
        return None if chat is None else Place(chat, thread)

    def page(
        self,
        at: Place[AnyChat, AnyThread],
        limit: int,
        after: Id | None = None,
        before: Id | None = None,
    ) -> list[AnyMessage]:
        """The newest messages there, the last ones before `before`, or the first ones after
        `after`; the newest first."""
        every = self.replies(*at.ids)
        if after is not None:
            return [it for it in every if it.id > after][:limit][::-1]
        return [it for it in every if before is None or it.id < before][-limit:][::-1]

    def press(self, message: AnyMessage, label: str, name: str) -> Button | None:
        """Press the button with that label under that name, which the bot can acknowledge."""
        found = next((button for button in message.buttons if button.label == label), None)
        if found is not None:
            self.presses.add(name)
        return found

    def delete_thread(self, chat: Id, thread: Id) -> bool:
        """Delete a thread and everything in it. Return whether there was one."""
        self.messages = {
            it: message
            for it, message in self.messages.items()
            if (message.chat, message.thread) != (chat, thread)
        }
        return self.threads.pop((chat, thread), None) is not None

    def add_file(self, name: str, upload: Upload) -> File:
        """Store a file under that id."""
        file = File(
            id=name,
            name=upload.name,
            media_type=upload.media_type,
            size=len(upload.content),
            kind=upload.kind,
        )
        self.files[name] = (file, upload.content)
        return file

    def draft(self, draft: Draft[Id]) -> None:
        """Show the draft, in place of the one before."""
        before = self.drafts.get((draft.chat, draft.thread))
        times = before.times + 1 if before is not None and before.id == draft.id else 1
        self.drafts[draft.chat, draft.thread] = replace(draft, times=times)

    def wait(self, chat: Id, per_second: float, chat_seconds: float, burst: int) -> float:
        """Count a message of the bot. Return the seconds to wait if it comes too early, else 0.

        `burst` messages may come at once in a chat. A limit of 0 is none.
        """
        paces: list[Pace] = []
        if per_second:
            paces.append(Pace("account", 1 / per_second, max(round(per_second), 1)))
        if chat_seconds:
            paces.append(Pace(f"chat {chat}", chat_seconds, burst))
        return self.meter.wait(*paces)

    def close(self) -> None:
        """Stop what runs for this state. It is replaced, or the fake ends."""

    def snapshot(self, chat: Any) -> object:
        """Return a `Shown`, only of `chat` if it is given. Each fake implements it."""
        raise NotImplementedError

    def shown(self, chat: Id | None, **more: Any) -> Mapping[str, Any]:
        """The fields of a `Shown`, with these of the platform, only of `chat` if it is given."""
        typing = [
            Typing(chat=where, thread=thread, times=times)
            for (where, thread), times in self.typing.items()
        ]

        def inside(them: Iterable[Any]) -> tuple[Any, ...]:
            return tuple(it for it in them if chat in (None, it.chat))

        return {
            "version": self.pulse.count,
            "messages": inside(it for it in self.messages.values() if not it.service),
            "threads": inside(self.threads.values()),
            "typing": inside(typing),
            "drafts": inside(self.drafts.values()),
            "answered": tuple(self.answered),
            "calls": dict(self.counts),
            "errors": tuple(self.errors),
            "hanging": self.faults.hanging,
            "unconfirmed": len(self.updates.waiting),
            **more,
        }
