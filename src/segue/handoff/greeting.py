"""What is said where a session arrives: a recap for the person, and the agent's own words."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import msgspec

from segue.core.address import Address
from segue.core.handoff import Handoff
from segue.core.session import Session, Usage
from segue.core.text import is_empty, one_line
from segue.core.transcript import Message, Role, Transcript

LOOK_BACK = 40
"""The messages among which the last exchanges are looked for."""
_MESSAGE_LENGTH = 2000
_UNCONFIRMED = (
    "The message before this one may be missing: its arrival was not confirmed. If it is, write"
    " anything here, and it is sent again."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the agent says on arrival, with the prompt that made it speak."""

    messages: tuple[Message, ...] = ()
    usage: Usage = field(default_factory=Usage)
    trouble: str | None = None
    """Why it has nothing to say, if that is so; the session is there all the same."""


_decoder = msgspec.json.Decoder(Reply)


def encoded(reply: Reply) -> bytes:
    """As it is kept with the handoff, for the gateway that may have to go on."""
    return msgspec.json.encode(reply)


def kept(claim: Handoff) -> Reply | None:
    """What an earlier attempt let the agent say."""
    return None if claim.reply is None else _decoder.decode(claim.reply)


def prompt(claim: Handoff, thread: Address) -> str:
    """What the agent is told. Nobody typed it."""
    told = (
        f"[This session has just been handed off to {thread.platform}, where your person reads on,"
        " probably on a phone. Write to them in two or three short sentences: say that you are"
        " here, then sum up what they told you and asked you above, then what could come next."
        " Use no tools, and do not begin anything new.]"
    )
    if claim.message is None:
        return told
    words = json.dumps(one_line(claim.message, _MESSAGE_LENGTH), ensure_ascii=False)
    return f"{told}\n[They left you this message for the way: {words}]"


def recap(session: Session, last: Transcript | None, *, direct: bool, hint: str = "") -> str:
    """The last exchanges, for a person who finds an empty thread; None where they see them.
    `hint`: how to write to the agent there."""
    lines = [f"**{one_line(session.name)}** goes on here."]
    if direct:
        lines.append("No thread could be opened, so it goes on in this chat itself.")
    if hint:
        lines.append(hint)
    if session.cwd:
        lines.append(f"Directory: `{one_line(session.cwd)}`")
    if last is None:
        return "  \n".join(lines)
    said = last.recap() or "Nothing has been said in it yet."
    quoted = "\n".join(f"> {line}  " for line in said.splitlines())
    return "\n".join(lines) + f"\n\n{quoted}"


def said(reply: Reply, *, confirmed: bool) -> str:
    """What the person reads once the session is there. `confirmed`: the platform confirmed the
    message before this one."""
    return _words(reply) if confirmed else f"{_words(reply)}\n\n{_UNCONFIRMED}"


def _words(reply: Reply) -> str:
    spoken = [m.content.strip() for m in reply.messages if m.role is Role.ASSISTANT]
    if reply.trouble is None and spoken and not is_empty(spoken[-1]):
        return spoken[-1]
    why = f" The agent could not say so itself: {reply.trouble}" if reply.trouble else ""
    return f"The session is here. Write, and it goes on.{why}"
