"""The demo: a turn in the terminal, a handoff, the page in a browser, and the way back.

The steps run with the real components, until they are completed, failed or interrupted. They are
printed one by one as text, or in the end as a single JSON object.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import segue.store
from segue import config, handoffs
from segue.agent.models.choice import Choice
from segue.cli.common import INTERRUPTED, on_stop_signals
from segue.cli.demo.browser import Browser, open_browser, text
from segue.cli.demo.gateway import choose_model, demo_settings, installed_parts, models, run_gateway
from segue.config import Settings
from segue.core.address import Platform
from segue.core.context import Context
from segue.core.errors import DemoFailed, UserError
from segue.core.events import TurnDone, TurnFailed
from segue.core.session import ME, Session
from segue.core.text import count, one_line
from segue.core.transcript import Message, Role, Transcript
from segue.handoffs import Completed, Failed, HandoffRequest
from segue.jobs import reminders
from segue.store import Store, Topic, leases, outbox, owners, sessions, transcripts
from segue.terminal import web_page
from segue.terminal.open_session import address, holder, wait_for_turn
from segue.terminal.output import folded, notice, print_json, say, screen
from segue.turns import HeldLease, Place, Turns, hold
from segue.turns.agents import Agents
from segue.web import render

COMPLETED = 0
FAILED = 1
FACT = "My boat is called Aurora and it is 9 metres long."
QUESTION = "What is my boat called?"
NAME = "Aurora"
_TITLE = "The boat"
_WAS_INTERRUPTED = "The demo was interrupted."
_QUICK = 30.0
_SLOW = 300.0
"""Timeout in seconds for a step that runs the model, which is slow on a small machine."""
_POLL_SECONDS = 0.05
_WIDTH = 80
_INDENT = "   "
_MAX_SHOWN = 400
"""How many characters of an answer are shown."""


class Play:
    def __init__(
        self,
        settings: Settings,
        choice: Choice,
        folder: Path,
        record: DemoRecord,
        report: DemoReport,
    ) -> None:
        self._settings = demo_settings(settings, folder, choice.name)
        self._choice = choice
        self._folder = folder
        self._record = record
        self._report = report
        record.model = choice.name

    async def perform(self) -> None:
        """Run all steps in order. Raises DemoFailed or another UserError if one fails."""
        self._report.introduce(
            "A conversation moves from the terminal to the web page and back, in a temporary"
            f" folder. The model is {self._choice.name}: {self._choice.why}"
        )
        async with (
            await segue.store.open(self._settings.store) as store,
            contextlib.AsyncExitStack() as until_the_end,
        ):
            async with self._step("gateway", "A gateway starts in a separate process.", _QUICK):
                gateway = run_gateway(store, self._folder, self._choice.name)
                url = await until_the_end.enter_async_context(gateway)
                self._report.line(f"It serves the page at {url}.")
            link, session = await self._leave_terminal(store)
            async with contextlib.AsyncExitStack() as until_closed:
                async with self._step("page", "A browser opens the link.", _QUICK):
                    browser = await until_closed.enter_async_context(open_browser(link))
                    self._report.line(_seen(browser))
                asks = "On the page: a question about what was said in the terminal."
                async with self._step("reply", asks, _SLOW):
                    await self._ask(store, session, browser)
            async with self._step("back", "Back in the terminal, as with `segue resume`.", _QUICK):
                await self._come_back(store, session)

    @contextlib.asynccontextmanager
    async def _step(self, name: str, what: str, seconds: float) -> AsyncGenerator[None]:
        self._report.begins(len(self._record.steps) + 1, what)
        began = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise DemoFailed(reason=f"this step took longer than {seconds:.0f} seconds") from None
        ms = round((time.monotonic() - began) * 1000)
        self._record.steps.append(DemoStep(name, ms))
        self._report.ends(ms)

    # In the terminal

    async def _leave_terminal(self, store: Store) -> tuple[str, Session]:
        """Start a session and hand it off. Return the link to it and the session."""
        await owners.ensure(store, ME)
        cwd = str(self._folder)
        session = await sessions.create(store, ME, Platform.LOCAL, title=_TITLE, cwd=cwd)
        self._record.session = session.id
        async with hold(store, session.id, holder(), address=address(session.id)) as held:
            async with self._step("terminal", "In the terminal: a session starts.", _SLOW):
                await self._tell_fact(store, held)
            async with self._step("handoff", "In the terminal: /handoff web", _SLOW):
                done = await self._hand_off(store, held)
        link = await web_page.link_to(store, done)
        if link is None:
            raise DemoFailed(reason="the gateway has no link to its page")
        return link, session

    async def _tell_fact(self, store: Store, held: HeldLease) -> None:
        session_id = held.lease.session_id
        place = Place(context=Context(source=address(session_id)), holder=holder())
        self._report.said("you", FACT)
        turns = Turns(
            store,
            Agents(store, self._settings, models(self._choice.name), more_tools=reminders.tools),
        )
        events = turns.take_turn(session_id, FACT, place, held=held)
        async with turns, contextlib.aclosing(events):
            async for event in events:
                if isinstance(event, TurnFailed):
                    raise event.error
                if isinstance(event, TurnDone):
                    break
        self._report.said("Segue", (await _last(store, session_id)).content)

    async def _hand_off(self, store: Store, held: HeldLease) -> Completed:
        steps = handoffs.hand_off(store, held, HandoffRequest(Platform.WEB))
        async with contextlib.aclosing(steps):
            async for step in steps:
                self._report.line(step.text())
                match step:
                    case Completed(done):
                        self._record.pickup_ms = _ms(done.requested, done.claimed)
                        self._record.handoff_ms = _ms(done.requested, done.finished)
                        return step
                    case Failed(done):
                        raise DemoFailed(reason=done.error or "the handoff failed")
                    case _:
                        pass
        raise RuntimeError("a handoff ended without a result")

    # On the page

    async def _ask(self, store: Store, session: Session, browser: Browser) -> None:
        self._report.said("you", QUESTION)
        asked = await browser.say(QUESTION)
        async with store.listen(Topic.LEASES, Topic.SENT) as wake:
            while not await self._is_over(store, session, browser, asked):
                await wake.wait(_POLL_SECONDS)
        shown = browser.answers(asked)
        reply = await _last(store, session.id)
        if reply.role is not Role.ASSISTANT:
            words = text(shown[-1].html)
            raise DemoFailed(reason=f"the agent did not answer; the page says: {words}")
        await browser.until(lambda: _shows(browser, asked, reply))
        self._record.reply = reply.content
        self._record.saw_earlier = _knew(await transcripts.load(store, session.id), reply)
        self._report.said("Segue", reply.content)

    async def _is_over(self, store: Store, session: Session, browser: Browser, asked: int) -> bool:
        """Return whether the page shows an answer, the turn is over and the outbox is empty."""
        shown = browser.answers(asked)
        if browser.is_asked:
            raise DemoFailed(reason="the model asked to use a tool, which the demo cannot approve")
        there = await sessions.get(store, session.id)
        if there is None or there.address is None or not shown:
            return False
        works = await leases.get(store, session.id) is not None
        return not works and not await outbox.is_waiting(store, there.address)

    # Back in the terminal

    async def _come_back(self, store: Store, session: Session) -> None:
        await wait_for_turn(store, session.id, asyncio.Event())
        async with hold(store, session.id, holder(), address=address(session.id)):
            transcript = await transcripts.load(store, session.id)
        self._record.roles = [message.role.value for message in transcript]
        if QUESTION not in [message.content for message in transcript]:
            raise DemoFailed(reason="what was said on the page is not in the transcript")
        self._report.line(f"One transcript holds it all: {', '.join(self._record.roles)}.")


def _ms(begun: datetime, over: datetime | None) -> int | None:
    return None if over is None else round((over - begun).total_seconds() * 1000)


async def _last(store: Store, session_id: str) -> Message:
    (message,) = await transcripts.last(store, session_id, 1)
    return message


def _seen(browser: Browser) -> str:
    """Describe what the browser shows. Raises DemoFailed if it lacks the terminal's messages."""
    if all(FACT not in text(line.html) for line in browser.history):
        raise DemoFailed(reason="the page does not show what was said in the terminal")
    history = count(len(browser.history), "message")
    return f"The link works once. The page shows {history} from the terminal."


