"""What a command is, and what it is given: the scene in which it was typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from segue.core.approval import Answer
from segue.core.errors import BadCommand, NothingSaid
from segue.core.session import Session
from segue.core.text import one_line
from segue.core.transcript import Message

if TYPE_CHECKING:  # so that the table can be read, for completion, before anything else is loaded
    from segue.store import Store
    from segue.turns import Held, Place, Turns

PREFIX = "/"


class Where(StrEnum):
    """Where a command can be typed."""

    TERMINAL = "terminal"
    CHAT = "chat"


EVERYWHERE = frozenset(Where)
TERMINAL = frozenset({Where.TERMINAL})
CHAT = frozenset({Where.CHAT})


class Category(StrEnum):
    CONVERSATION = "Conversation"
    SESSION = "Session"
    AGENT = "Agent"
    PROGRAM = "Program"


class Scene(Protocol):
    """Where a command was typed, and what can be done there."""

    @property
    def store(self) -> Store: ...

    @property
    def turns(self) -> Turns: ...

    @property
    def owner(self) -> str: ...

    @property
    def where(self) -> Where: ...

    @property
    def place(self) -> Place: ...

    @property
    def session(self) -> Session | None:
        """The session of this place, as last seen; None before anything was said."""
        ...

    async def begun(self) -> Session:
        """The session of this place, begun if need be."""
        ...

    def in_hand(self) -> AbstractAsyncContextManager[Held]:
        """The session of this place, for changing it; SessionMoved when it is elsewhere."""
        ...

    async def notice(self, text: str) -> None:
        """Tell the person something that is not part of the conversation."""
        ...

    async def list_commands(self, listed: Sequence[Command]) -> None:
        """Show the person what they can type."""
        ...

    async def say(self, message: Message | None) -> None:
        """Take a turn: answer `message`, or go on from the last one."""
        ...

    async def fresh(self, title: str | None) -> None:
        """Leave the session of this place as it is, and begin another one here."""
        ...

    async def resume(self, session: Session) -> None:
        """Bring that session here."""
        ...


class TerminalScene(Scene, Protocol):
    """The scene of a command that only a terminal knows."""

    async def hand_off(self, platform: str) -> None:
        """Move the session of this place to another platform."""
        ...

    async def follow(self) -> None:
        """Show what is said in the session elsewhere."""
        ...

    async def leave(self) -> None:
        """End the program here, and not the session."""
        ...


class ChatScene(Scene, Protocol):
    """The scene of a command that only chats know."""

    async def offer(self, offered: Sequence[Session]) -> None:
        """Let the person choose one of these to bring here."""
        ...

    async def stop(self) -> None:
        """Interrupt the turn that is under way here."""
        ...

    async def answer(self, answer: Answer, number: int | None) -> None:
        """Answer the question with that number; ApprovalUnnamed without one, ApprovalOver when it
        does not wait here."""
        ...

    async def show(self, number: int | None, page: int) -> None:
        """Show a page of the whole call that a question is about; without a number, of the one
        that waits."""
        ...

    async def set_home(self, *, confirmed: bool) -> None:
        """Let handoffs arrive here. Where others can read along, it is to be confirmed."""
        ...

    async def greet(self, code: str) -> None:
        """Say what the bot is and how pairing works; `code` did not pair anybody."""
        ...

    async def who_am_i(self) -> None:
        """Tell the person how they are known here."""
        ...


Run = Callable[[Any, str], Awaitable[None]]
"""What a command does. Its scene is that of the places where it can be typed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A slash instruction to the program."""

    name: str
    category: Category
    summary: str
    run: Run
    arguments: str = ""
    aliases: tuple[str, ...] = ()
    where: frozenset[Where] = EVERYWHERE
    elsewhere: str = ""
    """What to tell a person who types it where it is not known."""
    at_once: bool = False
    """In a chat it does not wait for the turn that is under way there."""

    @property
    def usage(self) -> str:
        return f"{PREFIX}{self.name} {self.arguments}".rstrip()


def there(scene: Scene) -> Session:
    """The session of this place; NothingSaid when it has not begun."""
    if scene.session is None:
        raise NothingSaid
    return scene.session


def number(text: str, usage: str, default: int | None = None) -> int:
    """The number that a person typed; BadCommand for anything else."""
    if not text and default is not None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) > 0):
        reason = f"{one_line(text, 20)!r} is no number" if text else "it needs a number"
        raise BadCommand(usage=f"{PREFIX}{usage}", reason=reason)
    return int(text)
