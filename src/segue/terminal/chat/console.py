"""The terminal with a person at it.

What is finished is printed and stays. Below it are the block that is still coming, what waits to be
said, the prompt and the status line, which are drawn anew as they change. The prompt is there all
the time, also while the agent works.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.styles import Style as Theme

from segue.core.text import one_line
from segue.terminal.clean import clean
from segue.terminal.render.screen import Screen, Style
from segue.terminal.render.stream import Stream

T = TypeVar("T")

_MORE = "  "
_WORKING = "  working; Ctrl-C stops it"
_LONGEST_PASTE = 30
"""Lines of a paste that are shown; a longer one is named, and sent whole."""
_PASTE = re.compile(r"\[paste (\d+): [\d,]+ lines\]")
_REDRAW = 0.03
_PAUSE = 1.0
"""Seconds without a key, after which somebody has stopped typing."""
_BELOW = 6
"""Lines that the prompt and the status line may need."""
_THEME = Theme.from_dict({"bottom-toolbar": "noreverse fg:ansibrightblack"})


@dataclass(slots=True)
class _Question(Generic[T]):
    text: str
    keys: Mapping[str, T]
    answer: asyncio.Future[T]
    quiet_at: float
    """When a key answers it. Somebody who is typing as it comes up has not read it yet: until they
    pause, what they type is what they were typing."""


class Console:
    """Prints, asks and listens. `interrupted` is called for Ctrl-C and `left` for Ctrl-D;
    `refused` says of what was typed whether it may not even wait."""

    def __init__(
        self,
        *,
        history: Path | None,
        completer: Completer,
        status: Callable[[int], str],
        interrupted: Callable[[], None],
        left: Callable[[], None],
        refused: Callable[[str], bool],
        screen: Screen,
    ) -> None:
        self.still_coming: Stream | None = None
        """An answer of which not everything is printed yet: the rest is shown above the prompt."""
        self.waiting: deque[str] = deque()
        """What was typed and is not read yet, the oldest first."""
        self.shown = asyncio.Event()
        """Set once the prompt is there."""
        self.busy = False
        """Whether something is under way, which is shown."""
        self._arrived = asyncio.Event()
        self._closed = False
        self._interrupted = interrupted
        self._left = left
        self._refused = refused
        self._screen = screen
        self._status = status
        self._question: _Question[object] | None = None
        self._asking = asyncio.Lock()
        self._pastes: list[str] = []
        """All of them, since a name can come back from the history."""
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
            reserve_space_for_menu=4,
            bottom_toolbar=self._toolbar,
            erase_when_done=True,
            style=_THEME,
        )
        self._session.app.min_redraw_interval = _REDRAW
        self._session.default_buffer.accept_handler = self._accept
        self._session.app.after_render.add_handler(self._rendered)

    @property
    def width(self) -> int:
        return shutil.get_terminal_size().columns

    @property
    def _live_lines(self) -> int:
        """How many lines have room above the prompt."""
        return max(3, shutil.get_terminal_size().lines - _BELOW - len(self.waiting))

    async def run(self) -> None:
        """Be there until `close`."""
        await self._session.prompt_async(handle_sigint=False)

    def close(self) -> None:
        """Read no more, and take the prompt away."""
        self._closed = True
        self._arrived.set()
        if self._session.app.is_running and not self._session.app.is_done:
            self._session.app.exit(result="")

    def _rendered(self, _: Application[str]) -> None:
        self.shown.set()

    async def read(self) -> str | None:
        """What the person says next; None once it is closed."""
        while not self._closed:
            if self.waiting:
                self.redraw()
                return self.waiting.popleft()
            self._arrived.clear()
            await self._arrived.wait()
        return None

    async def print(self, text: str) -> None:
        """Put up finished lines, for good."""
        app = self._session.app
        if not app.is_running:
            self._write(text)
            return
        # Not run_in_terminal: it lets the terminal take the keys meanwhile, which then echoes them
        # and makes another key of Enter, and it waits for the terminal before each line.
        app.renderer.erase()
        self._write(text)
        if not app.is_done:
            app.renderer.request_absolute_cursor_position()
            app._redraw()  # pyright: ignore[reportPrivateUsage] - soon would flicker

    def redraw(self) -> None:
        self._session.app.invalidate()

    async def ask(self, question: str, keys: Mapping[str, T]) -> T:
        """What the person answers, with one key. One question waits for the other."""
        async with self._asking:
            pause = 0.0 if self._is_empty() else _PAUSE
            answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            asked = _Question(question, keys, answer, time.monotonic() + pause)
            self._question = asked  # pyright: ignore[reportAttributeAccessIssue] - whatever it is
            self.redraw()
            try:
                return await asked.answer
            finally:
                self._question = None
                self.redraw()

    # What is drawn

    def _message(self) -> ANSI:
        live = "".join(f"{line}\n" for line in self._coming())
        working = f"{self._screen.paint(_WORKING, Style.DIM)}\n" if self.busy else ""
        waiting = working + "".join(f"{self._waiting(text)}\n" for text in self.waiting)
        if self._question is not None:
            question = self._screen.paint(self._question.text, Style.WARNING)
            return ANSI(f"{live}{waiting}{question} ")
        prompt = self._screen.paint(self._screen.glyphs.prompt, Style.CYAN)
        return ANSI(f"{live}{waiting}{prompt} ")

    def _coming(self) -> list[str]:
        if self.still_coming is None:
            return []
        self.still_coming.resize(replace(self._screen, width=self.width))
        return self.still_coming.live(self._live_lines)

    def _waiting(self, text: str) -> str:
        said = clean(one_line(text, max(self.width - 14, 10)))
        return self._screen.paint(f"{_MORE}waiting: {said}", Style.DIM)

    def _toolbar(self) -> ANSI:
        return ANSI(self._status(self.width))

    def _write(self, text: str) -> None:
        output = self._session.output
        output.write_raw(text.replace("\n", "\r\n"))
        output.flush()

    # What is typed

    def _is_command(self) -> bool:
        return self._session.default_buffer.text.startswith("/")

    def _accept(self, buffer: Buffer) -> bool:
        text = _PASTE.sub(self._pasted, buffer.text)
        if text.strip() and not self._refused(text):
            self.waiting.append(text)
            self._arrived.set()
        return False

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        asking = Condition(lambda: self._question is not None)

        @keys.add(Keys.Any, filter=asking, eager=True)
        @keys.add("enter", filter=asking, eager=True)
        @keys.add("escape", filter=asking, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._answer(event.data)

        @keys.add(Keys.CPRResponse, filter=asking, eager=True)
        def _(event: KeyPressEvent) -> None:
            # No key of the person's: the terminal tells where the cursor is, "\x1b[row;columnR".
            row = event.data[2:].partition(";")[0]
            event.app.renderer.report_absolute_cursor_row(int(row))

        @keys.add("enter", filter=~asking)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter", filter=~asking)
        @keys.add("c-j", filter=~asking)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c", eager=True)
        def _(event: KeyPressEvent) -> None:
            self._interrupted()

        @keys.add("c-d", filter=asking | Condition(self._is_empty), eager=True)
        def _(event: KeyPressEvent) -> None:
            self._left()

        @keys.add(Keys.BracketedPaste, eager=True)  # is typed for later, and answers nothing
        def _(event: KeyPressEvent) -> None:
            self._paste(event.current_buffer, event.data)

        return keys

    def _is_empty(self) -> bool:
        return not self._session.default_buffer.text

    def _answer(self, key: str) -> None:
        asked = self._question
        if asked is None or asked.answer.done():
            return
        if time.monotonic() < asked.quiet_at:
            asked.quiet_at = time.monotonic() + _PAUSE
            self._session.default_buffer.insert_text(key if key.isprintable() else "")
        elif key.lower() in asked.keys:
            asked.answer.set_result(asked.keys[key.lower()])

    def clear(self) -> bool:
        """Take away what is typed; False when there was nothing."""
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
        """What goes by that name here."""
        number = int(name[1])
        return self._pastes[number - 1] if 0 < number <= len(self._pastes) else name[0]
