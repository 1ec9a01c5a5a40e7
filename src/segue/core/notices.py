"""The texts that tell a chat that a session came, went or was replaced.

The store queues them in the same transaction as the change, so that both happen or neither.
"""

from __future__ import annotations

from segue.core.address import Platform
from segue.core.session import EndReason, Session
from segue.core.text import one_line

CUT_OFF = (
    "The agent was interrupted in the terminal before it had answered your last message there."
)

_BRING_IT = "Bring it back"
_LABEL_LENGTH = 40
_REASONS = {EndReason.IDLE: "it was idle for too long", EndReason.DAILY: "a new day has started"}


def left(session: Session, name: str) -> str:
    """For the chat that a session left, where the user may be waiting for an answer. `name` is what
    to call it by there."""
    return (
        f"This conversation went to {session.address}. Type /resume {name} to bring it back here."
    )


def displaced(session: Session, name: str) -> str:
    """For the chat where another session has taken the place of this one."""
    label = one_line(session.label)
    return f"{label} was here before. Type /resume {name} to bring it back."


def new_one(former: Session, name: str) -> str:
    """For the chat where a new session answers, and not the one that was there last."""
    if former.ended:
        where = "has ended"
    elif former.address is None:
        where = "is not open anywhere"
    elif former.address.platform is Platform.LOCAL:
        where = "is in the terminal"
    else:
        where = f"is on {former.address}"
    return (
        f"A new session answers here from now on. {one_line(former.label)} {where}: type /resume"
        f" {name} to bring it back here."
    )


def replaced(former: Session, reason: EndReason | None) -> str:
    """For the chat where a new session has replaced one that is over."""
    why = _REASONS.get(reason or EndReason.CLOSED, "it was closed")
    return (
        f"This is a new session. {one_line(former.label)} ended because {why}. Type /resume"
        f" {one_line(former.exact_name)} to go back."
    )


def bring_back_label(session: Session) -> str:
    """The label of the button that brings the session back to a chat."""
    if session.title:
        return f"Bring back {one_line(session.title, _LABEL_LENGTH)}"
    return _BRING_IT