def _shows(browser: Browser, asked: int, reply: Message) -> bool:
    wanted = render.html(reply.content)
    return any(message.html == wanted for message in browser.answers(asked))


def _knew(transcript: Transcript, reply: Message) -> bool:
    """Return whether the reply had the terminal's messages before it, and used them."""
    before = [message.content for message in transcript if message.seq < reply.seq]
    return FACT in before and QUESTION in before and NAME.casefold() in reply.content.casefold()


def run(*, as_json: bool, yes: bool, scripted: bool) -> int:
    """Run the demo, and return the exit code."""
    record = DemoRecord()
    report = DemoReport(silent=as_json)
    code = COMPLETED
    try:
        settings = config.load()
        before = installed_parts(settings)
        # With --json, only the JSON object is on standard output.
        try:
            with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
                choice = choose_model(settings, yes=yes, scripted=scripted)
        finally:
            record.kept = [part for part in installed_parts(settings) if part not in before]
        asyncio.run(_perform(settings, choice, record, report))
    except UserError as error:
        record.error = str(error)
        code = FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        record.error = f"{_WAS_INTERRUPTED} {left(record)}"
        code = INTERRUPTED
    if as_json:
        print_json(record.json())
    elif record.error:
        notice(one_line(record.error if code == INTERRUPTED else f"Error: {record.error}"))
    else:
        report.end(record)
    return FAILED if code == COMPLETED and not record.saw_earlier else code


