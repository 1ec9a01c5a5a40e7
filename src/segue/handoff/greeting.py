"""The messages where a session arrives: a recap for the user, and the agent's reply."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import msgspec

from segue.core.address import Address
from segue.core.handoff import Handoff
from segue.core.session import Session, Usage
from segue.core.text import is_empty, one_line
from segue.core.transcript import Message, Role, Transcript

RECAP_MESSAGES = 40
"""How many messages to search for the last exchanges."""
_MESSAGE_LENGTH = 2000
_UNCONFIRMED = (
    "The message before this one may be missing: its arrival was not confirmed. If it is, send any"
    " message here, and it is sent again."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
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


def prompt(claim: Handoff, thread: Address) -> str:
    """The prompt for the agent's reply. No user wrote it."""
    text = (
        f"[This session has just been handed off to {thread.platform}, where your person reads on,"
        " probably on a phone. Write to them in two or three short sentences: say that you are"
        " here, then sum up what they told you and asked you above, then what could come next."
        " Use no tools, and do not begin anything new.]"
    )
    if claim.message is None:
        return text
    words = json.dumps(one_line(claim.message, _MESSAGE_LENGTH), ensure_ascii=False)
    return f"{text}\n[They left you this message for the way: {words}]"


def recap(session: Session, last: Transcript | None, *, direct: bool, hint: str = "") -> str:
    """The recap for a user who finds an empty thread.

    `last` holds the last messages, or None if the platform shows the history. `direct` means that
    no thread was opened. `hint` says how to address the agent there.
    """
    lines = [f"**{one_line(session.name)}** continues here."]
    if direct:
        lines.append("No thread could be opened, so it continues in this chat itself.")
    if hint:
        lines.append(hint)
    if session.cwd:
        lines.append(f"Directory: `{one_line(session.cwd)}`")
    if last is None:
        return "  \n".join(lines)
    reply_text = last.recap() or "Nothing has been said in it yet."
    quoted = "\n".join(f"> {line}  " for line in reply_text.splitlines())
    return "\n".join(lines) + f"\n\n{quoted}"


def reply_text(reply: Reply, *, confirmed: bool) -> str:
    """The text that the user reads once the session has arrived. `confirmed`: whether the platform
    confirmed the message before it."""
    spoken = [m.content.strip() for m in reply.messages if m.role is Role.ASSISTANT]
    why = f" The agent could not reply: {reply.trouble}" if reply.trouble else ""
    text = f"The session is here. Send a message to continue.{why}"
    if reply.trouble is None and spoken and not is_empty(spoken[-1]):
        text = spoken[-1]
    return text if confirmed else f"{text}\n\n{_UNCONFIRMED}"
