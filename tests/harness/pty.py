"""A real terminal for tests: a pty with the program in it, and an emulator that renders it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyte

import segue
from tests.program import Program, start

KEYS = {
    "enter": "\r",
    "tab": "\t",
    "up": "\x1b[A",
    "backspace": "\x7f",
    "escape": "\x1b",
    "c-c": "\x03",
    "c-d": "\x04",
    "c-j": "\n",
    "alt-enter": "\x1b\r",
}
SEGUE = [sys.executable, "-m", "segue"]
CODE = {"PYTHONPATH": str(Path(segue.__file__).parents[1])}
"""Makes the program in the terminal use the code under test."""
_PROMPTS = {"❯", ">"}


class _Screen(pyte.Screen):
    """Keeps the lines that scroll off the top, and answers cursor position queries like a
    terminal. Lines that are too long for a new width continue in the next row, as in most
    terminals."""

    def __init__(self, columns: int, lines: int, answer: Callable[[str], None]) -> None:
        self.above: list[str] = []
        """The lines that scrolled off the top, without trailing blanks."""
        self._answer = answer
        self._rows: list[str] = []
        super().__init__(columns, lines)

    @property
    def rows(self) -> list[str]:
        """The visible lines, without trailing blanks."""
        changed = self.dirty
        if changed:
            rows = self._rows + [""] * (self.lines - len(self._rows))
            # A combining accent may belong to the last character of the line above.
            for y in changed | {y - 1 for y in changed}:
                if 0 <= y < self.lines:
                    rows[y] = self._row(y)
            self._rows = rows[: self.lines]
            changed.clear()
        return self._rows

    def index(self) -> None:
        top, bottom = self.margins or (0, self.lines - 1)
        if self.cursor.y == bottom:
            self.above.append(self._row(top))
        super().index()

    def erase_in_display(self, how: int = 0, *args: Any, **named: Any) -> None:
        if how == 0 and (self.cursor.x, self.cursor.y) == (0, 0):  # tmux keeps what is erased
            self.above += [row for row in self.rows if row]
        super().erase_in_display(how, *args, **named)

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        lines, columns = lines or self.lines, columns or self.columns
        rows: list[dict[int, pyte.screens.Char]] = []
        x, y = self.cursor.x % columns, 0
        for number in range(self.lines):
            line = self.buffer[number]
            end = max((at for at in line if line[at].data != " "), default=0)
            if number == self.cursor.y:
                y = len(rows) + self.cursor.x // columns
                end = max(end, self.cursor.x)
            rows += [
                {at - start: line[at] for at in line if start <= at < start + columns}
                for start in range(0, end + 1, columns)
            ]
        gone = max(0, len(rows) - lines)
        self.above += map(_text, rows[:gone])
        super().resize(lines, columns)
        self.buffer.clear()
        for number, row in enumerate(rows[gone:]):
            self.buffer[number].update(row)
        self.cursor.x, self.cursor.y = x, y - gone
        self.dirty.update(range(lines))

    def write_process_input(self, data: str) -> None:
        self._answer(data)

    def _row(self, y: int) -> str:
        return _text(self.buffer[y]) if y in self.buffer else ""


def _text(row: Mapping[int, pyte.screens.Char]) -> str:
    cells = (row[x].data if x in row else " " for x in range(max(row, default=-1) + 1))
    return "".join(cells).rstrip()


class Terminal:
    """A program in a pty."""

    def __init__(
        self, fd: int, process: subprocess.Popen[bytes] | Program, columns: int, lines: int
    ) -> None:
        self.process = process
        self.raw = bytearray()
        """All output of the program so far."""
        self._fd = fd
        self._screen = _Screen(columns, lines, self._send)
        self._stream = pyte.ByteStream(self._screen)
        self._changed = asyncio.Event()
        self._over = False
        self._unsent = b""

    # Output

    @property
    def screen(self) -> list[str]:
        """The visible lines, without trailing blanks."""
        return self._screen.rows

    @property
    def text(self) -> str:
        """The scrollback, from the first line on, followed by the screen."""
        return "\n".join([*self._screen.above, *self.screen])

    @property
    def status(self) -> str:
        """The line directly under the prompt, if there is a prompt."""
        return next((below for line, below in pairwise(self.screen) if line in _PROMPTS), "")

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = 40) -> None:
        """Wait until the condition holds. On a timeout the test fails and shows the screen."""
        try:
            async with asyncio.timeout(seconds):
                while not (self._is_drawn() and condition()):
                    if self._over:
                        break
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass
        assert condition(), f"never seen: {what}\n" + "\n".join(self.screen)

    async def see(self, text: str, seconds: float = 40) -> None:
        """Wait until `text` is on the screen."""
        await self.until(lambda: text in "\n".join(self.screen), repr(text), seconds)

    async def gone(self, text: str, seconds: float = 40) -> None:
        """Wait until `text` is no longer on the screen."""
        await self.until(lambda: text not in "\n".join(self.screen), f"no {text!r}", seconds)

    async def shows(self, text: str, seconds: float = 40) -> None:
        """Wait until `text` has been shown, ignoring line breaks."""
        wanted = "".join(text.split())
        await self.until(lambda: wanted in "".join(self.text.split()), repr(text), seconds)

    async def ready(self) -> None:
        """Wait for an empty prompt with nothing in progress."""
        await self.until(lambda: _is_prompt(self.screen), "a prompt")

    def _is_drawn(self) -> bool:
        """Whether the screen is complete: the program hides the cursor while it draws."""
        return not self._screen.cursor.hidden

    async def end(self) -> int:
        """Wait until the program exits, and return its exit code."""
        await self.until(lambda: self._over, "the end")
        return await asyncio.to_thread(self.process.wait, 20)

    # Input

    def type(self, text: str) -> None:
        self._send(text)

    def say(self, text: str) -> None:
        """Type a line."""
        self._send(f"{text}\r")

    def press(self, *keys: str) -> None:
        for key in keys:
            self._send(KEYS.get(key, key))

    def paste(self, text: str) -> None:
        """Paste as a terminal does: in bracketed paste mode, with carriage returns."""
        self._send(f"\x1b[200~{text.replace(chr(10), chr(13))}\x1b[201~")

    def resize(self, columns: int, lines: int) -> None:
        self._screen.resize(lines, columns)
        _set_size(self._fd, columns, lines)
        os.killpg(self.process.pid, signal.SIGWINCH)

    def kill(self) -> None:
        self.process.kill()

    def _send(self, text: str) -> None:
        self.send(text.encode())

    def send(self, data: bytes) -> None:
        """Send `data` after all that was sent before it, such as the rest of a paste."""
        is_sending, self._unsent = bool(self._unsent), self._unsent + data
        while self._unsent and not is_sending:
            try:
                self._unsent = self._unsent[os.write(self._fd, self._unsent[:1024]) :]
            except BlockingIOError:
                self.read()  # which may answer the program, by this function

    def read(self) -> None:
        """Read the program's output."""
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return
        except OSError:  # the other end is closed
            data = b""
        if not data:
            self._over = True
        self.raw += data
        self._stream.feed(data)
        self._changed.set()


