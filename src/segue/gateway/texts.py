"""Texts that the gateway itself sends to chats."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from segue.core.session import EndReason, Session
from segue.core.text import one_line

INTRODUCTION = (
    f"Hello, I am Segue, your agent on **{socket.gethostname()}**. I work there on what you ask"
    " here, and ask you before I change or run anything. Type /help to see the commands, and"
    " /sethome to receive handoffs in this chat."
)
PAIRING = (
    "You are paired. To pair another account, type `segue pair` in a terminal on"
    f" **{socket.gethostname()}** and send the code from that account."
)
CODE_REFUSED = (
    "That code is not valid: it is wrong, was used already, or has expired. Type `segue pair` in a"
    " terminal for a new one."
)
PAIRED = "You are paired: I answer you here from now on. Type /help to see what I can do."
PAIRED_AT_HOME = (
    "You are paired: I answer you here from now on, and handoffs arrive in this chat. To receive"
    " them in another chat, type /sethome there. Type /help to see what I can do."
)
TOO_MANY_CODES = (
    "You are not paired: you sent too many wrong codes, so this one is no longer valid. Wait ten"
    " minutes, then type `segue pair` in a terminal for a new code and send it here."
)
BUSY = (
    "I am still busy with your earlier messages, so I did not accept this one. Send it again later."
)
STOPPED = "Stopped."
STOPPED_ELSEWHERE = "The agent was working on it, and was stopped."
NOTHING_TO_STOP = "There is nothing to stop."
ANSWERED_ALREADY = (
    "The message you edited was already answered. Send it as a new message, or type /undo first."
)
INTERRUPTED = " …\n\nInterrupted here."
"""Follows the words of an answer whose session was taken to another place."""
HALF = (
    "I was interrupted while I was writing here. If there is half a message above, ignore it: the"
    " whole answer follows."
)
JOINED = "Hello. Type /sethome to receive handoffs in this chat."
FAULT = (
    "An internal error occurred, and your message was not answered. Send it again. `segue gateway"
    " logs` has the details."
)
UNSENT = (
    "An internal error occurred, and a message could not be sent here. Ask me to repeat it, or"
    " read it with `segue sessions show` in a terminal. `segue gateway logs` has the details."
)
GIVEN_UP = (
    "A message that you sent before the gateway started could not be answered. Send it again if it"
    " still matters. `segue status` has the reason."
)
NEVER_DONE = "Every gateway that tried to answer it stopped before it was done."

_REASONS = {EndReason.IDLE: "it was idle for too long", EndReason.DAILY: "a new day has started"}


def replaced(former: Session, reason: EndReason | None) -> str:
    """Notice that a new session replaced the one in this chat."""
    why = _REASONS.get(reason or EndReason.CLOSED, "it was closed")
    name = one_line(former.name)
    return f"This is a new session. {name} ended because {why}. Type /resume {name} to go back."


def not_ended(name: str) -> str:
    """Notice that a stale session could not be ended."""
    return (
        f"{one_line(name)} should have ended here because it was idle for too long, but an internal"
        " error occurred. It continues. Type /new to start a new session."
    )


def not_handed_off(reason: str) -> str:
    """Error of a handoff that failed unexpectedly."""
    return (
        f"An internal error occurred ({reason}). The session stayed where it was. Type `segue"
        " gateway logs` to see the details, then /handoff again."
    )


def moving(platform: str) -> str:
    """Notice that the session leaves the chat in the middle of a turn."""
    return (
        f"Moving to {platform} as soon as the agent has finished this step. Type /stop to stay"
        " here."
    )


def cut_off(tools: Sequence[str]) -> str:
    """Notice that a turn was interrupted while a tool was running."""
    names = ", ".join(f"`{one_line(name, 40)}`" for name in tools)
    return (
        f"I was interrupted while running {names}. It may or may not have finished. I do not"
        " repeat it unless you ask me to."
    )
