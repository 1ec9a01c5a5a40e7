"""The chat program: puts the console, the display and the conversation together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from segue import config
from segue.config import Settings
from segue.core.errors import HistoryUnwritable
from segue.core.events import TurnInterrupted
from segue.core.session import ME
from segue.terminal.display import WHAT, Display
from segue.terminal.output import is_interactive, notice
from segue.terminal.plain_console import PlainConsole
from segue.terminal.render import stream
from segue.terminal.render.screen import Screen, screen

if TYPE_CHECKING:
    from segue.terminal.console import Console
    from segue.terminal.conversation import Conversation
    from segue.terminal.departure import Departure

T = TypeVar("T")

_MAX_NAMES = 200
_HANDOFF = "/handoff"
_SILENCE = 1.0
"""Seconds without input after which a program without a terminal says what it is."""
_NO_TERMINAL = (
    "There is no terminal here, so there is no prompt. Type `segue` in a terminal (in a container,"
    " start it with -it), or send a message from a script with `segue -p TEXT`. Each line of"
    " standard input is a message, too. `segue demo` shows a handoff without a question."
)


def working_directory() -> Path:
    """Return the working directory, or home if the directory is gone. A shell may not notice."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path.home()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """The options that the user started the chat with."""

    resume: str | None = None
    """The name of the session to resume."""
    title: str | None = None
    here: bool = False
    now: bool = False
    """Whether to take the session at once, even in the middle of a turn."""


async def chat(settings: Settings, options: ChatOptions) -> bool:
    """Run the chat. Return False if there is no terminal, and a message or a command failed, or
    there was none."""
    return await _Program(settings).run(options)


class _LogNotices(logging.Handler):
    """Show what the program logs above the prompt, not across it."""

    def __init__(self, show: Callable[[str], object]) -> None:
        super().__init__(logging.WARNING)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show(self.format(record))


class _Program:
    """The console, the display and the conversation, put together.

    The prompt appears first. Modules that take longer to import load after it.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._warned = False
        self._doing: asyncio.Task[Any] | None = None
        self._leaving: asyncio.Task[None] | None = None
        """Runs the last /handoff that was typed during a turn."""
        self._tasks: set[asyncio.Task[None]] = set()
        variables = config.terminal_variables()
        shown = screen(sys.stdout, variables, shutil.get_terminal_size().columns)
        self._draws = is_interactive() and variables.get("TERM", "dumb") not in {"", "dumb"}
        self._console = self._drawing(shown) if self._draws else PlainConsole(self._handle_line)
        self._display = Display(self._console, shown, echo=self._draws)
        self._conversation: Conversation | None = None

    async def run(self, options: ChatOptions) -> bool:
        console = self._console
        ok = True
        drawing = asyncio.create_task(console.run())
        drawing.add_done_callback(lambda _: console.close())
        self._handle_signals()
        try:
            await console.shown.wait()
            async with self._loaded(options) as conversation:
                text = await self._first(conversation)
                if text is None and options.resume is None and not is_interactive():
                    ok = False
                while text is not None:
                    self._warned = False
                    if await self._under_way(self._do(conversation, text)) is False:
                        break
                    await conversation.refresh()  # Ctrl-C has nothing to stop here
                    console.redraw()
                    text = await console.read()
                if conversation.has_failed and not is_interactive():
                    ok = False
                farewell = await conversation.farewell()
                link = conversation.departures.link
        finally:
            console.close()
            await asyncio.wait({drawing})
        for text in console.waiting:
            await self._display.notice(f"Not sent: {text}")
        await self._display.notice(farewell)
        if link:
            await self._display.link(link)
        drawing.result()
        return ok

    async def _first(self, conversation: Conversation) -> str | None:
        """Return the first input. Without a terminal, say what this is if there is none at once:
        a program that runs it may keep its input open for ever."""
        reading = asyncio.create_task(self._console.read())
        if not is_interactive() and conversation.session is None:
            await asyncio.wait({reading}, timeout=_SILENCE)
            if not reading.done() or reading.result() is None:
                notice(WHAT)
                notice(await conversation.model_needed())
                notice(_NO_TERMINAL)
        return await reading

    @contextlib.asynccontextmanager
    async def _loaded(self, options: ChatOptions) -> AsyncGenerator[Conversation]:
        """Load and begin the conversation while the prompt accepts input."""
        with self._log_notices():
            async with self._begun(options) as conversation:
                yield conversation

    @contextlib.contextmanager
    def _log_notices(self) -> Generator[None]:
        """Show what is logged meanwhile as notices, if there is a prompt that it would disturb."""
        if not self._draws:
            yield
            return
        loop = asyncio.get_running_loop()
        handler = _LogNotices(lambda text: loop.call_soon_threadsafe(self._show_log, text))
        logger = logging.getLogger("segue")
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)

    def _show_log(self, text: str) -> None:
        self._soon(self._display.notice(text))

    @contextlib.asynccontextmanager
    async def _begun(self, options: ChatOptions) -> AsyncGenerator[Conversation]:
        from segue.store import sessions  # noqa: PLC0415

        await asyncio.to_thread(import_module, "segue.terminal.conversation")
        from segue.handoffs.store import open_store  # noqa: PLC0415
        from segue.jobs import reminders  # noqa: PLC0415
        from segue.terminal.conversation import Conversation  # noqa: PLC0415
        from segue.turns import Turns  # noqa: PLC0415
        from segue.turns.agents import Agents  # noqa: PLC0415

        async with (
            await open_store(self._settings.store) as store,
            Turns(store, Agents(store, self._settings, more_tools=reminders.tools)) as turns,
        ):
            name = options.resume
            session = None if name is None else await sessions.find(store, ME, name)
            conversation = Conversation(
                store, self._settings, turns, self._display, working_directory()
            )
            async with conversation.open():
                self._conversation = conversation
                model = self._soon(conversation.look_up_model())
                threading.Thread(target=stream.warm, daemon=True).start()
                conversation.title = options.title
                if session is not None:
                    resumed = conversation.resume(session, here=options.here, now=options.now)
                    await self._under_way(resumed)
                elif is_interactive():
                    await model
                    await self._display.greeting(working_directory())
                yield conversation

    async def _do(self, conversation: Conversation, text: str) -> bool:
        await self._display.said(text)
        return await conversation.do(text)

    async def _under_way(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result, or None if Ctrl-C or Ctrl-D stopped the work."""
        self._doing = asyncio.create_task(work)
        self._console.busy = True
        try:
            return await self._doing
        except asyncio.CancelledError:
            if not self._doing.cancelled() or _is_cancelled():
                raise
            await self._display.event(TurnInterrupted())
            return None
        finally:
            self._doing = None
            self._warned = False
            self._console.busy = False
            self._console.redraw()

    # The keyboard

    def _drawing(self, shown: Screen) -> Console:
        # The plain console needs neither.
        from segue.terminal.console import Console, PromptCompleter  # noqa: PLC0415

        try:
            history = config.history()
        except HistoryUnwritable as error:
            notice(str(error))
            history = None
        return Console(
            history=history,
            completer=PromptCompleter(self._names),
            status=self._status,
            on_interrupt=self._on_interrupt,
            on_leave=self._on_leave,
            handle_line=self._handle_line,
            screen=shown,
        )

    def _status(self, width: int) -> str:
        return self._display.status(width)

    async def _names(self) -> Sequence[str]:
        from segue.store import sessions  # noqa: PLC0415

        if self._conversation is None:
            return ()
        recent = await sessions.list_sessions(self._conversation.store, ME, limit=_MAX_NAMES)
        return [session.name for session in recent]

    def _on_interrupt(self) -> None:
        """Handle Ctrl-C: stop the current work, then clear the line. A second one leaves."""
        if self._conversation and (stays := self._conversation.departures.stay()):
            self._soon(stays)
        elif self._conversation and self._leaving is not None and self._leaving.cancel():
            self._soon(self._conversation.departures.stayed())
        elif self._stop():
            self._warned = True
        elif not self._is_busy() and (self._console.take_back() or self._console.clear()):
            return
        elif self._warned or not self._draws:
            self._on_leave()
        else:
            self._warned = True
            self._soon(self._display.notice("Press Ctrl-C again to leave."))

    def _on_leave(self) -> None:
        """Handle Ctrl-D: leave, even in the middle of a turn."""
        if self._conversation:
            self._conversation.work.is_closing = True
        self._stop()
        self._console.close()

    def _handle_line(self, text: str) -> bool:
        """Handle a /handoff during a turn, when the user wants to leave now and not afterwards, and
        refuse one during another handoff. Anything else waits, but not for the end of /follow."""
        conversation = self._conversation
        if conversation is None:
            return False
        if conversation.is_following and conversation.work.interrupt:
            conversation.work.interrupt.set()
            return False
        if text.lower().split(maxsplit=1)[:1] != [_HANDOFF]:
            return False
        if departure := conversation.departures.current:
            self._leaving = self._soon(self._hand_off_meanwhile(departure, text))
        elif conversation.work.interrupt:
            self._soon(self._display.turn_running())
        else:
            return False
        return True

    async def _hand_off_meanwhile(self, departure: Departure, text: str) -> None:
        conversation = self._conversation
        if conversation and not await conversation.hand_off_meanwhile(departure, text):
            self._console.put_first(text)

    def _is_busy(self) -> bool:
        return self._doing is not None and not self._doing.done()

    def _stop(self) -> bool:
        """Stop the current work. Return False if there is none or it was already stopped."""
        doing = self._doing
        if self._conversation and (interrupt := self._conversation.work.interrupt):
            stops = not interrupt.is_set()
            interrupt.set()
            return stops
        # Cancelling leaves nothing half done: operations that the store has started are completed.
        return doing is not None and not doing.cancelling() and doing.cancel()

    def _handle_signals(self) -> None:
        """Leave on SIGHUP and SIGTERM as with Ctrl-D."""
        loop = asyncio.get_running_loop()
        for ending in (signal.SIGHUP, signal.SIGTERM):
            loop.add_signal_handler(ending, self._on_leave)
        if is_interactive():  # without drawing, Ctrl-C arrives as a signal, not as a key
            loop.add_signal_handler(signal.SIGINT, self._on_interrupt)

    def _soon(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
