"""The updates waiting for the bot."""

from __future__ import annotations

from collections.abc import Sequence

from segue.testing.peers import Pulse
from segue.testing.platform.errors import Refuse
from segue.testing.platform.wire import AskUpdates, Batch


class Updates:
    """A queue that the bot confirms by offset. Unconfirmed updates are delivered again."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._all: list[str] = []
        """Every update since the start; its index is its offset."""
        self._confirmed = 0
        self._held: list[str] | None = None
        self._poll = 0
        """The number of the newest poll. Only one runs at a time."""

    @property
    def unconfirmed(self) -> int:
        return len(self._all) - self._confirmed

    def add(self, *frames: str) -> None:
        (self._all if self._held is None else self._held).extend(frames)
        self._pulse.beat()

    def inject(self, frames: Sequence[str]) -> None:
        self.add(*frames)

    def repeat(self, last: int) -> None:
        self.add(*self._all[len(self._all) - last :])

    def hold(self) -> None:
        self._held = self._held or []

    def release(self, *, backwards: bool) -> None:
        held, self._held = self._held or [], None
        self.add(*(reversed(held) if backwards else held))

    async def poll(self, asked: AskUpdates) -> Batch:
        """Return the waiting updates, or wait for one as long as the bot asked to."""
        self._confirm(asked.offset)
        self._poll += 1
        mine = self._poll
        self._pulse.beat()
        await self._come(mine, asked.seconds)
        if self._poll != mine:
            raise Refuse(409, "conflict", "Another poll was begun with this token.")
        frames = self._all[self._confirmed : self._confirmed + asked.limit]
        return Batch(frames=tuple(frames), next=self._confirmed + len(frames))

    def _confirm(self, offset: int | None) -> None:
        if offset is None:
            return
        if offset > len(self._all):
            raise Refuse(400, "bad_offset", f"There was no update {offset} yet.")
        # A delayed poll must not undo newer confirmations.
        self._confirmed = max(self._confirmed, offset)

    async def _come(self, mine: int, seconds: float) -> None:
        await self._pulse.until(lambda: self.unconfirmed > 0 or self._poll != mine, seconds)