async def _perform(
    settings: Settings, choice: Choice, record: DemoRecord, report: DemoReport
) -> None:
    """Run the demo in a temporary folder, and always remove the folder."""
    task = asyncio.current_task()

    def end() -> None:
        # Later signals do not disturb the cleanup.
        if task is not None and not task.cancelling():
            task.cancel()

    with on_stop_signals(end):
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="segue-demo-"))
        try:
            await Play(settings, choice, folder, record, report).perform()
        finally:
            # Not in a thread, so that a second interrupt cannot prevent the cleanup.
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class DemoStep:
    name: str
    ms: int


@dataclass(slots=True, kw_only=True)
class DemoRecord:
    """The results so far."""

    error: str | None = None
    model: str | None = None
    session: str | None = None
    steps: list[DemoStep] = field(default_factory=list[DemoStep])
    pickup_ms: int | None = None
    """From the request to the gateway's claim."""
    handoff_ms: int | None = None
    """From the request to the completed handoff."""
    roles: list[str] = field(default_factory=list[str])
    """The roles of the transcript's messages, as the terminal finds it at the end."""
    reply: str | None = None
    """The agent's reply on the page."""
    kept: list[str] = field(default_factory=list[str])
    """What the demo downloaded, which stays for later."""
    saw_earlier: bool = False
    """Whether the reply used what was said in the terminal."""

    def json(self) -> dict[str, Any]:
        return {"state": "failed" if self.error else "completed", **asdict(self)}


class DemoReport:
    """Prints the progress of the demo, or nothing if it is `silent`, for --json."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self._width = min(screen() or _WIDTH, _WIDTH)

    def introduce(self, text: str) -> None:
        self._say(one_line(text), "")

    def line(self, text: str) -> None:
        self._say(one_line(text), _INDENT)

    def begins(self, number: int, what: str) -> None:
        self._say(what, _INDENT, f"{number}. ", gap="\n")

    def ends(self, ms: int) -> None:
        self._say(f"({seconds(ms)})", _INDENT)

    def said(self, who: str, text: str) -> None:
        head = f"{_INDENT}{who:<5}  "
        self._say(one_line(text, _MAX_SHOWN), " " * len(head), head)

    def end(self, record: DemoRecord) -> None:
        whole = seconds(sum(step.ms for step in record.steps))
        pickup = record.pickup_ms
        moved = seconds(record.handoff_ms or 0)
        used = "used" if record.saw_earlier else "did not use"
        self._say(
            f"Done in {whole}. The handoff was picked up after {pickup} ms and completed after"
            f" {moved}. The reply on the page {used} what was said in the terminal. {left(record)}",
            "",
            gap="\n",
        )

    def _say(self, text: str, indent: str, first: str | None = None, gap: str = "") -> None:
        if not self._silent:
            say(gap + folded(text, self._width, indent, first))


def left(record: DemoRecord) -> str:
    """Return a sentence about what stays of the demo."""
    if not record.kept:
        return "The demo left nothing behind."
    return f"The demo left nothing behind but {' and '.join(record.kept)}."


def seconds(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:.1f} s"
