"""The control interface: what a test can do to a fake, over HTTP or in the fake's event loop.

An action is a method of the fake's `Control`. Its parameters and its result travel as JSON and are
checked against its signature, so it is written once. A `Driver` names it for the test:

    say = Action(Control.say)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

from segue.testing.peers.faults import Fault, Trouble
from segue.testing.peers.snapshot import Called
from segue.testing.peers.state import State


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name of an action, and its parameters."""

    action: str
    given: msgspec.Raw = msgspec.Raw(b"{}")


AnyState = TypeVar("AnyState", bound=State[Any, Any, Any, Any, Any])


class Control(Generic[AnyState]):
    """The actions of a test. Each fake adds those of its users."""

    def __init__(self, state: AnyState) -> None:
        self.state = state

    def fail(
        self,
        method: str,
        trouble: Trouble,
        *,
        times: int = 1,
        seconds: float = 0.05,
        chat: int | str | None = None,
    ) -> None:
        """Inject a fault into the next calls of that method, only in `chat` if it is given."""
        where = None if chat is None else str(chat)
        self.state.faults.add(Fault(method, trouble, times, seconds, where))

    def populate(self, chat: int | str, members: Sequence[int | str]) -> None:
        """Replace the members of a chat, other than the bot."""
        before = self.state.chats[chat]
        self.state.chats[chat] = msgspec.structs.replace(before, members=tuple(members))

    def calm(self) -> None:
        """Remove all faults and drop the connections of hanging calls."""
        self.state.faults.calm()

    def inject(self, frames: Sequence[str]) -> None:
        """Deliver these frames as updates without checking them."""
        for frame in frames:
            self.state.updates.inject(frame)

    def repeat(self, last: int = 1) -> None:
        """Deliver the last updates again."""
        self.state.updates.repeat(last)

    def hold(self) -> None:
        """Hold updates back until `release`."""
        self.state.updates.hold()

    def release(self, *, backwards: bool = False) -> None:
        """Deliver the held updates, in reverse order if `backwards`."""
        self.state.updates.release(backwards=backwards)

    def content(self, file: str) -> bytes:
        """The content of a message's file, by file id."""
        return self.state.files[file][1]

    def calls(self, method: str | None = None) -> list[Called]:
        """The calls so far, without polls; only of `method` if it is given."""
        return [call for call in self.state.calls if method in (None, call.method)]

    def errors(self) -> tuple[str, ...]:
        """The bot's mistakes. Must be empty at the end of every test."""
        return tuple(self.state.errors)
