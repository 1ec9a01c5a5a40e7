"""The built-in web page, for which we are the server: where it is, its conversations and messages.

A conversation here is a place, such as a topic elsewhere. What people see is the session that is
there (`page_sessions`): its transcript, and between its messages those that are only here, such as
notices and questions.
"""

from __future__ import annotations

import re
import secrets
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from segue.store import owners
from segue.store.base import Row, Topic, Tx, reads, writes
from segue.store.values import Buttons, buttons_json, moment, parse_buttons, text


class PageAuthor(StrEnum):
    """Who wrote a message that the page shows."""

    AGENT = "agent"
    PERSON = "person"


class PageAction(StrEnum):
    """What the user can do on the page."""

    SAY = "say"
    PRESS = "press"


class Page(Struct, frozen=True, kw_only=True):
    """One conversation on the page."""

    id: str
    owner: str
    title: str
    rev: int
    active: datetime
    session: str | None
    """The id of the session bound to it now, or most recently."""


class PageMessage(Struct, frozen=True, kw_only=True):
    """One message as shown."""

    no: int
    page: str
    key: str
    rev: int
    author: PageAuthor
    text: str
    buttons: Buttons
    at: datetime
    session: str | None
    """The id of the session that it belongs to."""
    after: int | None
    """The message of the session that it follows. None while it waits to be answered."""
    seq: int | None
    """The message of the session that shows the same, or 0 if a move does."""


class PageUpdate(Struct, frozen=True, kw_only=True):
    """One action of the user."""

    no: int
    page: str
    browser: str
    act: PageAction
    text: str
    message: int
    """The number of the message that was sent, or whose button was pressed."""


class PageLocation(Struct, frozen=True, kw_only=True):
    """Where the page is served."""

    port: int
    addresses: tuple[str, ...]


@reads
def location(tx: Tx, machine: str) -> PageLocation | None:
    """Where the page was last served on this machine, or None."""
    sql = "SELECT port, addresses FROM page_places WHERE machine = :machine"
    row = tx.row(sql, machine=text(machine))
    return PageLocation(port=row[0], addresses=tuple(row[1].split())) if row else None


@writes
def record_location(tx: Tx, machine: str, location: PageLocation) -> None:
    """Record where the page is served."""
    tx.insert(
        "page_places",
        conflict="(machine) DO UPDATE SET port = excluded.port, addresses = excluded.addresses",
        machine=text(machine),
        port=location.port,
        addresses=" ".join(location.addresses),
    )


# Conversations

_PAGE = "SELECT id, owner, title, rev, active, session FROM pages"


@writes
def begin(tx: Tx, owner: str, title: str, *, key: str, session: str | None = None) -> Page:
    """Start a conversation, for that session if given, or return the one started with the same
    key."""
    owners.found(tx, owner)
    tx.insert(
        "pages",
        conflict="(key) DO NOTHING",
        id=secrets.token_hex(8),
        owner=owner,
        title=text(title),
        key=text(key),
        active=tx.now,
        session=session,
    )
    return _page(tx.one(f"{_PAGE} WHERE key = :key", key=text(key)))


@reads
def get(tx: Tx, page: str) -> Page | None:
    row = tx.row(f"{_PAGE} WHERE id = :id", id=text(page))
    return _page(row) if row else None


def home_key(owner: str) -> str:
    """The key of the conversation for messages to the page itself."""
    return f"home:{owner}"


@reads
def home(tx: Tx, owner: str) -> Page | None:
    """The conversation for messages to the page itself, if it has any and no session."""
    sql = f"{_PAGE} WHERE key = :key AND session IS NULL AND rev > 0"
    row = tx.row(sql, key=home_key(owner))
    return _page(row) if row else None


def arrived(tx: Tx, page: str, session_id: str) -> None:
    """Record that the session is now bound to the page. Messages that were there before any session
    belong to it."""
    sql = "UPDATE pages SET session = :session WHERE id = :page"
    tx.change(sql, session=session_id, page=page)
    sql = "UPDATE page_messages SET session = :session WHERE page = :page AND session IS NULL"
    tx.change(sql, session=session_id, page=page)


def forget_session(tx: Tx, session_id: str) -> None:
    """Delete the conversations and messages of a session that is deleted."""
    tx.change("DELETE FROM page_messages WHERE session = :id", id=session_id)
    tx.change("DELETE FROM pages WHERE session = :id", id=session_id)


# Messages

_MESSAGE = (
    "SELECT no, page, key, rev, author, text, buttons, at, session, after_seq, seq"
    " FROM page_messages"
)
MOST = 200
"""How many messages of a conversation are shown."""


@reads
def messages(tx: Tx, page: str) -> tuple[PageMessage, ...]:
    """The newest messages of a conversation, in order."""
    sql = f"{_MESSAGE} WHERE page = :page ORDER BY no DESC LIMIT :limit"
    return tuple(map(_message, reversed(tx.rows(sql, page=text(page), limit=MOST))))


