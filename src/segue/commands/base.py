"""The Command type, and the context that a command receives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, dataclass
from datetime import tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from segue.core.address import Platform
from segue.core.approval import Answer
from segue.core.errors import NothingSaid, UserError
from segue.core.session import Session
from segue.core.text import one_line
from segue.core.transcript import Message

if TYPE_CHECKING:  # keeps the table fast to import, for completion
    from segue.handoffs import HandoffRequest
    from segue.store import Store
    from segue.turns import HeldLease, Place, Turns

PREFIX = "/"


class Where(StrEnum):
    """Where a command can be typed. The web page is a chat."""

    TERMINAL = "the terminal"
    CHAT = "chats"


EVERYWHERE = frozenset(Where)
TERMINAL = frozenset({Where.TERMINAL})
CHAT = frozenset({Where.CHAT})


class Category(StrEnum):
    CONVERSATION = "Conversation"
    SESSION = "Session"
    AGENT = "Agent"
    PROGRAM = "Program"


class CommandContext(Protocol):
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
    def zone(self) -> tzinfo:
        """The user's time zone."""
        ...

    @property
    def session(self) -> Session | None:
        """The session at this place, as last seen. None before the first message."""
        ...

    async def begun(self) -> Session:
        """The session at this place. Start one if there is none."""
        ...

    def in_hand(self) -> AbstractAsyncContextManager[HeldLease]:
        """Hold the session at this place in order to change it. Raise SessionMoved if it is
        elsewhere."""
        ...

    async def notice(self, text: str) -> None:
        """Show the user a notice that is not part of the conversation."""

    async def list_commands(self, listed: Sequence[Command]) -> None:
        """Show the user the available commands."""

    async def say(self, message: Message | None) -> None:
        """Run a turn: answer `message`, or continue from the last message."""

    async def fresh(self, title: str | None) -> None:
        """Leave the session at this place as it is, and start another one here."""

    async def resume(self, session: Session) -> None:
        """Move that session here."""

    async def hand_off(self, request: HandoffRequest, *, lan: bool = False) -> None:
        """Hand off the session. With `lan`, phones in the local network may open the page."""


class TerminalContext(CommandContext, Protocol):
    """The context of terminal-only commands."""

    async def follow(self) -> None:
        """Show the messages of a session that is now elsewhere."""

    async def leave(self) -> None:
        """Exit the program without ending the session."""


class ChatContext(CommandContext, Protocol):
    """The context of chat-only commands."""

    async def offer(self, offered: Sequence[Session]) -> None:
        """Let the user choose a session to move here."""

    async def offer_platforms(self, text: str, ready: Sequence[Platform]) -> None:
        """Let the user choose where this session moves to. `text` lists the platforms, and `ready`
        has those that it can move to now."""

    async def stop(self) -> None:
        """Interrupt the running turn."""

    async def answer(self, answer: Answer, number: int | None) -> None:
        """Answer the approval question with that number. A call that the user has not seen all of
        is shown instead of allowed. Raise UserError without a number, if it was not asked here, and
        if it is closed."""

    async def show(self, number: int | None) -> None:
        """Show the whole call that a question is about, and ask again. Without a number, use the
        question that is open."""

    async def set_home(self, *, confirmed: bool) -> None:
        """Make this chat the home channel. If others can read it, the user must confirm."""

    async def greet(self, code: str) -> None:
        """Introduce the bot and explain pairing. `code`, if any, was not valid."""

    async def who_am_i(self) -> None:
        """Show the user's identity on this platform."""


Run = Callable[[Any, str], Awaitable[None]]
"""The function that runs a command. Its context type matches the command's `where`."""


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command."""

    name: str
    category: Category
    summary: str
    run: Run
    arguments: str = ""
    _: KW_ONLY
    aliases: tuple[str, ...] = ()
    where: frozenset[Where] = EVERYWHERE
    at_once: bool = False
    """In a chat, run without waiting for the current turn."""
    instead: str = ""
    """What to type for the same where this command does not work."""

    @property
    def usage(self) -> str:
        return f"{PREFIX}{self.name} {self.arguments}".rstrip()


def there(context: CommandContext) -> Session:
    """The session at this place. Raise NothingSaid if there is none."""
    if context.session is None:
        raise NothingSaid
    return context.session


def unquoted(name: str) -> str:
    """Return a name without the quotes that it has in a shell command."""
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] and name[0] in "'\"" else name


def number(text: str, usage: str, default: int | None = None) -> int:
    """Parse a number that the user typed. Raise UserError for anything else."""
    if not text and default is not None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) > 0):
        reason = f"{one_line(text, 20)!r} is not a number" if text else "the number is missing"
        raise bad_command(f"{PREFIX}{usage}", reason)
    return int(text)


def bad_command(usage: str, reason: str) -> UserError:
    return UserError(f"That does not work: {reason}. Type {usage}.")
