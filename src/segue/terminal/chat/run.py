"""The conversation in the terminal, from its first line to its last."""

from __future__ import annotations

import asyncio
import shutil
import sys
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import segue.store
from segue import config
from segue.config import Settings
from segue.core.session import ME
from segue.store import Store
from segue.terminal.chat.conversation import Conversation, Opening
from segue.terminal.chat.display import Display
from segue.terminal.chat.plain import PlainConsole
from segue.terminal.render import stream
from segue.terminal.render.screen import Screen, screen
from segue.turns import Turns

if TYPE_CHECKING:
    from segue.terminal.chat.console import Console

_MOST_NAMES = 200
_LEAVE = {"y": True, "n": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the person typed to come here."""

    resume: str | None = None
    """The name of the session to go on with."""
    title: str | None = None
    here: bool = False


async def chat(settings: Settings, wish: Wish) -> None:
    async with (
        await segue.store.open(settings.store) as store,
        Turns(store, settings) as turns,
    ):
        session = None if wish.resume is None else await store.sessions.find(ME, wish.resume)
        opening = Opening(session=session, title=wish.title, here=wish.here)
        await _Program(store, turns, settings).run(opening)


class _Program:
    """The console, the display and the conversation, put together."""

    def __init__(self, store: Store, turns: Turns, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._warned = False
        self._tasks: set[asyncio.Task[None]] = set()
        variables = config.terminal_variables()
        shown = screen(sys.stdout, variables, shutil.get_terminal_size().columns)
        draws = _is_tty() and variables.get("TERM", "dumb") not in {"", "dumb"}
        self._console = self._drawing(shown) if draws else PlainConsole()
        self._display = Display(self._console, shown, echo=draws)
        self._conversation = Conversation(store, turns, self._display, Path.cwd())

    async def run(self, opening: Opening) -> None:
        console, conversation = self._console, self._conversation
        drawing = asyncio.create_task(console.run())
        drawing.add_done_callback(lambda _: console.close())
        threading.Thread(target=stream.warm, daemon=True).start()
        self._soon(conversation.look_up_model())
        try:
            async with conversation.open(opening):
                while (text := await console.read()) is not None:
                    self._warned = False
                    await self._display.said(text)
                    if not await conversation.do(text):
                        break
                farewell = await conversation.farewell()
        finally:
            console.close()
            await asyncio.wait({drawing})
        for text in console.waiting:
            await self._display.notice(f"Not sent: {text}")
        await self._display.notice(farewell)
        drawing.result()

    # The keyboard

    def _drawing(self, shown: Screen) -> Console:
        from segue.terminal.chat.completing import Typing  # noqa: PLC0415 - for who can see it
        from segue.terminal.chat.console import Console  # noqa: PLC0415

        return Console(
            history=config.history(),
            completer=Typing(self._names),
            status=self._status,
            interrupted=self._interrupted,
            left=self._left,
            screen=shown,
        )

    def _status(self, width: int) -> str:
        return self._display.status(width)

    async def _names(self) -> Sequence[str]:
        return [session.name for session in await self._store.sessions.list(ME, limit=_MOST_NAMES)]

    def _interrupted(self) -> None:
        """Ctrl-C: stops what is under way, and never the program; a second one asks."""
        interrupt = self._conversation.interrupt
        if interrupt is not None and not interrupt.is_set():
            interrupt.set()
        elif interrupt is None and self._console.clear():
            return
        elif self._warned:
            self._soon(self._ask_to_leave())
        else:
            self._soon(self._display.notice("Ctrl-C again to leave; Ctrl-D leaves at once."))
        self._warned = True

    def _left(self) -> None:
        """Ctrl-D: leave, also from the middle of a turn."""
        if self._conversation.interrupt is not None:
            self._conversation.interrupt.set()
        self._console.close()

    async def _ask_to_leave(self) -> None:
        self._warned = False
        if await self._console.ask("Leave? [y]es, [n]o", _LEAVE):
            self._left()

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _is_tty() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
