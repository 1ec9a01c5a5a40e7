"""The interactive terminal.

Finished output is printed and stays. Below it are the unfinished block, the queued input, the
prompt and the status line, which are redrawn as they change. The prompt is always there, even while
the agent works. It completes commands, session names, platforms and paths.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.data_structures import Point
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Always, Condition, has_completions, is_done
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    ConditionalContainer,
    FloatContainer,
    FormattedTextControl,
    HSplit,
    Window,
)
from prompt_toolkit.renderer import CPR_Support
from prompt_toolkit.styles import Style as Theme

from segue import commands
from segue.commands.base import PREFIX, Where
from segue.commands.session import NEW_THREAD
from segue.core.address import TARGETS
from segue.core.text import one_line
from segue.terminal.questions import Question
from segue.terminal.render.clean import clean
from segue.terminal.render.screen import Screen, Style
from segue.terminal.render.stream import Stream

T = TypeVar("T")

_MORE = "  "
_WORKING = "  working; Ctrl-C to stop"
_HELD_BACK = "  a question is waiting for you to stop typing"
_LONGEST_PASTE = 30
"""Lines. A longer paste is shown as a placeholder, but sent in full."""
_PASTE = re.compile(r"\[paste (\d+): [\d,]+ lines\]")
_REDRAW = 0.03
_PAUSE = 1.0
"""Seconds without a key after which the user counts as having stopped typing a line."""
_BELOW = 6
"""Lines reserved for the prompt and the status line."""
_MENU = 10
"""Lines kept free under the prompt while commands are completed."""
_THEME = Theme.from_dict({"status": "fg:ansibrightblack"})


class Console:
    """Prints output, asks questions and reads input.

    Ctrl-C calls `on_interrupt` and Ctrl-D calls `on_leave`. `handle_line` returns whether it has
    handled an input that cannot wait, so that it is neither queued nor an answer to a question.
    """

    def __init__(
        self,
        *,
        history: Path | None,
        completer: Completer,
        status: Callable[[int], str],
        on_interrupt: Callable[[], None],
        on_leave: Callable[[], None],
        handle_line: Callable[[str], bool],
        screen: Screen,
    ) -> None:
        self.still_coming: Stream | None = None
        """An answer that is not fully printed yet. The rest is shown above the prompt."""
        self.waiting: deque[str] = deque()
        """Queued input, oldest first."""
        self.shown = asyncio.Event()
        """Set once the prompt is visible."""
        self.busy = False
        """Whether to show that work is in progress."""
        self._arrived = asyncio.Event()
        self._closed = False
        self._on_interrupt = on_interrupt
        self._on_leave = on_leave
        self._handle_line = handle_line
        self._screen = screen
        self._question: Question[Any] | None = None
        self._asking = asyncio.Lock()
        self._draft = Document()
        """Input typed before the question appeared. It is restored after the answer."""
        self._key_at = 0.0
        """Time of the last key press."""
        self._pastes: list[str] = []
        """All pastes, because a placeholder can come back from the history."""
        self._session: PromptSession[str] = PromptSession(
            message=self._message,
            multiline=True,
            prompt_continuation=_MORE,
            key_bindings=self._keys(),
            history=InMemoryHistory() if history is None else FileHistory(str(history)),
            enable_history_search=False,
            completer=completer,
            complete_while_typing=Condition(self._is_command),
            complete_in_thread=False,
            reserve_space_for_menu=0,
            erase_when_done=True,
            style=_THEME,
        )
        self._put_status_under_prompt(status)
        # The position that a terminal answers is out of date once something is printed. The prompt
        # would then take more lines than there are, and scroll what is above it away.
        self._session.app.renderer.cpr_support = CPR_Support.NOT_SUPPORTED
        self._session.app.min_redraw_interval = _REDRAW
        self._session.default_buffer.accept_handler = self._accept
        self._session.app.after_render.add_handler(lambda _: self.shown.set())
        self._session.app.key_processor.before_key_press += self._key_pressed
        if screen.rewraps:
            on_resize = self._session.app._on_resize  # pyright: ignore[reportPrivateUsage]
            self._session.app._on_resize = lambda: self._resized(on_resize)  # pyright: ignore[reportPrivateUsage]

    @property
    def width(self) -> int:
        return shutil.get_terminal_size().columns

    @property
    def _live_lines(self) -> int:
        """The number of lines available above the prompt."""
        return max(3, shutil.get_terminal_size().lines - _BELOW - len(self.waiting))

    async def run(self) -> None:
        """Show the prompt until `close` is called."""
        await self._session.prompt_async(handle_sigint=False)

    def close(self) -> None:
        """Stop reading and remove the prompt."""
        self._closed = True
        self._arrived.set()
        if self._session.app.is_running and not self._session.app.is_done:
            self._session.app.exit(result="")

    async def read(self) -> str | None:
        """Return the next input, or None once the console is closed."""
        while not self._closed:
            if self.waiting:
                self.redraw()
                return self.waiting.popleft()
            self._arrived.clear()
            await self._arrived.wait()
        return None

    def put_first(self, text: str) -> None:
        """Queue an input before all others."""
        self.waiting.appendleft(text)
        self._arrived.set()

    async def print(self, text: str) -> None:
        """Print finished lines."""
        self._put_up(text)

    def _put_up(self, text: str) -> None:
        app = self._session.app
        if not app.is_running:
            self._write(text)
            return
        # Not run_in_terminal: it gives the keyboard back to the terminal for a moment, which then
        # echoes keys and changes Enter into another key. It also waits for the terminal before each
        # line.
        self._erase()
        self._write(text)
        if not app.is_done:
            app._redraw()  # pyright: ignore[reportPrivateUsage] - soon would flicker

    def redraw(self) -> None:
        self._session.app.invalidate()

    async def ask(self, question: str, choices: Mapping[str, T]) -> T:
        """Return the choice whose word the user types as a whole line.

        Any other line is dropped, and the question stays. Concurrent questions are asked one by
        one.
        """
        async with self._asking:
            await self._typing_paused()
            answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            self._question = Question(question, choices, answer)
            self._draft = self._session.default_buffer.document
            self._session.default_buffer.reset()
            self.redraw()
            try:
                return await answer
            finally:
                self._close_question()

    async def _typing_paused(self) -> None:
        """Wait until the user has stopped typing a line begun before the question."""
        for _ in range(2):  # first process keys already pressed
            await asyncio.sleep(0)
        while not self._is_empty() and (left := self._key_at + _PAUSE - time.monotonic()) > 0:
            self.redraw()
            await asyncio.sleep(left)

    def _close_question(self) -> None:
        if self._question is not None:
            self._question = None
            self._session.default_buffer.reset(self._draft)
            self.redraw()

    # Drawing

    def _put_status_under_prompt(self, status: Callable[[int], str]) -> None:
        """Draw the status line directly under the input. Completions are listed over it.

        The toolbar of a PromptSession stands at the bottom of the screen instead.
        """
        layout = self._session.layout
        layout.current_window.dont_extend_height = Always()
        line = Window(
            FormattedTextControl(lambda: ANSI(status(self.width))), height=1, style="class:status"
        )
        completing = Condition(self._is_command) | has_completions
        # The menus of a PromptSession have only the height of the input, so they move outwards.
        entry = next(part for part in layout.walk() if isinstance(part, FloatContainer))
        menus = entry.floats
        entry.floats = []
        layout.container = FloatContainer(
            HSplit(
                [
                    layout.container,
                    ConditionalContainer(line, ~is_done & ~has_completions),
                    ConditionalContainer(Window(height=_MENU), ~is_done & completing),
                ]
            ),
            menus,
        )

    def _message(self) -> ANSI:
        live = "".join(f"{line}\n" for line in self._coming())
        works = self.busy and self._question is None
        under_way = _HELD_BACK if self._is_held_back() else _WORKING if works else ""
        working = f"{self._screen.paint(under_way, Style.DIM)}\n" if under_way else ""
        waiting = working + "".join(f"{self._waiting(text)}\n" for text in self.waiting)
        if self._question is not None:
            question = self._screen.paint(self._question.text, Style.WARNING)
            return ANSI(f"{live}{waiting}{question} ")
        prompt = self._screen.paint(self._screen.glyphs.prompt, Style.CYAN)
        return ANSI(f"{live}{waiting}{prompt} ")

    def _resized(self, redraw: Callable[[], None]) -> None:
        """Redraw after the terminal has rewrapped its lines, which moved the cursor down."""
        renderer = self._session.app.renderer
        if drawn := renderer.last_rendered_screen:
            x, y = renderer._cursor_pos  # pyright: ignore[reportPrivateUsage] - nothing else has it
            rows = (drawn.data_buffer[row] for row in range(y))
            ends = (max((at for at in row if row[at].char != " "), default=0) for row in rows)
            down = sum(end // self.width for end in ends) + x // self.width
            renderer._cursor_pos = Point(x % self.width, y + down)  # pyright: ignore[reportPrivateUsage]
        self._erase()
        redraw()

    def _erase(self) -> None:
        """Erase everything below the finished output.

        tmux copies a screen that is erased from its top into the history. So the rows below the
        cursor are erased first, and the others one by one.
        """
        renderer = self._session.app.renderer
        output = self._session.output
        x, y = renderer._cursor_pos  # pyright: ignore[reportPrivateUsage]
        output.cursor_backward(x)
        output.write_raw("\x1b7\x1b[B\x1b[J\x1b8\x1b[2K" + "\x1b[A\x1b[2K" * y)
        renderer._cursor_pos = Point(0, 0)  # pyright: ignore[reportPrivateUsage]
        renderer.erase()

    def _coming(self) -> list[str]:
        if self.still_coming is None:
            return []
        self.still_coming.resize(replace(self._screen, width=self.width))
        return self.still_coming.live(self._live_lines)

    def _waiting(self, text: str) -> str:
        said = clean(one_line(text, max(self.width - 14, 10)))
        return self._screen.paint(f"{_MORE}queued: {said}", Style.DIM)

    def _write(self, text: str) -> None:
        output = self._session.output
        output.write_raw(text.replace("\n", "\r\n"))
        output.flush()

    # Input

    def _is_command(self) -> bool:
        return self._session.default_buffer.text.startswith("/")

    def _accept(self, buffer: Buffer) -> bool:
        text = _PASTE.sub(self._pasted, buffer.text)
        if text.strip() and not self._handle_line(text):
            self.waiting.append(text)
            self._arrived.set()
        return False

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        asking = Condition(lambda: self._question is not None)

        @keys.add("enter", filter=asking)
        def _(event: KeyPressEvent) -> None:
            line = event.current_buffer.text
            event.current_buffer.reset()
            self._answer(line)

        @keys.add("enter", filter=~asking)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter", filter=~asking)
        @keys.add("c-j", filter=~asking)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c", eager=True)
        def _(event: KeyPressEvent) -> None:
            self._on_interrupt()

        @keys.add("c-d", filter=asking | Condition(self._is_empty), eager=True)
        def _(event: KeyPressEvent) -> None:
            self._on_leave()

        @keys.add(Keys.BracketedPaste, filter=asking, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._put_hint()

        @keys.add(Keys.BracketedPaste, filter=~asking, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._paste(event.current_buffer, event.data)

        return keys

    def _is_empty(self) -> bool:
        return not self._session.default_buffer.text

    def _is_held_back(self) -> bool:
        return self._asking.locked() and self._question is None

    def _key_pressed(self, _: object) -> None:
        self._key_at = time.monotonic()

    def _answer(self, line: str) -> None:
        if self._question is not None and self._question.accept(line):
            self._close_question()  # later input is not part of the answer
        elif not self._handle_line(line):
            self._put_hint()

    def _put_hint(self) -> None:
        if self._question is not None:
            self._put_up(f"{self._question.hint}\n")

    def take_back(self) -> bool:
        """Put the newest queued input back into the prompt. Return False if there is none."""
        if not self.waiting:
            return False
        taken = self.waiting.pop()
        self._session.default_buffer.reset(Document(taken))
        return True

    def clear(self) -> bool:
        """Clear the input. Return False if there was nothing to clear."""
        typed = bool(self._session.default_buffer.text)
        self._session.default_buffer.reset()
        return typed

    def _paste(self, buffer: Buffer, data: str) -> None:
        text = data.replace("\r\n", "\n").replace("\r", "\n")
        if text.count("\n") < _LONGEST_PASTE:
            buffer.insert_text(text)
            return
        self._pastes.append(text)
        buffer.insert_text(f"[paste {len(self._pastes)}: {text.count(chr(10)) + 1:,} lines]")

    def _pasted(self, name: re.Match[str]) -> str:
        """Return the paste that this placeholder stands for."""
        number = int(name[1])
        return self._pastes[number - 1] if 0 < number <= len(self._pastes) else name[0]


Names = Callable[[], Awaitable[Sequence[str]]]


class PromptCompleter(Completer):
    """Completes input at the prompt. `sessions` returns the names of the user's sessions."""

    def __init__(self, sessions: Names) -> None:
        self._sessions = sessions
        self._paths = PathCompleter(expanduser=True)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion]:
        text = document.text_before_cursor
        if commands.is_command(text) or text == PREFIX:
            async for completion in self._command(text):
                yield completion
        elif complete_event.completion_requested:
            for completion in self._path(document, complete_event):
                yield completion

    async def _command(self, text: str) -> AsyncGenerator[Completion]:
        name, blank, typed = text.removeprefix(PREFIX).partition(" ")
        if not blank:
            for command in commands.available(Where.TERMINAL):
                if command.name.startswith(name.lower()):
                    yield _completion(PREFIX + command.name, text, command.summary)
            return
        for choice in await self._arguments(name, typed):
            if choice.casefold().startswith(typed.casefold()):
                yield _completion(choice, typed)

    async def _arguments(self, name: str, typed: str) -> Sequence[str]:
        if name == "resume":
            return await self._sessions()
        if name == "handoff":
            option = f" {NEW_THREAD}" if " " in typed else ""
            return [f"{target}{option}" for target in TARGETS]
        if name == "help":
            return [command.name for command in commands.available(Where.TERMINAL)]
        return ()

    def _path(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        word = document.get_word_before_cursor(WORD=True)
        return self._paths.get_completions(Document(word), event)


def _completion(text: str, typed: str, about: str = "") -> Completion:
    return Completion(
        text, start_position=-len(typed), display=clean(text, newlines=False), display_meta=about
    )
