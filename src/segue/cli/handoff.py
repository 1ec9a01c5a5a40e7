"""`segue handoff`: moves a session without a prompt, and reports each step as text or JSON."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import click
from click.shell_completion import CompletionItem

from segue import handoffs
from segue.cli import completion
from segue.cli.common import INTERRUPTED, on_stop_signals, with_store
from segue.core.address import TARGETS, Platform
from segue.core.errors import HandoffError, SessionHeld, UserError
from segue.core.session import ME
from segue.handoffs import (
    Completed,
    Failed,
    HandoffRequest,
    Held,
    IfHeld,
    Kept,
    Progress,
    Stranded,
    Waiting,
    Working,
)
from segue.handoffs.values import STEPS, Failure
from segue.store import Store, sessions
from segue.terminal import web_page
from segue.terminal.open_session import holder
from segue.terminal.output import draw, notice, print_json, say
from segue.terminal.render.clean import clean

_COMPLETED = 0
_FAILED = 1


def _platforms(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(target) for target in TARGETS if target.startswith(incomplete)]


@click.command()
@click.argument("session", shell_complete=completion.sessions)
@click.argument("place", metavar="PLATFORM[:CHAT_ID]", shell_complete=_platforms)
@click.option("--message", metavar="TEXT", help="A message to post there first.")
@click.option("--lan", is_flag=True, help="Let phones in the local network open the web page.")
@click.option(
    "--wait",
    is_flag=True,
    help="If it is open elsewhere, move it when the agent has finished its step there.",
)
@click.option(
    "--now", is_flag=True, help="If it is open elsewhere, stop the agent there and move it."
)
@click.option("--new-thread", is_flag=True, help="Open a new thread, even if it has one there.")
@click.option("--json", "as_json", is_flag=True, help="Print each step, one JSON object per line.")
@click.pass_context
def handoff(
    ctx: click.Context,
    *,
    session: str,
    place: str,
    message: str | None,
    lan: bool,
    wait: bool,
    now: bool,
    new_thread: bool,
    as_json: bool,
) -> None:
    """Move a session to another platform.

    It moves to your home channel there, or to the chat CHAT_ID, and returns to the thread that it
    had there before, if there is one. A session that is open in a terminal, or whose agent is
    working in a chat, is moved only with --wait or --now. With --wait, the agent goes on with its
    work at the new place.

    The steps are printed on standard error. Ctrl-C cancels the handoff. The exit code is 0 if the
    session has moved, 1 if the handoff was refused or failed, 2 for wrong arguments, and 130 if it
    was cancelled.
    """
    platform, colon, chat_id = place.partition(":")
    if not platform or (colon and not chat_id):
        raise click.UsageError("No destination. Give PLATFORM or PLATFORM:CHAT_ID.")
    if lan and platform != Platform.WEB:
        raise click.UsageError("--lan is for the web page. Give web as the destination.")
    if wait and now:
        raise click.UsageError("Give --wait or --now, not both.")
    if_held = IfHeld.STOP if now else IfHeld.WAIT if wait else IfHeld.REFUSE
    report = HandoffJson() if as_json else HandoffText()

    async def hand_off(store: Store) -> int:
        """Hand off the session, and return the exit code."""
        stop = asyncio.Event()
        try:
            found = await sessions.find(store, ME, session)
            if lan:
                await web_page.let_phones_in(store)
            request = HandoffRequest(
                handoffs.platform_named(platform),
                chat_id=chat_id or None,
                message=message,
                new_thread=new_thread,
                if_held=if_held,
            )
            steps = handoffs.hand_off_session(
                store, found.id, holder("`segue handoff`"), request, interrupt=stop
            )
            with on_stop_signals(stop.set):
                last = await _last(steps, report)
            if isinstance(last, Completed):
                farewell = await handoffs.handed_over(store, last)
                report.completed(last, farewell, await web_page.link_to(store, last))
        except SessionHeld as held:
            report.refused(
                HandoffError(
                    f"This session is open in {held.fields['holder']}. Close it there first, add"
                    " --wait to move it when the agent has finished its step there, or add --now to"
                    " stop the agent and move it."
                )
            )
            return _FAILED
        except UserError as error:
            report.refused(error)
            return _FAILED
        return _exit_code(last)

    ctx.exit(with_store(hand_off))


async def _last(
    steps: AsyncGenerator[Progress], report: HandoffReport
) -> Completed | Failed | Kept:
    """Report each step, and return the last one."""
    async with contextlib.aclosing(steps):
        async for step in steps:
            if not isinstance(step, Completed):
                report.step(step)
            if isinstance(step, Completed | Failed | Kept):
                return step
    raise RuntimeError("a handoff ended without a result")


def _exit_code(last: Completed | Failed | Kept) -> int:
    match last:
        case Completed():
            return _COMPLETED
        case Failed(failed):
            return INTERRUPTED if failed.failure is Failure.CANCELLED else _FAILED
        case Kept():
            return _FAILED if last.elsewhere else INTERRUPTED


class HandoffText:
    """Steps and errors go to standard error, the session's new place to standard output."""

    def step(self, step: Progress) -> None:
        notice(clean(step.text(), newlines=False))

    def refused(self, error: UserError) -> None:
        notice(f"Error: {clean(str(error), newlines=False)}")

    def completed(self, done: Completed, farewell: str, link: str | None) -> None:
        say(clean(farewell))
        if link:
            draw(web_page.link_lines(link))


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
        case Held(platform, holder):
            return {"platform": platform, "holder": holder}
        case Waiting(platform) | Stranded(platform):
            return {"platform": platform}
        case Kept(platform):
            return {"platform": platform, "reason": step.text(), "cancelled": not step.elsewhere}
        case Completed(done):
            address = done.thread.key if done.thread else None
            outcome = {"address": address, "confirmed": done.confirmed}
        case Failed(done):
            outcome = {"reason": done.error, "cancelled": done.failure is Failure.CANCELLED}
    return {"platform": done.platform, "session": done.session_id, **outcome}
