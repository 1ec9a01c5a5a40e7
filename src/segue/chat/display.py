"""Displays a conversation: turns events, notices and questions into lines on the console."""

from __future__ import annotations

import enum
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from segue.chat.questions import APPROVAL, YES_OR_NO
from segue.chat.render import cells, events
from segue.chat.render.clean import clean
from segue.chat.render.command_list import command_list
from segue.chat.render.screen import Screen, Style
from segue.chat.render.status_line import status_line
from segue.chat.render.stream import Stream, begin
from segue.core.address import Platform
from segue.core.approval import Answer
from segue.core.errors import SessionError, UserError
from segue.core.events import NO_ANSWER, Event, TextDelta, TurnDone, TurnFailed, TurnInterrupted
from segue.core.session import Session, Usage
from segue.core.text import count, is_empty
from segue.core.transcript import Message, Role, ToolCall, words

if TYPE_CHECKING:
    from segue.chat.console import Console
    from segue.chat.plain import PlainConsole
    from segue.commands.base import Command
    from segue.handoff import Progress

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_MAX_SPOKEN = 30
"""How many lines of a user message are shown after the first."""


class _Kind(enum.Enum):
    """The kind of the last output, as far as the spacing depends on it."""

    NOTHING = enum.auto()
    WORDS = enum.auto()
    ACTIVITY = enum.auto()


class Display:
    """Shows one conversation on one console."""

    def __init__(self, console: Console | PlainConsole, screen: Screen, *, echo: bool) -> None:
        """Set `echo` if user input must be printed because the prompt is erased."""
        self.session: Session | None = None
        self.moved = False
        """Whether another process has taken the session."""
        self.model = ""
        self._console = console
        self._screen = screen
        self._echo = echo
        self._activity = events.Activity()
        self._kind = _Kind.NOTHING
        self._spoke = False
        """Whether the answer of this turn had any visible text."""

    # The conversation

    async def said(self, text: str) -> None:
        """Echo the user's input when its turn starts."""
        if self._echo:
            await self._print(["", *self._spoken(text), ""])

    async def event(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            await self._words(self._stream().feed(event.text))
            self._console.redraw()
            return
        await self.rest()
        if isinstance(event, TurnDone) and not self._spoke:
            await self.notice(NO_ANSWER)
        if isinstance(event, TurnDone | TurnFailed | TurnInterrupted):
            self._spoke = False
        await self._print(self._activity.lines(event, self._now()), _Kind.ACTIVITY)

    async def rest(self) -> None:
        """Print the rest of the answer."""
        stream, self._console.still_coming = self._console.still_coming, None
        if stream is not None:
            await self._words(stream.end())

    async def _words(self, lines: Sequence[str]) -> None:
        self._spoke = self._spoke or any(not is_empty(_STYLE.sub("", line)) for line in lines)
        await self._print(lines, _Kind.WORDS)

    async def message(self, message: Message) -> None:
        """Print a message from elsewhere."""
        screen = self._now()
        match message.role:
            case Role.USER:
                await self._print(["", *self._spoken(message.content), ""])
            case Role.TOOL:
                await self._print(events.finished(words(message), screen, ok=True))
            case _:
                answer = begin(screen)
                await self._print([*answer.feed(message.content), *answer.end()])
                await self._print([events.started(call, screen) for call in message.tool_calls])

    # Output from the program

    async def notice(self, text: str) -> None:
        columns = self._now().columns
        lines = clean(text).splitlines()
        await self._print([part for line in lines for part in _wrapped(line, columns)])

    async def link(self, link: str) -> None:
        """Print the link that opens the session where it was handed off to."""
        from segue.chat import page_links  # noqa: PLC0415 - the prompt comes first

        await self._print(["", *page_links.shown(link)])

    async def trouble(self, error: UserError) -> None:
        await self._print(events.failure(str(error), self._now()))

    async def lost(self, moved: SessionError) -> None:
        name = f" {self.session.name}" if self.session else ""
        await self.trouble(moved)
        await self.notice(
            f"Type /follow to watch it there, /resume{name} to take it back, /quit to leave."
        )

    async def commands(self, commands: Sequence[Command]) -> None:
        await self._print(command_list(commands, self._now()))

    async def progress(self, progress: Progress) -> None:
        lines = _wrapped(clean(progress.text()), self._now().columns)
        await self._print([self._screen.paint(line, Style.DIM) for line in lines])

    async def approve(self, call: ToolCall, what: str, fingerprint: str) -> Answer:
        """Ask whether to allow a call, and show all of it on request."""
        shown = events.excerpt(what, self._now())
        view = "" if shown.is_whole else f", [v]iew all {count(shown.lines, 'line')}"
        question = f"Allow it? [y]es, for this [s]ession, [n]o{view}"
        while (answer := await self._console.ask(question, APPROVAL)) is None:
            await self._print(events.whole_call(call, what, self._now()))
        return answer

    async def ask_whether(self, question: str) -> bool:
        return await self._console.ask(f"{question} [y]es, [n]o", YES_OR_NO)

    def status(self, width: int) -> str:
        session = self.session
        return status_line(
            title=session.name if session else "new session",
            model=self.model,
            usage=session.usage if session else Usage(),
            where=self._where(session) if session else "",
            screen=replace(self._screen, width=width),
        )

    # Helpers

    def _where(self, session: Session) -> str:
        address = session.address
        if address is None or address.platform is Platform.LOCAL:
            return "in another terminal" if self.moved else "here"
        return f"on {address}"

    def _spoken(self, text: str) -> list[str]:
        """Return the lines of a user message, styled to stand out from the agent's text."""
        first, *more = clean(text).rstrip().split("\n")
        hidden = len(more) - _MAX_SPOKEN
        if hidden > 0:  # a paste, which the user knows
            more[_MAX_SPOKEN:] = [f"{self._screen.glyphs.more} {hidden:,} more lines"]
        lines = [f"{self._screen.glyphs.prompt} {first}", *(f"  {line}" for line in more)]
        return [self._screen.paint(line, Style.BOLD) for line in lines]

    def _stream(self) -> Stream:
        if self._console.still_coming is None:
            self._console.still_coming = begin(self._now())
        return self._console.still_coming

    def _now(self) -> Screen:
        width, height = shutil.get_terminal_size()
        return replace(self._screen, width=width, height=height)

    async def _print(self, lines: Sequence[str], kind: _Kind = _Kind.NOTHING) -> None:
        """Print `lines`, with a blank line between text and tool activity."""
        if not lines:
            return
        if _Kind.NOTHING not in (kind, self._kind) and kind is not self._kind:
            lines = ["", *lines]
        self._kind = kind
        await self._console.print("".join(f"{line}\n" for line in lines))


def _wrapped(line: str, columns: int) -> list[str]:
    """Wrap a sentence between words. Text aligned with blanks stays as it is."""
    return [line] if "  " in line else cells.wrap(line, columns)
