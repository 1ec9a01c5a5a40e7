"""What several commands share: their options and the question that --yes answers, the store for a
single operation, steps of a long command, times and sizes in words, and signals to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Awaitable, Callable, Collection, Generator
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import click

import segue.store
from segue import config
from segue.core.errors import BadSettings, StoreError
from segue.core.text import count, one_line
from segue.gateway import background
from segue.store import Store, gateways
from segue.terminal.output import notice

if TYPE_CHECKING:
    from segue.store.archives import Progress

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
YES = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
T = TypeVar("T")
INTERRUPTED = 130
"""The exit code of a command after Ctrl-C, as shells expect."""
_WIDTH = 7
"""Of the longest state."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_DAYS = 30
"""Older times are shown as a date."""


def pass_json_on(ctx: click.Context) -> None:
    """Make --json before the subcommand mean the same as after it."""
    ctx.default_map = {str(ctx.invoked_subcommand): {"as_json": True}}


class Declined(click.Abort):
    """The user answered no. Unlike after Ctrl-C, the exit code is 1."""


@contextlib.contextmanager
def interruptible() -> Generator[None]:
    """Let Ctrl-C end a question that is asked in a coroutine. The event loop would only cancel its
    task, which runs on once the question is answered, so the next line would be an answer."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def confirm(question: str, to: str, *, yes: bool) -> None:
    """Ask, and abort unless the user agrees. `to` says what --yes is for without a terminal."""
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError(f"No terminal to ask on. Add --yes to {to}.")
        with interruptible():
            if not click.confirm(question, err=True):
                raise Declined


def warn_of_bad_settings() -> None:
    """Warn if the settings have an error, in a command that does its work nevertheless."""
    try:
        config.load()
    except BadSettings as error:
        found = f"{error.fields['path']}: {error.fields['reason']}"
        notice(f"Warning: there is an error in {one_line(found)}. Type `segue config edit`.")


def with_store(work: Callable[[Store], Awaitable[T]], url: str | None = None) -> T:
    """Run `work` on the store at `url` or else the configured one, and return its result."""

    async def run() -> T:
        async with await segue.store.open(url or config.load().store) as store:
            return await work(store)

    return asyncio.run(run())


def effect_on_gateway(names: Collection[str]) -> str:
    """Return whether the running gateway uses new values of these settings; empty if there is no
    gateway on this machine."""
    try:
        alive = with_store(gateways.alive)
    except StoreError:  # which other commands report
        return ""
    if not names or not background.here(alive):
        return ""
    if later := sorted(name for name in names if not config.is_reloaded(name)):
        restart = "`segue gateway stop`, then `segue gateway start`"
        return f"The running gateway uses {', '.join(later)} only after a restart: {restart}."
    return "The running gateway uses this from now on."


@contextlib.contextmanager
def show_step(title: str) -> Generator[Progress]:
    """Show a step while it runs, with what is done of it. In a pipe, show nothing."""
    if not sys.stderr.isatty():
        yield lambda done, whole: None
        return
    line = _StepLine(title)
    line.show("…")
    try:
        yield line.show_part
        line.show(": done")
    finally:
        sys.stderr.write("\n")


class _StepLine:
    def __init__(self, title: str) -> None:
        self._title = title
        self._state = ""

    def show_part(self, done: int, whole: int) -> None:
        if whole:
            self.show(f": {100 * done // whole} %")

    def show(self, state: str) -> None:
        if state == self._state:
            return
        self._state = state
        sys.stderr.write(f"\r{self._title}{state:<{_WIDTH}}")
        sys.stderr.flush()


def ago(then: datetime, now: datetime) -> str:
    """Return how long before `now` the time `then` was, in words."""
    seconds = int((now - then).total_seconds())
    if seconds < _MINUTE:
        return "just now"
    if seconds < _HOUR:
        return f"{count(seconds // _MINUTE, 'minute')} ago"
    if seconds < _DAY:
        return f"{count(seconds // _HOUR, 'hour')} ago"
    if seconds < _DAYS * _DAY:
        return f"{count(seconds // _DAY, 'day')} ago"
    return f"{then.astimezone():%Y-%m-%d}"


def size(number: int) -> str:
    """Return a number of bytes with a unit: `17 bytes`, `3.4 MB`, `120 GB`."""
    if number < 1000:
        return count(number, "byte")
    amount = float(number)
    for unit in ("kB", "MB", "GB", "TB"):
        amount /= 1000
        if amount < 999.5 or unit == "TB":
            break
    return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:,.0f} {unit}"


@contextlib.contextmanager
def on_stop_signals(handler: Callable[[], object]) -> Generator[None]:
    """Call `handler` on Ctrl-C or another signal to stop, instead of ending the program."""
    loop = asyncio.get_running_loop()
    for number in _ENDING:
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in _ENDING:
            loop.remove_signal_handler(number)
