"""The updates waiting for the bot: core.telegram.org/bots/api#getting-updates and #getupdates.

An offset permanently confirms all updates with smaller ids. Unconfirmed updates are delivered
again. Only one poll runs at a time: a second one ends the first with 409. `allowed_updates` selects
the types of update that are queued after the call.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, get_args

from segue.testing.peers import Pulse
from segue.testing.telegram.errors import OTHER_POLL, WEBHOOK_SET, Refuse
from segue.testing.telegram.wire import GetUpdates, UpdateType

_LONGEST_POLL = 50
_FIRST = 480_000_001
_UNASKED = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
"""Types that a bot receives only if it asks for them by name."""


@dataclass(frozen=True, slots=True)
class _Update:
    id: int
    frame: str
    once: bool = False
    """Deliver it once, regardless of confirmation."""


class Updates:
    def __init__(self, pulse: Pulse, webhook: str) -> None:
        self._pulse = pulse
        self.webhook = webhook
        self._ids = itertools.count(_FIRST)
        self._allowed: frozenset[str] = frozenset(get_args(UpdateType)) - _UNASKED
        self._waiting: list[_Update] = []
        self._all: list[_Update] = []
        self._held: list[_Update] | None = None
        self._poll = 0
        """The number of the newest poll. Only one runs at a time."""

    @property
    def unconfirmed(self) -> int:
        return len(self._waiting)

    def add(self, kind: str, payload: object) -> None:
        """Queue an update, if the bot wants this type."""
        if kind in self._allowed:
            self._put({kind: payload})

    def inject(self, frames: Sequence[str]) -> None:
        """Queue these frames without checking them.

        Each gets an update id, as Telegram always sends one. A frame that is not a JSON object is
        delivered in place of a message.
        """
        for frame in frames:
            try:
                update: Any = json.loads(frame)
            except (ValueError, RecursionError):
                update = frame
            whole = cast("dict[str, object]", update) if isinstance(update, dict) else None
            self._put({"message": update} if whole is None else whole)

    def deliver(self, frame: str) -> None:
        """Queue this text exactly as given, with `{id}` replaced by the update id."""
        number = next(self._ids)
        self._queue(_Update(number, frame.replace("{id}", str(number))))

    def _put(self, update: dict[str, object]) -> None:
        number = next(self._ids)
        self._queue(_Update(number, json.dumps({**update, "update_id": number})))

    def _queue(self, made: _Update) -> None:
        self._all.append(made)
        (self._waiting if self._held is None else self._held).append(made)
        self._pulse.beat()

    def repeat(self, last: int) -> None:
        """Deliver the last updates again, confirmed or not."""
        again = self._all[len(self._all) - last :]
        self._waiting.extend(replace(update, once=True) for update in again)
        self._pulse.beat()

    def hold(self) -> None:
        self._held = self._held or []

    def release(self, *, backwards: bool) -> None:
        held, self._held = self._held or [], None
        self._waiting.extend(reversed(held) if backwards else held)
        self._pulse.beat()

    def drop(self) -> None:
        """Discard the waiting updates."""
        self._waiting.clear()

    async def poll(self, asked: GetUpdates) -> list[str]:
        """Return the waiting updates as JSON, or wait for one as long as the bot asked to."""
        if self.webhook:
            raise Refuse(409, WEBHOOK_SET)
        if asked.allowed_updates is not None:
            named = frozenset[str](asked.allowed_updates)
            self._allowed = named or frozenset(get_args(UpdateType)) - _UNASKED
        self._confirm(asked.offset or 0)
        self._poll += 1
        mine = self._poll
        self._pulse.beat()
        seconds = min(asked.timeout, _LONGEST_POLL)
        await self._pulse.until(lambda: bool(self._waiting) or self._poll != mine, seconds)
        if self._poll != mine:
            raise Refuse(409, OTHER_POLL)
        batch = self._waiting[: asked.limit]
        self._waiting = [
            *(update for update in batch if not update.once),
            *self._waiting[asked.limit :],
        ]
        return [update.frame for update in batch]

    def _confirm(self, offset: int) -> None:
        if offset < 0:
            self._waiting = self._waiting[offset:]
        elif offset > 0:
            self._waiting = [it for it in self._waiting if it.once or it.id >= offset]