def between(
    tx: Tx, session_id: str, session_no: int, low: int, high: int
) -> tuple[PageMessage, ...]:
    """The newest messages that belong after the session's messages `low` to `high` (excluded), or
    are waiting, in order. Left out are those that follow a message that was undone."""
    rows = tx.rows(
        f"{_MESSAGE} WHERE session = :session AND seq IS NULL"
        " AND (after_seq IS NULL OR after_seq >= :low AND after_seq < :high)"
        " AND NOT EXISTS (SELECT 1 FROM messages m"
        " WHERE m.id = :base + page_messages.after_seq AND m.undone > 0)"
        " ORDER BY no DESC LIMIT :limit",
        session=session_id,
        base=session_no << 32,
        low=low,
        high=high,
        limit=MOST,
    )
    return tuple(map(_message, reversed(rows)))


def in_transcript(tx: Tx, session_id: str, low: int, high: int) -> dict[int, int]:
    """The numbers of the messages that the session's messages `low` to `high` (excluded) show, by
    seq."""
    rows = tx.rows(
        "SELECT seq, no FROM page_messages WHERE session = :session"
        " AND after_seq >= :low AND after_seq < :high AND seq = after_seq",
        session=session_id,
        low=low,
        high=high,
    )
    return {int(seq): int(no) for seq, no in rows}


@reads
def message(tx: Tx, no: int) -> PageMessage | None:
    row = tx.row(f"{_MESSAGE} WHERE no = :no", no=no)
    return _message(row) if row else None


@writes
def show(
    tx: Tx,
    page: str,
    key: str,
    body: str,
    buttons: Buttons = (),
    author: PageAuthor = PageAuthor.AGENT,
) -> PageMessage:
    """Show a message, or return the one shown with the same key."""
    if said := tx.row(f"{_MESSAGE} WHERE key = :key", key=text(key)):
        return _message(said)
    session, last, seq = _belongs(tx, page, key, text(body))
    waits = author is PageAuthor.PERSON or _is_about_waiting(tx, key)
    tx.insert(
        "page_messages",
        page=page,
        key=text(key),
        rev=_next_rev(tx, page),
        author=author.value,
        text=text(body),
        buttons=buttons_json(buttons),
        at=tx.now,
        session=session,
        after_seq=None if waits else last if seq is None else seq,
        seq=seq,
    )
    return _message(tx.one(f"{_MESSAGE} WHERE key = :key", key=text(key)))


@writes
def edit(tx: Tx, no: int, body: str, buttons: Buttons = ()) -> PageMessage | None:
    """Replace the text and buttons of a message. Return None if it no longer exists."""
    if (there := message(tx, no)) is None:
        return None
    tx.change(
        "UPDATE page_messages SET text = :text, buttons = :buttons, rev = :rev WHERE no = :no",
        text=text(body),
        buttons=buttons_json(buttons),
        rev=_next_rev(tx, there.page),
        no=no,
    )
    return message(tx, no)


def _belongs(tx: Tx, page: str, key: str, body: str) -> tuple[str | None, int, int | None]:
    """The session that a new message belongs to, its last message that is not undone, and the
    message or move that shows the same (see PageMessage.seq)."""
    session: str | None
    (session,) = tx.one("SELECT session FROM pages WHERE id = :id", id=page)
    # The gateway adds the number of the part to the key of the outbox.
    queued, _, _ = key.rpartition("/")
    row = tx.row("SELECT session_id FROM outbox WHERE key = :key", key=text(queued))
    if row is not None and row[0] is not None:
        session = str(row[0])
    sql = "SELECT no, last_seq FROM sessions WHERE id = :id"
    if session is None or (place := tx.row(sql, id=session)) is None:
        return None, 0, None
    no, last = place
    newest = tx.rows(
        "SELECT id, role, content FROM messages WHERE id > :low AND id <= :high AND undone = 0"
        " ORDER BY id DESC LIMIT 8",
        low=no << 32,
        high=(no << 32) + last,
    )
    after = newest[0][0] & 0xFFFFFFFF if newest else 0
    if queued.startswith("moved:") or re.fullmatch(r"handoff:\d+:(recap|return|stayed)", queued):
        return session, after, 0
    if answer := re.fullmatch(re.escape(session) + r"/(\d+)", queued):
        return session, after, int(answer[1])
    if re.fullmatch(r"handoff:\d+:reply", queued):
        for message_id, role, content in newest:
            if role == "assistant" and content.strip() == body:
                return session, after, message_id & 0xFFFFFFFF
    return session, after, None


def _is_about_waiting(tx: Tx, key: str) -> bool:
    """Whether the message is a notice about a message from the user that waits to be answered. It
    then stands after that message."""
    about = re.match(r"notice:(\d+):", key)
    sql = (
        "SELECT 1 FROM inbox WHERE no = :no AND platform = 'web' AND session_id IS NULL"
        " AND finished IS NULL"
    )
    return about is not None and tx.row(sql, no=int(about[1])) is not None


def taken(tx: Tx, message_id: str, session_id: str) -> None:
    """Record that the session's last message is this message from the user."""
    sql = (
        "UPDATE page_messages SET session = s.id, seq = s.last_seq FROM sessions s"
        " WHERE page_messages.no = :no AND author = 'person' AND s.id = :id"
    )
    tx.change(sql, id=session_id, no=_number(message_id))
    finished(tx, message_id)


