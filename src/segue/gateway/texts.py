"""Texts that the gateway itself sends to chats."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import datetime, timedelta

from segue.core.text import count, one_line

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
WITHDRAWN = "Stopped, because the message was deleted."
STOPPED_ELSEWHERE = "The agent was working on it, and was stopped."
NOTHING_TO_STOP = "There is nothing to stop."
ANSWERED_ALREADY = (
    "The message you edited was already answered. Send it as a new message, or type /undo first."
)


def not_encrypted(command: str) -> str:
    """Refuse a reaction that the server could have made up. `command` does the same. Empty if the
    message itself says what to type."""
    instead = command or "the command that the message names"
    return (
        "Reactions are not encrypted, so the server could have made this one up, and it counts for"
        f" nothing in this chat. Type {instead} instead."
    )


INTERRUPTED = " …\n\nInterrupted here."
"""Follows the words of an answer whose session was taken to another place."""
ANSWER_LOST = (
    "The answer that was under way here was interrupted, and the conversation has gone elsewhere"
    " since. The agent has your message there."
)
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
PAUSED = (
    "{label} has a message that waits on {platform}, where it cannot be sent for now: {reason}. It"
    " is sent there as soon as that is over. Type /resume {name} to continue here."
)
INTERRUPTED_PRESS = (
    "I was interrupted while I handled your choice. If nothing came of it, choose again."
)
GIVEN_UP = (
    "A message that you sent before the gateway started could not be answered. Send it again if it"
    " still matters. `segue status` has the reason."
)
NEVER_DONE = "Every gateway that tried to answer it stopped before it was done."


def unread(since: datetime, until: datetime) -> str:
    """Notice that messages in this chat were not read after an absence."""
    return (
        f"I was away, and could not read everything that was written here meanwhile. I did not"
        f" read what was written from {_time(since)} to {_time(until)}. Send again what matters."
    )


def forgotten(platform: str, keeps: timedelta, since: datetime, until: datetime) -> str:
    """Notice that the platform no longer had some messages after an absence."""
    hours = keeps // timedelta(hours=1)
    kept = count(hours, "hour") if hours < 48 else count(keeps.days, "day")
    return (
        f"I was away since {_time(since)}. {platform} keeps messages for {kept}, so what you wrote"
        f" before {_time(until)} may not have reached me. Send again what matters."
    )


def _time(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M}"


def file_not_sent(name: str, reason: str, *, uncertain: bool) -> str:
    """Notice that a file that the owner allowed did not arrive."""
    how = "may not have arrived" if uncertain else "could not be sent"
    return f"The file `{one_line(name, 80)}` {how}: {one_line(reason, 200)}."


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
        " gateway logs` to see the details, then hand it off again."
    )


def not_home(platform: str, reason: str, act: str, chat: str = "") -> str:
    """Notice, elsewhere, that a chat did not become the home channel. `act` is what the owner did
    there."""
    name = f" ({chat})" if chat else ""
    return (
        f"I cannot write in the {platform} chat{name} where you {act}, so it is not your home"
        f" channel: {reason.rstrip('.')}. Add the bot to that chat, or type /sethome in another"
        " one."
    )


def interrupted_command(typed: str) -> str:
    """Notice that the gateway stopped while it ran a command."""
    return (
        f"I was interrupted while I ran {one_line(typed, 80)}. It may or may not have been carried"
        " out. Type it again if it was not."
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
