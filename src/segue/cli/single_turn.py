"""One turn without a prompt: `segue -p "…"`, for scripts and pipes."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from datetime import UTC, datetime

from msgspec import structs

from segue.config import Settings
from segue.core import provenance
from segue.core.address import Platform
from segue.core.events import (
    NO_ANSWER,
    ApprovalNeeded,
    Event,
    MessageAdded,
    TextDelta,
    TurnDone,
    TurnFailed,
)
from segue.core.session import ME, Session
from segue.core.text import is_empty
from segue.core.transcript import spoken
from segue.handoffs.store import open_store
from segue.jobs import reminders
from segue.store import Store, owners, sessions
from segue.terminal.output import print_json
from segue.terminal.program import working_directory
from segue.terminal.render.clean import Cleaner, clean
from segue.turns import Turns
from segue.turns.agents import Agents

_NOT_ASKED = (
    "{tool} did not run: it needs your approval, and `segue -p` cannot ask. Type `segue -c` to"
    " continue in the terminal, or change approvals.policy with `segue config set`."
)
_CAMEL = re.compile(r"(?<!^)(?=[A-Z])")


async def take_single_turn(
    settings: Settings, words: str, resume: str | None, *, piped: bool, as_json: bool
) -> bool:
    """Send `words` in a new session or in the one named `resume`, and print the answer. `piped`:
    they come from a pipe or a file, so they may quote others.

    The answer is printed as it arrives. With `as_json`, print every event as one JSON object per
    line. Return False if the turn failed.
    """
    async with (
        await open_store(settings.store) as store,
        Turns(store, Agents(store, settings, more_tools=reminders.tools)) as turns,
    ):
        session = await _session(store, resume)
        shown = _JsonOutput(session) if as_json else _TextOutput()
        by = provenance.OWNER | provenance.FILE if piped else provenance.OWNER
        said = spoken(words, datetime.now(UTC), by)
        async with contextlib.aclosing(turns.take_turn(session.id, said)) as events:
            async for event in events:
                shown.show(event)
        return not shown.failed


async def _session(store: Store, resume: str | None) -> Session:
    if resume is not None:
        return await sessions.find(store, ME, resume)
    await owners.ensure(store, ME)
    cwd = str(await asyncio.to_thread(working_directory))
    return await sessions.create(store, ME, Platform.LOCAL, cwd=cwd)


class _TextOutput:
    """Prints the answer to standard output, and errors to standard error."""

    def __init__(self) -> None:
        self.failed = False
        self._cleaner = Cleaner()
        self._ended = True
        self._spoke = False

    def show(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                self._write(self._cleaner.feed(text))
            case ApprovalNeeded(call):
                sys.stderr.write(f"{_NOT_ASKED.format(tool=clean(call.name))}\n")
            case TurnDone() if not self._spoke:
                sys.stderr.write(f"{NO_ANSWER}\n")
            case MessageAdded() if not self._ended:
                self._write(f"{self._cleaner.end()}\n")
                self._cleaner = Cleaner()
            case TurnFailed(error):
                self.failed = True
                sys.stderr.write(f"{clean(str(error))}\n")  # it may quote a server
            case _:
                pass

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._spoke = self._spoke or not is_empty(text)
        self._ended = text.endswith("\n") if text else self._ended


class _JsonOutput:
    """Prints every event as one JSON object."""

    def __init__(self, session: Session) -> None:
        self.failed = False
        print_json({"event": "session", "id": session.id})

    def show(self, event: Event) -> None:
        fields = structs.asdict(event)
        if isinstance(event, TurnFailed):
            self.failed = True
            fields = {"error": str(event.error), "kind": type(event.error).__name__}
        print_json({"event": _CAMEL.sub("_", type(event).__name__).lower(), **fields})
