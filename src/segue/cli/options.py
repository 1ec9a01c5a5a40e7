"""Options that several commands have, and the question that --yes answers."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Generator

import click

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
YES = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def pass_json_on(ctx: click.Context) -> None:
    """Make --json before the subcommand mean the same as after it."""
    ctx.default_map = {str(ctx.invoked_subcommand): {"as_json": True}}


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
            click.confirm(question, abort=True, err=True)
