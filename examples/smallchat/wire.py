"""What SmallChat says, as types."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Update(Struct, frozen=True, kw_only=True):
    """A message that was posted."""

    id: int
    chat: str
    kind: Literal["dm", "group"]
    thread: str | None
    user: str
    name: str
    bot: bool
    message: str
    text: str


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a call, which has only the fields that the call needs."""

    id: str = ""
    updates: tuple[str, ...] = ()
    """Each as JSON text, so that a broken one does not affect the others."""
    last: int = 0
    """Confirms these updates, as the `after` of the next call."""
    error: str = ""
    after: float | None = None
    """Seconds to wait before the next attempt."""
