"""The messages where a session arrives: a recap for the user, and the agent's reply."""

from __future__ import annotations

import json

import msgspec
from msgspec import Struct, field

from segue.core.address import Address
from segue.core.session import Session, Usage
from segue.core.text import is_empty, one_line
from segue.core.transcript import Message, Role, Transcript
from segue.handoffs.values import Handoff

RECAP_MESSAGES = 40
"""How many messages to search for the last exchanges."""
_MESSAGE_LENGTH = 2000
_ASK = {
    False: (
        "where your person reads on, probably on a phone. Write to them in two or three short"
        " sentences: say that you are here, then sum up what they told you and asked you above,"
        " then what could come next. Use no tools, and do not begin anything new."
    ),
    True: (
        "back to where your person wrote to you before. Write to them in one or two short"
        " sentences: say that you are back, then sum up what happened elsewhere since you left"
        " there, if anything did. Use no tools, and do not begin anything new."
    ),
}
"""What the agent is asked to say in a new thread, and in one where it was before."""
_GOES_ON = "The agent was working, and goes on with it here."
_UNCONFIRMED = (
    "The message before this one may be missing: its arrival was not confirmed. If it is, send any"
    " message here, and it is sent again."
)


class Reply(Struct, frozen=True, kw_only=True):
    """The agent's reply on arrival, with the prompt for it."""

    messages: tuple[Message, ...] = ()
    usage: Usage = field(default_factory=Usage)
    trouble: str | None = None
    """Why the agent has no reply, or None. The session arrives all the same."""


_decoder = msgspec.json.Decoder(Reply)


def encode_reply(reply: Reply) -> bytes:
    """Encode the reply to store it with the handoff, for a gateway that may have to resume it."""
    return msgspec.json.encode(reply)


def decode_reply(claim: Handoff) -> Reply | None:
    """The reply from an earlier attempt, or None."""
    return None if claim.reply is None else _decoder.decode(claim.reply)


def prompt(claim: Handoff, thread: Address, *, is_back: bool) -> str:
    """The prompt for the agent's reply. No user wrote it. `is_back`: whether the session was in
    this thread before."""
    text = f"[This session has just been handed off to {thread.platform}, {_ASK[is_back]}]"
    if claim.message is None:
        return text
    words = json.dumps(one_line(claim.message, _MESSAGE_LENGTH), ensure_ascii=False)
    return f"{text}\n[They left you this message for the way: {words}]"


def recap(
    session: Session,
    last: Transcript | None,
    *,
    direct: bool,
    hint: str = "",
    mid_turn: bool = False,
    refused: str | None = None,
) -> str:
    """The recap for a user who finds an empty thread.

    `last` holds the last messages, or None if the platform shows the history. `direct` means that
    no thread was opened. `hint` says how to address the agent there. `mid_turn` means that the
    agent continues its work there. `refused` is why the session could not return to the thread that
    it had.
    """
    lines = [f"**{one_line(session.label)}** continues here."]
    if mid_turn:
        lines.append(_GOES_ON)
    if refused is not None:
        reason = one_line(refused).rstrip(".")
        lines.append(f"The thread that it had could not be used, so this is a new one: {reason}.")
    if direct:
        lines.append("No thread could be opened, so it continues in this chat itself.")
    if hint:
        lines.append(hint)
    if session.cwd:
        lines.append(f"Directory: `{one_line(session.cwd)}`")
    if last is None:
        return "  \n".join(lines)
    return "\n".join(lines) + quoted(last.recap() or "Nothing has been said in it yet.")


def returned(session: Session, new: Transcript, hint: str = "", *, mid_turn: bool = False) -> str:
    """The message in a thread to which the session returns. `new` holds the messages since it
    left. `hint` and `mid_turn` are those of `recap`."""
    lines = [f"**{one_line(session.label)}** is back here."]
    lines += [line for line in (_GOES_ON if mid_turn else "", hint) if line]
    return "\n".join(lines) + quoted(new.recap())


def quoted(text: str) -> str:
    """A paragraph that quotes `text`, or nothing if it is empty."""
    lines = "\n".join(f"> {line}  " for line in text.splitlines())
    return f"\n\n{lines}" if lines else ""


def reply_text(reply: Reply, *, confirmed: bool, mid_turn: bool = False) -> str:
    """The text that the user reads once the session has arrived, or "" for none. `confirmed`:
    whether the platform confirmed the message before it. `mid_turn`: whether the agent continues
    its work there, and speaks at the end of it."""
    if mid_turn:
        return "" if confirmed else _UNCONFIRMED
    spoken = [m.content.strip() for m in reply.messages if m.role is Role.ASSISTANT]
    why = f" The agent could not reply: {reply.trouble}" if reply.trouble else ""
    text = f"The session is here. Send a message to continue.{why}"
    if reply.trouble is None and spoken and not is_empty(spoken[-1]):
        text = spoken[-1]
    return text if confirmed else f"{text}\n\n{_UNCONFIRMED}"
