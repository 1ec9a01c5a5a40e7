"""Approval policies, and the user's answers when the agent asks."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from enum import StrEnum

from msgspec import Struct

from segue.core.transcript import ToolCall


class Policy(StrEnum):
    """How much the agent may do without asking."""

    ASK = "ask"
    ALLOW_LIST = "allow-list"
    AUTO = "auto"


class Answer(StrEnum):
    """The user's answer to a tool call."""

    ONCE = "once"
    SESSION = "session"
    """Allow this exact call for the rest of the session."""
    NEVER = "never"
    MISSING = "missing"
    """There was no user to ask, or no answer in time. Nothing runs. Never stored."""


class Description(Struct, frozen=True):
    """What a call will do, in words for the user, escaped with `visible`."""

    head: str
    """What the user must see whatever else the call says: its kind, its target, and what it
    permits, in lines in this order. The model decides nothing about their number or order."""
    rest: str = ""

    @classmethod
    def of(cls, text: str) -> Description:
        """A description whose first line is its head."""
        head, _, rest = text.partition("\n")
        return cls(head, rest)

    def __str__(self) -> str:
        return f"{self.head}\n{self.rest}" if self.rest else self.head


Approve = Callable[[ToolCall, Description, str], Awaitable[Answer]]
"""Asks the user to approve one exact call.

Takes the call, a description of what it will do, and its fingerprint, which also covers the file
that the call is bound to. The answer applies to that fingerprint only.
"""


def plain_words(command: str) -> list[str]:
    """Split a command that consists only of plain words. Return an empty list if the shell would
    interpret any of it, as in `git status; rm -r .`, or if the user could not see all of it."""
    if not command.isprintable() or any(c in command for c in ";&|<>`$(){}*?[]~!#\\"):
        return []
    try:
        return shlex.split(command)
    except ValueError:  # an unclosed quotation mark
        return []
