"""Texts that the gateway itself sends to chats."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from segue.core.session import EndReason, Session
from segue.core.text import one_line

INTRODUCTION = (
    f"Hello, I am Segue, your agent on **{socket.gethostname()}**. What you write here I do there,"
    " and I ask before I change or run anything. Type /help to see the commands, and /sethome to"
    " let handoffs arrive in this chat."
)
PAIRING = (
    "You are paired. To pair another account, type `segue pair` in a terminal on"
    f" **{socket.gethostname()}**, and send the code from that account."
)
CODE_REFUSED = "That code is wrong, was used, or is too old."
PAIRED = "You are paired: from now on I listen to you here. Type /help to see what I can do."
PAIRED_AT_HOME = (
    "You are paired: from now on I listen to you here, and handoffs arrive in this chat. Type"
    " /sethome in another chat if they should arrive there, and /help to see what I can do."
)
TOO_MANY_CODES = (
    "You are not paired: too many wrong codes came from you before this one, and it is void now."
    " Wait ten minutes, then type `segue pair` for a new code and send it here."
)
BUSY = "I am busy with what you wrote before, and did not take this up. Send it again in a while."
STOPPED = "Stopped."
NOTHING_TO_STOP = "Nothing is under way here."
ANSWERED_ALREADY = (
    "What you changed was answered already. Send it as a new message, or type /undo first."
)
HALF = (
    "I was stopped while I wrote here. If half a message stands above, the whole answer is the one"
    " that follows it."
)
JOINED = "I am here. Type /sethome if handoffs should arrive in this chat."
FAULT = (
    "Something went wrong in Segue itself, and this was not answered. `segue gateway logs` has"
    " more. Send it again, or something else."
)
UNSENT = (
    "Something went wrong in Segue itself, and a message could not be sent here. `segue status`"
    " and `segue gateway logs` have more. Ask me to say it again, or read it with `segue sessions"
    " show` in a terminal."
)
GIVEN_UP = (
    "A message of yours from before the gateway started was given up, and not answered. Send it"
    " again if it still matters; `segue status` has the reason."
)
NEVER_DONE = "Each gateway that began with it ended before it was done."

_REASONS = {
    EndReason.IDLE: "nothing was said in it for long enough",
    EndReason.DAILY: "a new day began",
}


def replaced(former: Session, reason: EndReason | None) -> str:
    """Notice that a new session replaced the one in this chat."""
    why = _REASONS.get(reason or EndReason.CLOSED, "it was over")
    name = one_line(former.name)
    return f"This is a new session: {name} ended, because {why}. Type /resume {name} to go back."


def not_ended(name: str) -> str:
    """Notice that a stale session could not be ended."""
    return (
        f"{one_line(name)} was to end here, because nothing was said in it for long, but something"
        " went wrong in Segue itself. It goes on; type /new to end it."
    )


def not_handed_off(reason: str) -> str:
    """Error of a handoff that failed unexpectedly."""
    return (
        f"Something went wrong in Segue itself ({reason}). The session stayed where it was. Type"
        " `segue gateway logs` to see more, then /handoff again."
    )


def cut_off(tools: Sequence[str]) -> str:
    """Notice that a turn was interrupted while a tool was running."""
    names = ", ".join(f"`{one_line(name, 40)}`" for name in tools)
    return (
        f"I was stopped in the middle of {names}. Whether it was done is not known, and I do not"
        " repeat it by myself."
    )
