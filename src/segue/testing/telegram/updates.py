"""The updates that wait for the bot: core.telegram.org/bots/api#getting-updates and #getupdates.

An update is confirmed by an offset above its id, for good; what is not confirmed comes again. One
poll at a time: a second one ends the first with 409. Which types come is chosen by
`allowed_updates` for what happens after the call.
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
"""What comes only to a bot that asks for it by name."""


@dataclass(frozen=True, slots=True)
class _Update:
    id: int
    frame: str
    once: bool = False
    """It is delivered one time, whatever is confirmed."""


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
        """The newest poll, by number: there is one at a time."""

    @property
    def unconfirmed(self) -> int:
        return len(self._waiting)

    def add(self, kind: str, payload: object) -> None:
        """Tell the bot, if it wants to hear of such things."""
        if kind in self._allowed:
            self._put({kind: payload})

    def inject(self, frames: Sequence[str]) -> None:
        """Tell it these, whatever they are, as updates with an id, which no answer of Telegram's is
        without. What is no JSON object comes in the place of a message."""
        for frame in frames:
            try:
                update: Any = json.loads(frame)
            except (ValueError, RecursionError):
                update = frame
            whole = cast("dict[str, object]", update) if isinstance(update, dict) else None
            self._put({"message": update} if whole is None else whole)

    def deliver(self, frame: str) -> None:
        """Tell it this, character by character, with the id in the place of `{id}`."""
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
        """Deliver the last ones once more, confirmed or not."""
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
        """Forget what waits."""
        self._waiting.clear()

    async def poll(self, asked: GetUpdates) -> list[str]:
        """What is there, or what comes in the time that the bot wants to wait, as JSON."""
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
