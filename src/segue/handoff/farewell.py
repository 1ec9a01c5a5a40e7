"""What the terminal prints when it exits: where the session is, and how to come back to it."""

from __future__ import annotations

import contextlib
import shlex

from segue.core.errors import SessionError, SessionNotFound
from segue.core.session import Session
from segue.core.text import one_line
from segue.handoff.progress import Completed
from segue.store import Store


async def handed_over(store: Store, done: Completed) -> str:
    """The text for the terminal that handed the session off."""
    handoff = done.handoff
    if (session := await store.sessions.get(handoff.session_id)) is None:
        raise SessionNotFound(name=handoff.session_id)
    homes = await store.owners.homes(session.owner)
    names = [one_line(home.name) for home in homes if home.address == handoff.home]
    where = f"{handoff.thread} ({names[0]})" if any(names) else f"{handoff.thread}"
    lines = [f"{session.name} continues at {where}."]
    if handoff.thread == handoff.home:
        lines.append("No thread could be opened there, so it continues in the chat itself.")
    if handoff.warning:
        lines.append(handoff.warning)
    return "\n".join([*lines, f"To come back: {await way_back(store, session)}"])


async def way_back(store: Store, session: Session) -> str:
    """The shell command to come back: with the title, or with the id if the title now means another
    session."""
    with contextlib.suppress(SessionError):
        meant = await store.sessions.find(session.owner, session.name)
        if meant.id == session.id and not session.name.startswith("-"):
            return f"segue resume {shlex.quote(session.name)}"
    return f"segue resume {session.id}"
