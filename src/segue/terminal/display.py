"""Displays a conversation: turns events, notices and questions into lines on the console."""

from __future__ import annotations

import contextlib
import enum
import re
import shutil
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from segue.core import approval
from segue.core.address import Platform
from segue.core.approval import Answer, Description
from segue.core.errors import HandoffError, SessionError, UserError
from segue.core.events import (
    NO_ANSWER,
    ApprovalNeeded,
    Event,
    MessageAdded,
    TextDelta,
    ToolFinished,
    TurnDone,
    TurnFailed,
    TurnInterrupted,
)
from segue.core.session import Session, Usage
from segue.core.text import count, is_empty
from segue.core.transcript import Message, Role, ToolCall, display_text, is_notice, words
from segue.terminal.questions import APPROVAL, LEAVING, UNSEEN, YES_OR_NO, Leaving
from segue.terminal.render import cells, events
from segue.terminal.render.cells import pasteable
from segue.terminal.render.clean import clean
from segue.terminal.render.prompt import command_list, status_line
from segue.terminal.render.screen import Screen, Style
from segue.terminal.render.stream import Stream, begin

if TYPE_CHECKING:
    from segue.commands.base import Command
    from segue.handoffs import Progress
    from segue.terminal.console import Console
    from segue.terminal.plain_console import PlainConsole

