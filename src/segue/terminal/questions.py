"""Questions in the terminal. The answer is one of a few words, alone on its line."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from segue.core.approval import Answer

T = TypeVar("T")


class Leaving(enum.Enum):
    """What to do when the agent does not come to a safe point."""

    WAIT = enum.auto()
    NOW = enum.auto()
    STAY = enum.auto()


LEAVING = {
    "w": Leaving.WAIT,
    "wait": Leaving.WAIT,
    "m": Leaving.NOW,
    "move": Leaving.NOW,
    "s": Leaving.STAY,
    "stay": Leaving.STAY,
}
YES_OR_NO = {"y": True, "yes": True, "n": False, "no": False}
APPROVAL: Mapping[str, Answer] = {
    "y": Answer.ONCE,
    "yes": Answer.ONCE,
    "s": Answer.SESSION,
    "session": Answer.SESSION,
    "n": Answer.NEVER,
    "no": Answer.NEVER,
}
UNSEEN: Mapping[str, Answer | None] = {
    "v": None,
    "view": None,
    "n": Answer.NEVER,
    "no": Answer.NEVER,
}
"""For a call that the user has not seen all of. None is a request to see it."""


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """An open question."""

    text: str
    choices: Mapping[str, T]
    answer: asyncio.Future[T]

    def accept(self, line: str) -> bool:
        """Answer the question if `line` is one of the choices, and return whether it was."""
        word = line.strip().lower()
        if word not in self.choices or self.answer.done():
            return False
        self.answer.set_result(self.choices[word])
        return True

    @property
    def hint(self) -> str:
        """The message after a line that is not an answer."""
        *first, last = [word for word in self.choices if len(word) == 1]
        return f"That is not an answer. Type {', '.join(first)} or {last}, then Enter."
