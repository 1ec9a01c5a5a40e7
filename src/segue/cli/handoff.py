"""`segue handoff`: moves a session without a prompt, and reports each step as text or JSON."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import click
from click.shell_completion import CompletionItem

from segue import handoff as handoffs
from segue.chat import page_links
from segue.chat.location import holder
from segue.chat.output import draw, notice, print_json, say
from segue.chat.render.clean import clean
from segue.cli import completion
from segue.cli.signals import on_stop_signals
from segue.cli.store_access import with_store
from segue.core.errors import UserError
from segue.core.handoff import TARGETS, Failure
from segue.core.session import ME
from segue.handoff import STEPS, Completed, Failed, Progress, Stranded, Waiting, Working
from segue.store import Store
from segue.turns import hold

_COMPLETED = 0
_FAILED = 1
_CANCELLED = 130


def _platforms(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(target) for target in TARGETS if target.startswith(incomplete)]


@click.command()
@click.argument("session", shell_complete=completion.sessions)
@click.argument("place", metavar="PLATFORM[:CHAT_ID]", shell_complete=_platforms)
@click.option("--message", metavar="TEXT", help="A message to post there first.")
@click.option("--json", "as_json", is_flag=True, help="Print each step, one JSON object per line.")
@click.pass_context
def handoff(
    ctx: click.Context, *, session: str, place: str, message: str | None, as_json: bool
) -> None:
    """Move a session to another platform.

    It moves to your home channel there, or to the chat CHAT_ID. The steps are printed on standard
    error. Ctrl-C cancels the handoff. The exit code is 0 if the session has moved, 1 if the handoff
    was refused or failed, 2 for wrong arguments, and 130 if it was cancelled.
    """
    platform, colon, chat_id = place.partition(":")
    if not platform or (colon and not chat_id):
        raise click.UsageError("No destination. Give PLATFORM or PLATFORM:CHAT_ID.")
    report = HandoffJson() if as_json else HandoffText()

    async def hand_off(store: Store) -> int:
        """Hand off the session while holding its lease, and return the exit code."""
        try:
            found = await store.sessions.find(ME, session)
            async with hold(store, found.id, holder("`segue handoff`")) as held:
                stop = asyncio.Event()
                steps = handoffs.hand_off(
                    store, held, platform, chat_id=chat_id or None, message=message, interrupt=stop
                )
                with on_stop_signals(stop.set):
                    last = await _last(steps, report)
            if isinstance(last, Completed):
                farewell = await handoffs.handed_over(store, last)
                report.completed(last, farewell, await page_links.link_to(store, last))
                return _COMPLETED
        except UserError as error:
            report.refused(error)
            return _FAILED
        return _CANCELLED if last.handoff.failure is Failure.CANCELLED else _FAILED

    ctx.exit(with_store(hand_off))


async def _last(steps: AsyncGenerator[Progress], report: HandoffReport) -> Completed | Failed:
    """Report each step, and return the last one."""
    async with contextlib.aclosing(steps):
        async for step in steps:
            if not isinstance(step, Completed):
                report.step(step)
            if isinstance(step, Completed | Failed):
                return step
    raise RuntimeError("a handoff ended without a result")


class HandoffText:
    """Steps and errors go to standard error, the session's new place to standard output."""

    def step(self, step: Progress) -> None:
        notice(clean(step.text(), newlines=False))

    def refused(self, error: UserError) -> None:
        notice(f"Error: {clean(str(error), newlines=False)}")

    def completed(self, done: Completed, farewell: str, link: str | None) -> None:
        say(clean(farewell))
        if link:
            draw(page_links.shown(link))


class HandoffJson:
    """One JSON object per line. The last one has the result."""

    def step(self, step: Progress) -> None:
        print_json({"event": type(step).__name__.lower(), **_fields(step)})

    def refused(self, error: UserError) -> None:
        print_json({"event": "refused", "kind": type(error).__name__, "reason": str(error)})

    def completed(self, done: Completed, farewell: str, link: str | None) -> None:
        print_json({"event": "completed", **_fields(done), "link": link})


HandoffReport = HandoffText | HandoffJson


def _fields(step: Progress) -> dict[str, Any]:
    match step:
        case Working(platform, taken, attempt, detail):
            waits = {"detail": detail} if detail else {}
            return {"platform": platform, "step": STEPS[taken], "attempt": attempt, **waits}
        case Waiting(platform) | Stranded(platform):
            return {"platform": platform}
        case Completed(done):
            address = done.thread.key if done.thread else None
            outcome = {"address": address, "confirmed": done.confirmed}
        case Failed(done):
            outcome = {"reason": done.error, "cancelled": done.failure is Failure.CANCELLED}
    return {"platform": done.platform, "session": done.session_id, **outcome}
