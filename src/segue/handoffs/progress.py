"""What the side that requested a handoff sees: its progress, and at the end where the session is.

It is Waiting, then Working from step to step, or Stranded if its gateway died and another may
resume it. It ends as Completed or Failed. If another process holds the session, it is Held first,
and Kept if the request to release it is withdrawn before the handoff has begun.
"""

from __future__ import annotations

import contextlib
import shlex

from msgspec import Struct

from segue import config
from segue.core.address import Platform
from segue.core.errors import SessionError, SessionNotFound
from segue.core.session import Session
from segue.core.text import one_line
from segue.handoffs.values import MAX_ATTEMPTS, REASONS, STEPS, Failure, Handoff, State, Step
from segue.store import Store, owners, sessions


class Held(Struct, frozen=True):
    """Another process holds the session, and lets it go when its turn reaches a safe point."""

    platform: Platform
    holder: str | None
    """None if a gateway has yet to resume the turn that it was running."""
    stops: bool = False
    """Whether its turn is stopped."""

    def text(self) -> str:
        if self.stops:
            return f"stopping the agent{f' in {self.holder}' if self.holder else ''}…"
        if self.holder is None:
            return "waiting for a gateway to resume the agent's work… Ctrl-C to stop waiting."
        return f"waiting for the agent to finish its step in {self.holder}… Ctrl-C to stop waiting."


class Kept(Struct, frozen=True):
    """The release request was withdrawn, and the session stays where it is."""

    platform: Platform
    elsewhere: bool
    """Whether it was withdrawn where the session is, not by the process that waits."""

    def text(self) -> str:
        if self.elsewhere:
            return (
                "The session was not handed off: it was kept where it is, or taken somewhere else"
                " meanwhile. Type `segue status` to see where it is."
            )
        return REASONS[Failure.CANCELLED]


class Waiting(Struct, frozen=True):
    """No gateway has claimed it yet."""

    platform: Platform

    def text(self) -> str:
        return f"waiting for a gateway to take it to {self.platform}…"


class Working(Struct, frozen=True):
    """A gateway is working on it."""

    platform: Platform
    step: Step
    attempt: int = 1
    """How many gateways have claimed it so far."""
    detail: str | None = None
    """What the step is waiting for, or None."""

    def text(self) -> str:
        where = "by a gateway" if self.step is Step.CLAIMED else f"on {self.platform}"
        again = f" (attempt {self.attempt} of {MAX_ATTEMPTS})" if self.attempt > 1 else ""
        waits = f": {self.detail}" if self.detail else ""
        return f"{STEPS[self.step]} {where}{again}{waits}…"


class Stranded(Struct, frozen=True):
    """Its gateway is gone. Nothing has moved, and another gateway may resume it."""

    platform: Platform

    def text(self) -> str:
        return "the gateway stopped; waiting for another one to continue…"


class Completed(Struct, frozen=True):
    """The session has moved. The terminal only has to exit."""

    handoff: Handoff

    def text(self) -> str:
        warning = f" {self.handoff.warning}" if self.handoff.warning else ""
        return f"The session is on {self.handoff.thread} now.{warning}"


class Failed(Struct, frozen=True):
    """The session has not moved, and will not."""

    handoff: Handoff

    def text(self) -> str:
        reason = one_line(self.handoff.error or "")
        if self.handoff.failure is Failure.CANCELLED:
            return reason
        return f"The handoff failed. {reason}"


Progress = Held | Waiting | Working | Stranded | Completed | Failed | Kept


def progress(now: Handoff, *, at_work: bool) -> Progress:
    """Return the progress of `now`. `at_work`: whether the gateway that claimed it is alive."""
    match now.state:
        case State.PENDING:
            return Waiting(now.platform)
        case State.RUNNING if at_work:
            return Working(now.platform, now.step or Step.CLAIMED, now.attempt, now.detail)
        case State.RUNNING:
            return Stranded(now.platform)
        case State.COMPLETED:
            return Completed(now)
        case State.FAILED:
            return Failed(now)


# The farewell: where the session is, and how to come back to it


async def handed_over(store: Store, done: Completed) -> str:
    """The text for the terminal that handed the session off: where it is, and how to come back."""
    session = await _session(store, done)
    return f"{await arrived(store, done)}\nTo come back: {await way_back(store, session)}"


async def arrived(store: Store, done: Completed) -> str:
    """The text that says where the session is now."""
    handoff = done.handoff
    session = await _session(store, done)
    homes = await owners.homes(store, session.owner)
    names = [one_line(home.name) for home in homes if home.address == handoff.home]
    where = f"{handoff.thread} ({names[0]})" if any(names) else f"{handoff.thread}"
    lines = [f"{session.label} continues on {where}."]
    if handoff.thread == handoff.home:
        lines.append("No thread could be opened there, so it continues in the chat itself.")
    elif handoff.replaced:
        lines.append("The thread that it had there could not be used, so a new one was opened.")
    if handoff.mid_turn:
        lines.append("The agent goes on with its work there.")
    if handoff.warning:
        lines.append(handoff.warning)
    return "\n".join(lines)


async def _session(store: Store, done: Completed) -> Session:
    if (session := await sessions.get(store, done.handoff.session_id)) is None:
        raise SessionNotFound(name=done.handoff.session_id)
    return session


async def way_back(store: Store, session: Session) -> str:
    """The shell command to come back: with the title, or with the id if the title now means another
    session."""
    with contextlib.suppress(SessionError):
        meant = await sessions.find(store, session.owner, session.name)
        if meant.id == session.id and not session.name.startswith("-"):
            return f"{config.command_name()} resume {shlex.quote(session.name)}"
    return f"{config.command_name()} resume {session.id}"