WHAT = "Segue: a personal AI agent whose conversations move with you."
_WAYS = "/help lists the commands. /handoff web continues in a browser or on a phone."
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_UNSAVED = "The unfinished answer above is not part of the session. Ask again to get all of it."
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
        self._awaited: Session | None = None
        """The session that is being resumed, while another process holds it."""
        self.moved = False
        """Whether another process has taken the session."""
        self.leaving_for: str | None = None
        """The platform that the session moves to at the turn's next safe point."""
        self.model = ""
        self._console = console
        self._screen = screen
        self._echo = echo
        self._activity = events.Activity()
        self._calls: dict[str, ToolCall] = {}
        """Calls of stored messages whose results have not been shown."""
        self._kind = _Kind.NOTHING
        self._spoke = False
        """Whether the answer of this turn had any visible text."""
        self._unsaved = False
        """Whether words were shown that are not in the store yet."""
        self._asks_whole = False
        """Whether the whole of the last call that needs approval was shown."""

    # The conversation

    async def greeting(self, cwd: Path) -> None:
        """Print what this is, the model and its directory, and what to type."""
        shown = cwd if not cwd.is_relative_to(Path.home()) else f"~/{cwd.relative_to(Path.home())}"
        await self._print([self._screen.paint(WHAT, Style.BOLD)])
        place = f"{self.model}, in {shown}".removesuffix("/.")
        for text in (place, _WAYS):
            await self._dim(text)

    async def said(self, text: str) -> None:
        """Echo the user's input when its turn starts."""
        if self._echo:
            await self._print(["", *self._spoken(text), ""])

    async def event(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self._unsaved = True
            await self._words(self._stream().feed(event.text))
            self._console.redraw()
            return
        await self.rest()
        if isinstance(event, TurnDone) and not self._spoke:
            await self.notice(NO_ANSWER)
        if isinstance(event, TurnDone | TurnFailed | TurnInterrupted):
            self._spoke = False
        if isinstance(event, MessageAdded):
            self._unsaved = False
        screen = self._now()
        if isinstance(event, ApprovalNeeded):
            self._asks_whole = events.excerpt(event.what, screen).is_whole
        await self._print(self._activity.lines(event, screen), _Kind.ACTIVITY)
        if isinstance(event, TurnFailed) and self._unsaved:
            self._unsaved = False
            await self.notice(_UNSAVED)

    async def rest(self) -> None:
        """Print the rest of the answer."""
        stream = self._console.still_coming
        self._console.still_coming = None
        if stream is not None:
            await self._words(stream.end())

    async def _words(self, lines: Sequence[str]) -> None:
        self._spoke = self._spoke or any(not is_empty(_STYLE.sub("", line)) for line in lines)
        await self._print(lines, _Kind.WORDS)

    async def turn(self, turn: Sequence[Message]) -> None:
        """Print a stored turn as it looked when it was new."""
        if turn[0].role is not Role.USER:  # whose prompt is not shown
            await self._print([""])
        for message in turn:
            await self.message(message)

    async def message(self, message: Message) -> None:
        """Print a stored message as it looked when it was new."""
        screen = self._now()
        match message.role:
            case Role.USER:
                await self._print(["", *self._spoken(words(message)), ""])
            case Role.TOOL if call := self._calls.pop(message.tool_call_id or "", None):
                done = ToolFinished(call, display_text(message), message.outcome is None)
                await self._print(self._activity.lines(done, screen), _Kind.ACTIVITY)
            case Role.SYSTEM if is_notice(message):
                await self.notice(message.content.removeprefix("[").removesuffix("]"))
            case _:
                answer = begin(screen)
                await self._print([*answer.feed(message.content), *answer.end()], _Kind.WORDS)
                self._calls |= {call.id: call for call in message.tool_calls}

    # Output from the program

    async def notice(self, text: str) -> None:
        columns = self._now().columns
        lines = clean(pasteable(text)).splitlines()
        await self._print([part for line in lines for part in cells.wrap_aligned(line, columns)])

    async def link(self, link: str) -> None:
        """Print the link that opens the session where it was handed off to."""
        from segue.terminal import web_page  # noqa: PLC0415 - the prompt comes first

        await self._print(["", *web_page.link_lines(link)])

    async def trouble(self, error: UserError) -> None:
        await self._print(events.failure(str(error), self._now()))

    async def turn_running(self) -> None:
        """Print that there is no handoff while something runs."""
        await self.trouble(
            HandoffError(
                "Something is still running here. Wait for it or press Ctrl-C, then type /handoff"
                " again."
            )
        )

    async def lost(self, moved: SessionError) -> None:
        """Print that another process has taken the session."""
        await self.trouble(moved)
        await self._ways_on()

    async def went(self, text: str) -> None:
        """Print where the session went, at the request of another process."""
        await self.notice(text)
        await self._ways_on()

    async def _ways_on(self) -> None:
        name = f" {self.session.name}" if self.session else ""
        await self.notice(
            f"Type /follow to watch it there, /resume{name} to take it back, /quit to leave."
        )

    async def commands(self, commands: Sequence[Command]) -> None:
        await self._print(command_list(commands, self._now()))

    async def progress(self, progress: Progress) -> None:
        await self._dim(progress.text())

    async def approve(self, call: ToolCall, what: Description, fingerprint: str) -> Answer:
        """Ask whether to allow a call. One that is shown only in part cannot be allowed before the
        user has seen all of it."""
        if not self._asks_whole:
            lines = count(len(approval.whole_lines(what)), "line")
            question = f"[v]iew all {lines} first, or [n]o"
            if (answer := await self._console.ask(question, UNSEEN)) is not None:
                return answer
            await self._print(events.whole_call(call, what, self._now()))
        return await self._console.ask("Allow it? [y]es, this [s]ession, [n]o", APPROVAL)

    async def ask_whether(self, question: str) -> bool:
        return await self._console.ask(f"{question} [y]es, [n]o", YES_OR_NO)

    async def ask_how_to_leave(self, platform: str) -> Leaving:
        """Ask what to do while the agent is in the middle of a step."""
        question = (
            f"The agent is still busy with this step. [w]ait for it, stop it and [m]ove to"
            f" {platform} now, [s]tay here"
        )
        return await self._console.ask(question, LEAVING)

    def status(self, width: int) -> str:
        session = self.session or self._awaited
        return status_line(
            title=session.name if session else "new session",
            model=self.model,
            usage=session.usage if session else Usage(),
            where=self._where(session) if session else "",
            screen=replace(self._screen, width=width),
        )

    @contextlib.contextmanager
    def awaiting(self, session: Session) -> Generator[None]:
        """The context in which another process holds the session that is being resumed. Nothing is
        shown as working here meanwhile."""
        was_busy = self._console.busy
        self._awaited = session
        self._console.busy = False
        try:
            yield
        finally:
            self._awaited = None
            self._console.busy = was_busy

    # Helpers

    def _where(self, session: Session) -> str:
        address = session.address
        if address is None or address.platform is Platform.LOCAL:
            here = f"here, moving to {self.leaving_for}" if self.leaving_for else "here"
            return here if session is self.session and not self.moved else "in another terminal"
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

    async def _dim(self, text: str) -> None:
        lines = cells.wrap_aligned(clean(pasteable(text)), self._now().columns)
        await self._print([self._screen.paint(line, Style.DIM) for line in lines])

    async def _print(self, lines: Sequence[str], kind: _Kind = _Kind.NOTHING) -> None:
        """Print `lines`, with a blank line between text and tool activity."""
        if not lines:
            return
        if _Kind.NOTHING not in (kind, self._kind) and kind is not self._kind:
            lines = ["", *lines]
        self._kind = kind
        await self._console.print("".join(f"{line}\n" for line in lines))