def appended(tx: Tx, key: str, session_id: str, seq: int) -> None:
    """Record that the session's message `seq` is the one that the outbox had queued with `key`."""
    sql = (
        "UPDATE page_messages SET seq = :seq, after_seq = :seq"
        " WHERE session = :session AND substr(key, 1, :length) = :key"
    )
    tx.change(sql, seq=seq, session=session_id, key=f"{key}/", length=len(key) + 1)


def finished(tx: Tx, message_id: str) -> None:
    """Give a message from the user that no longer waits, such as a command, its place, and so the
    notices about it."""
    sql = "SELECT page, session FROM page_messages WHERE no = :no AND author = 'person'"
    if row := tx.row(sql, no=_number(message_id)):
        tx.change(
            "UPDATE page_messages SET after_seq = coalesce((SELECT last_seq FROM sessions"
            " WHERE id = :session), 0) WHERE page = :page AND after_seq IS NULL"
            " AND (no = :no OR no > :no AND author = 'agent')",
            page=row[0],
            session=row[1],
            no=_number(message_id),
        )


def _number(message_id: str) -> int:
    return int(message_id) if message_id.isdecimal() else 0


def _next_rev(tx: Tx, page: str) -> int:
    sql = "UPDATE pages SET rev = rev + 1, active = :now WHERE id = :id RETURNING rev"
    return tx.one(sql, id=page, now=tx.now)[0]


# Updates


@writes
def say(tx: Tx, page: str, key: str, browser: str, body: str) -> PageMessage:
    """Record a message from the user, or return the one recorded with the same key."""
    key = own_key(page, key)
    said = show(tx, page, key, body, author=PageAuthor.PERSON)
    _record(tx, page, key, browser, PageAction.SAY, body, said.no)
    return said


@reads
def is_said(tx: Tx, page: str, key: str) -> bool:
    """Whether a message from the user is recorded with this key."""
    sql = "SELECT 1 FROM page_messages WHERE key = :key"
    return tx.row(sql, key=text(own_key(page, key))) is not None


@writes
def press(tx: Tx, page: str, key: str, browser: str, no: int, data: str) -> bool:
    """Record a button press and remove the message's buttons. Return False if it has no such
    button, True if the press was already recorded with the same key."""
    if tx.row("SELECT 1 FROM page_updates WHERE key = :key", key=own_key(page, key)):
        return True
    # Every change to a message updates its page first, so this lock blocks them all.
    tx.row(f"SELECT rev FROM pages WHERE id = :id {tx.for_update}", id=page)
    there = message(tx, no)
    if there is None or there.page != page or data not in {button for _, button in there.buttons}:
        return False
    _record(tx, page, own_key(page, key), browser, PageAction.PRESS, data, no)
    edit(tx, no, there.text, ())
    return True


@writes
def bring(tx: Tx, page: str, key: str, browser: str, session_id: str) -> None:
    """Record that the user wants the session here, like a press of the button that resumes it."""
    _record(tx, page, own_key(page, key), browser, PageAction.PRESS, f"r:{session_id}", 0)


def own_key(page: str, key: str) -> str:
    """A browser's key, made unique across conversations."""
    return f"{page}/{key}"


def _record(tx: Tx, page: str, key: str, browser: str, act: PageAction, body: str, no: int) -> None:
    recorded = tx.insert(
        "page_updates",
        conflict="(key) DO NOTHING",
        page=page,
        key=text(key),
        browser=browser,
        kind=act.value,
        text=text(body),
        message=no,
    )
    if recorded:
        tx.nudge(Topic.PAGES)


@reads
def unconfirmed_updates(tx: Tx, *, limit: int = 100) -> tuple[PageUpdate, ...]:
    """The user's actions that the adapter has not confirmed yet, in order."""
    rows = tx.rows(
        "SELECT no, page, browser, kind, text, message FROM page_updates WHERE heard = 0"
        " ORDER BY no LIMIT :limit",
        limit=limit,
    )
    return tuple(
        PageUpdate(
            no=no, page=page, browser=browser, act=PageAction(act), text=body, message=message
        )
        for no, page, browser, act, body, message in rows
    )


@writes
def confirm_update(tx: Tx, no: int) -> None:
    """Confirm that this action is recorded elsewhere."""
    # Only this one: on PostgreSQL, a lower number may be committed later.
    tx.change("UPDATE page_updates SET heard = 1 WHERE no = :no", no=no)


def _page(row: Row) -> Page:
    page, owner, title, rev, active, session = row
    return Page(id=page, owner=owner, title=title, rev=rev, active=moment(active), session=session)


def _message(row: Row) -> PageMessage:
    no, page, key, rev, author, body, buttons, at, session, after, seq = row
    return PageMessage(
        no=no,
        page=page,
        key=key,
        rev=rev,
        author=PageAuthor(author),
        text=body,
        buttons=parse_buttons(buttons),
        at=moment(at),
        session=session,
        after=after,
        seq=seq,
    )