def _is_prompt(screen: Sequence[str]) -> bool:
    working = any("working; Ctrl-C" in line for line in screen)
    return not working and any(line in _PROMPTS for line in screen)


def _set_size(fd: int, columns: int, lines: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


@contextlib.asynccontextmanager
async def terminal(
    *arguments: str,
    environment: Mapping[str, str],
    cwd: Path,
    columns: int = 80,
    lines: int = 24,
    command: Sequence[str] | None = None,
) -> AsyncGenerator[Terminal]:
    """Run `segue` with these arguments in a terminal of that size.

    `command` runs another program instead, which needs a real start.
    """
    ours, theirs = pty.openpty()
    _set_size(theirs, columns, lines)
    env = {**CODE, "TERM": "xterm-256color", "LANG": "C.UTF-8", **environment}
    if command is None:
        files = {"output": theirs, "errors": theirs, "given": theirs}
        process = start(*arguments, environment=env, cwd=cwd, **files, terminal=True)
    else:
        process = subprocess.Popen(  # noqa: ASYNC220 - the pty is read, and nothing waits for it
            [*command, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env=env,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
    os.close(theirs)
    os.set_blocking(ours, False)
    shown = Terminal(ours, process, columns, lines)
    loop = asyncio.get_running_loop()

    def readable() -> None:
        shown.read()
        if shown._over:
            loop.remove_reader(ours)

    loop.add_reader(ours, readable)
    try:
        yield shown
    finally:
        loop.remove_reader(ours)
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(ours)
