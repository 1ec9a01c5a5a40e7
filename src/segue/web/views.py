"""What the page shows, as frames: entries of the list, lines of the transcript, the messages and
moves between them, and the state of the gateway.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

from segue.core.address import Address, Platform
from segue.core.approval import identifying_arguments
from segue.core.session import Session
from segue.core.text import one_line
from segue.core.transcript import Message, Role, display_text, words
from segue.handoffs import queries as handoff_queries
from segue.handoffs.values import STEPS
from segue.platforms.registry import SPECS
from segue.store import Store, gateways, outbox, sessions
from segue.store.doors import Move
from segue.store.page_sessions import Entry, SessionActivity, TranscriptPart
from segue.store.pages import Page, PageAuthor, PageMessage
from segue.web import frames, render

HERE = "here"
_UNTITLED = "New conversation"
_TITLE_LENGTH = 60
_LAST_LENGTH = 120
_MARKUP = re.compile(r"\*\*|`+|^\s*[#>|]+\s*", re.MULTILINE)
_TOOL_LENGTH = 200
_OUTPUT_LENGTH = 4000


def chat_entry(entry: Entry) -> frames.Chat:
    return frames.Chat(
        id=entry.id,
        title=entry.title or summary(entry.last_words, _TITLE_LENGTH) or _UNTITLED,
        where=_where(entry),
        state=entry.activity,
        last=summary(entry.last_words, _LAST_LENGTH),
        active=entry.active,
    )


def summary(text: str, length: int) -> str:
    """The text in one line, without most of its markup."""
    return one_line(_MARKUP.sub("", text), length)


def place_entry(page: Page) -> frames.Chat:
    """A conversation on the page that has no session, in the list."""
    return frames.Chat(
        id=page.id,
        title=page.title,
        where=HERE,
        state=SessionActivity.IDLE,
        last="",
        active=page.active,
    )


def _where(entry: Entry) -> str:
    match entry.address:
        case None:
            return "not open"
        case Address(platform=Platform.WEB):
            return HERE
        case Address(platform=Platform.LOCAL):
            return "in the terminal" if entry.held else "in a closed terminal"
        case Address(platform=elsewhere):
            return f"on {SPECS[elsewhere].title}"


async def part_frames(
    part: TranscriptPart,
) -> tuple[tuple[frames.Line, ...], tuple[frames.Message, ...], tuple[frames.MoveLine, ...]]:
    """The lines, messages and moves of a part. Rendered in a thread, because long texts take
    time."""
    return await asyncio.to_thread(
        lambda: (
            tuple(_line(m, part.shows.get(m.seq)) for m in part.lines),
            tuple(map(message_frame, part.messages)),
            tuple(_moves(part.moves)),
        )
    )


def _line(message: Message, shows: int | None) -> frames.Line:
    return frames.Line(
        seq=message.seq,
        role=message.role,
        html=_html(message),
        at=message.at,
        tools=tuple(
            frames.Tool(call.name, one_line("  ".join(identifying_arguments(call)), _TOOL_LENGTH))
            for call in message.tool_calls
        ),
        shows=shows,
    )


def _html(message: Message) -> str:
    match message.role:
        case Role.ASSISTANT:
            return render.html(message.content) if message.content.strip() else ""
        case Role.TOOL:
            return render.plain(display_text(message)[:_OUTPUT_LENGTH])
        case _:
            return render.plain(words(message))


def _moves(moves: tuple[Move, ...]) -> Iterator[frames.MoveLine]:
    for move in moves:
        began_there = move.left is None and move.seq == 0
        if began_there or (
            move.left and move.left.platform is move.address.platform is Platform.WEB
        ):
            continue
        match move.address.platform:
            case Platform.WEB:
                text = "Moved here"
            case Platform.LOCAL:
                text = "Moved to the terminal"
            case elsewhere:
                text = f"Moved to {SPECS[elsewhere].title}"
        yield frames.MoveLine(no=move.no, after=move.seq, text=text, at=move.at)


def message_frame(message: PageMessage) -> frames.Message:
    own = message.author is PageAuthor.PERSON
    return frames.Message(
        no=message.no,
        rev=message.rev,
        author=message.author,
        html=render.plain(message.text) if own else render.html(message.text),
        buttons=tuple(frames.Button(label, data) for label, data in message.buttons),
        at=message.at,
        after=message.after,
        key=message.key.rpartition("/")[2] if own else None,
    )


_LAST = 20


async def gateway_health(store: Store, owner: str) -> frames.Healthy:
    serving = await gateways.serving(store, Platform.WEB)
    gateway = serving and frames.GatewayState(
        name=serving.name,
        since=serving.started,
        platforms=tuple(
            frames.PlatformState(platform.value, link.state, link.detail)
            for platform, link in sorted(serving.links.items())
        ),
    )

    async def owned(session_id: str | None) -> Session | None:
        session = await sessions.get(store, session_id) if session_id else None
        return session if session and session.owner == owner else None

    handoffs = [
        frames.HandoffState(
            session=session.id,
            title=session.name,
            platform=handoff.platform.value,
            state=handoff.state,
            step=STEPS[handoff.step] if handoff.step else None,
            error=handoff.error or handoff.warning or None,
            at=handoff.requested,
        )
        for handoff in await handoff_queries.recent(store, _LAST)
        if (session := await owned(handoff.session_id))
    ]
    troubles = [
        frames.Trouble(address=str(trouble.address), error=trouble.error or "", at=trouble.queued)
        for trouble in await outbox.troubled(store, limit=_LAST)
        if await owned(trouble.session_id)
    ]
    return frames.Healthy(gateway=gateway, handoffs=tuple(handoffs), troubles=tuple(troubles))
