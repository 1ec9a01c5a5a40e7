"""One open page: answers its requests, and pushes changes to it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from websockets.frames import CloseCode

import segue
from segue.core.address import Address, ChatType, Platform
from segue.core.errors import UserError
from segue.jobs import service
from segue.store import Store, Topic, page_sessions, pages, search, sessions, transcripts
from segue.store.page_sessions import LINES, Entry
from segue.store.pages import Page, own_key
from segue.web import frames, jobs, render, views
from segue.web.guard import Visitor, is_revoked
from segue.web.live import Disconnected, LiveSocket

_MOST_WAITING = 1000
"""Frames queued for a page that does not read. Beyond this it is disconnected, and reconnects."""
PATIENCE = 30.0
"""Seconds that a page may take to read a frame."""
LOOK_SECONDS = 10.0
"""Seconds between two looks for changes without a wake-up: a killed terminal sends none."""
LISTED = 50
"""How many sessions are listed at first, and how many more each time."""
_HITS = 30
_EXPORT_PART = 256 * 1024
_NOT_THERE = "That conversation does not exist."

_ask = msgspec.json.Decoder(frames.Ask)
_encoder = msgspec.json.Encoder()

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _View:
    """What the page shows, as far as it was sent."""

    id: str
    """The session, or a conversation on the page that has none yet."""
    chat: frames.Chat | None = None
    seq: int = 0
    edits: int = 0
    at: str | None = None
    """The conversation on the page that the session is at."""
    page: str | None = None
    """The conversation on the page in which the user wrote. If another session comes there, such
    as after /new, the view follows."""


class _Listing(msgspec.Struct, frozen=True):
    """The list, looked up just before it is sent."""


class _JobListing(msgspec.Struct, frozen=True):
    """The jobs, looked up just before they are sent."""


class _Opening(msgspec.Struct, frozen=True):
    """The session to show from now on. Only the writer changes what the page shows: what is new is
    then always new to what was sent before."""

    ask: frames.Open


class _Update(msgspec.Struct, frozen=True):
    """What is new in the session that the page shows."""


class _Changed(msgspec.Struct, frozen=True):
    """A message that was added or changed."""

    no: int


class Preview(msgspec.Struct, frozen=True):
    """The answer that is being written in a conversation on the page."""

    page: str
    text: str = ""
    after: int = 0
    """The session's last message when the answer was begun."""


_Later = _Listing | _JobListing | _Opening | _Update | _Changed | Preview


class OpenPage:
    def __init__(
        self,
        store: Store,
        socket: LiveSocket,
        visitor: Visitor,
        changes: Callable[[str, int], None],
        previews: Callable[[str], Preview | None],
    ) -> None:
        """`changes` sends a new or edited message to every page that shows it. `previews` returns
        the answer that is being written in a conversation."""
        self._store = store
        self._socket = socket
        self._visitor = visitor
        self._changes = changes
        self._previews = previews
        self._view: _View | None = None
        self._listed: frames.Chats | None = None
        self._limit = LISTED
        self._health = False
        self._shows_jobs = False
        self._jobs: frames.JobList | None = None
        self._out: asyncio.Queue[frames.Tell | _Later] = asyncio.Queue(_MOST_WAITING)

    async def run(self) -> None:
        """Serve the page until it is closed."""
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(self._watch()), group.create_task(self._watch_jobs())]
            self._listed = listed = await self._list()
            host = socket.gethostname()
            version = segue.__version__
            await self._send(
                frames.Hello(version=version, host=host, chats=listed.chats, more=listed.more)
            )
            beside = [*watching, group.create_task(self._write())]
            try:
                while True:
                    await self._answer(await self._socket.receive())
                    # Flow control: read no further request until the page has read its answers.
                    await self._out.join()
            except Disconnected:
                for task in beside:
                    task.cancel()

    # Changes

    def changed(self, page: str, no: int) -> None:
        if self._view is not None:
            self._soon(_Changed(no))

    def preview(self, preview: Preview) -> None:
        if self._view is not None:
            self._soon(preview)

    def _soon(self, what: frames.Tell | _Later) -> None:
        try:
            self._out.put_nowait(what)
        except asyncio.QueueFull:  # the page does not read; it asks again after reconnecting
            self._socket.abort()

    async def _write(self) -> None:
        while True:
            what = await self._out.get()
            if isinstance(what, _Later):
                what = await self._look_up(what)
            if what is not None:
                await self._send(what)
            self._out.task_done()

    async def _send(self, what: frames.Tell) -> None:
        loop = asyncio.get_running_loop()
        letting_go = loop.call_later(PATIENCE, self._socket.abort)
        try:
            await self._socket.send(_encoder.encode(what).decode())
        finally:
            letting_go.cancel()

    async def _look_up(self, later: _Later) -> frames.Tell | None:
        match later:
            case _Listing():
                listed = await self._list()
                changed = listed != self._listed
                self._listed = listed
                return listed if changed else None
            case _JobListing():
                found = await jobs.look(self._store, self._visitor.owner)
                changed = found != self._jobs
                self._jobs = found
                return found if changed else None
            case _Opening(ask=ask):
                return await self._open(ask)
            case _Update():
                return await self._update()
            case _Changed(no=no):
                return await self._message(no)
            case Preview():
                return await self._writing(later)

    async def _message(self, no: int) -> frames.Tell | None:
        message = await pages.message(self._store, no)
        view = self._view
        if message is None or message.seq is not None or view is None:
            return None
        if view.id not in (message.session, message.page):
            return None
        # In a thread, because a long text takes time to render.
        shown = await asyncio.to_thread(views.message_frame, message)
        return frames.Changed(chat=view.id, message=shown)

    async def _writing(self, preview: Preview) -> frames.Tell | None:
        view = self._view
        if view is None or view.at != preview.page:
            return None
        if preview.text and preview != self._previews(preview.page):
            return None  # a newer one waits: a page that reads slowly skips the ones between
        html = await asyncio.to_thread(render.html, preview.text) if preview.text else ""
        return frames.Writing(chat=view.id, html=html, after=preview.after)

    async def _watch(self) -> None:
        """Push changes made elsewhere: new messages, moved sessions, progress of handoffs, revoked
        browsers."""
        topics = (Topic.SESSIONS, Topic.APPROVALS, Topic.HANDOFFS, Topic.LEASES, Topic.OWNERS)
        async with self._store.listen(*topics) as wake:
            while True:
                await wake.wait(LOOK_SECONDS)
                await self._check()
                self._soon(_Update())
                self._soon(_Listing())
                if self._health:
                    self._soon(await views.gateway_health(self._store, self._visitor.owner))
                await self._out.join()  # wake-ups while the page reads count as one

    async def _watch_jobs(self) -> None:
        """Push changes of jobs, and whether their reports were sent."""
        async with self._store.listen(Topic.JOBS, Topic.SENT) as wake:
            while True:
                await wake.wait()
                if self._shows_jobs:
                    self._soon(_JobListing())
                    await self._out.join()

    async def _check(self) -> None:
        """Close the connection and raise Disconnected if the browser was revoked."""
        if await is_revoked(self._store, self._visitor):
            await self._socket.close(CloseCode.POLICY_VIOLATION, "revoked")
            raise Disconnected

    # Requests

    async def _answer(self, frame: str | bytes) -> None:
        await self._check()
        try:
            if isinstance(frame, bytes):
                raise msgspec.DecodeError("the frame is not text")
            ask = _ask.decode(frame)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            await self._out.put(
                frames.Refused(reason=f"This page does not match its server: {error}")
            )
            return
        key = getattr(ask, "key", None)
        try:
            await self._do(ask)
        except UserError as error:
            await self._out.put(frames.Refused(reason=str(error), key=key))

    async def _do(self, ask: frames.Ask) -> None:
        owner = self._visitor.owner
        match ask:
            case frames.New(key=key):
                own = own_key(owner, key)
                page = await pages.begin(self._store, owner, "New conversation", key=own)
                await self._out.put(frames.Taken(key=key, chat=page.id))
            case frames.Health():
                self._health = True
                await self._out.put(await views.gateway_health(self._store, owner))
            case frames.ListJobs():
                self._shows_jobs = True
                self._jobs = None
                self._soon(_JobListing())
            case frames.ChangeJob(number=number, key=key, action=action):
                await service.act(self._store, owner, number, action)
                await self._out.put(frames.Taken(key=key))
                self._soon(_JobListing())
            case frames.More():
                self._limit += LISTED
                self._soon(_Listing())
            case frames.Search(words=words):
                await self._out.put(await self._search(words))
            case _:
                await self._in_chat(ask)

    async def _in_chat(self, ask: frames.InChat) -> None:
        """Answer a request about a session, or a conversation without one, of the owner."""
        entry = await page_sessions.find(self._store, self._visitor.owner, ask.chat)
        page = None if entry else await pages.get(self._store, ask.chat)
        if entry is not None:
            await self._in_session(entry, ask)
        elif page is not None and page.owner == self._visitor.owner:
            await self._in_page(page, ask)
        else:
            key = getattr(ask, "key", None)
            await self._out.put(frames.Refused(reason=_NOT_THERE, key=key))

    async def _in_session(self, entry: Entry, ask: frames.InChat) -> None:
        owner = self._visitor.owner
        match ask:
            case frames.Open():
                await self._out.put(_Opening(ask))
            case frames.Earlier(before=before):
                part = await page_sessions.part(self._store, owner, entry.id, before=before)
                if part is not None:
                    lines, messages, moves = await views.part_frames(part)
                    earlier = frames.History(
                        chat=entry.id, lines=lines, more=part.more, messages=messages, moves=moves
                    )
                    await self._out.put(earlier)
            case frames.Say(key=key, text=text):
                page = await self._page(entry)
                if not await pages.is_said(self._store, page, key):
                    await page_sessions.enter(self._store, owner, entry.id, address_of(owner, page))
                await self._say(page, entry.id, key, text)
            case frames.Press():
                await self._press(entry.id, ask)
            case frames.Bring() | frames.Rename() | frames.Delete() | frames.Export():
                await self._manage(entry, ask)

    async def _manage(
        self, entry: Entry, ask: frames.Bring | frames.Rename | frames.Delete | frames.Export
    ) -> None:
        match ask:
            case frames.Bring(key=key):
                page = await self._page(entry)
                browser = self._visitor.browser
                await pages.bring(self._store, page, key, browser, entry.id)
            case frames.Rename(title=title):
                await sessions.rename(self._store, entry.id, title)
            case frames.Delete():
                await sessions.delete(self._store, entry.id)
            case frames.Export(key=key):
                await self._export(entry, key)
        await self._out.put(frames.Taken(key=ask.key, chat=entry.id))

    async def _in_page(self, page: Page, ask: frames.InChat) -> None:
        match ask:
            case frames.Open():
                await self._out.put(_Opening(ask))
            case frames.Say(key=key, text=text):
                await self._say(page.id, page.id, key, text)
            case frames.Press():
                await self._press(page.id, ask)
            case _:
                key = getattr(ask, "key", None)
                reason = "Nothing was said in this conversation yet."
                await self._out.put(frames.Refused(reason=reason, key=key))

    async def _say(self, page: str, chat: str, key: str, text: str) -> None:
        said = await pages.say(self._store, page, key, self._visitor.browser, text)
        if self._view is not None and self._view.id == chat:
            self._view.page = page
        await self._out.put(frames.Taken(key=key, chat=chat, no=said.no))
        self._changes(page, said.no)

    async def _press(self, chat: str, ask: frames.Press) -> None:
        message = await pages.message(self._store, ask.message)
        here = message is not None and chat in (message.session, message.page)
        if (
            here
            and message is not None
            and await pages.press(
                self._store, message.page, ask.key, self._visitor.browser, ask.message, ask.data
            )
        ):
            await self._out.put(frames.Taken(key=ask.key, chat=chat))
            self._changes(message.page, ask.message)
        else:
            await self._out.put(frames.Refused(reason="That button no longer works.", key=ask.key))

    # Sessions

    async def _list(self) -> frames.Chats:
        owner = self._visitor.owner
        limit = self._limit
        found = await page_sessions.list_entries(self._store, owner, limit=limit + 1)
        chats = tuple(map(views.chat_entry, found[:limit]))
        if home := await pages.home(self._store, owner):
            chats = (*chats, views.place_entry(home))
        return frames.Chats(chats=chats, more=len(found) > limit)

    async def _search(self, words: str) -> frames.Found:
        """Sessions with the words in their title, then messages with them."""
        owner = self._visitor.owner
        titled = await page_sessions.list_entries(
            self._store, owner, limit=_HITS, words=words.strip()
        )
        chats = map(views.chat_entry, titled if words.strip() else ())
        hits = [frames.SearchHit(chat=c.id, title=c.title, text=c.last, at=c.active) for c in chats]
        for hit in await search.messages(self._store, owner, words, limit=_HITS):
            text = views.summary(hit.snippet, len(hit.snippet))
            title = hit.title or text
            hits.append(frames.SearchHit(chat=hit.session_id, title=title, text=text, at=hit.at))
        return frames.Found(words=words, hits=tuple(hits))

    async def _page(self, entry: Entry) -> str:
        """The conversation on the page for this session. Open one if it never had any."""
        owner = self._visitor.owner
        if page := await page_sessions.page_of(self._store, owner, entry.id):
            return page
        title = views.chat_entry(entry).title
        key = f"session:{entry.id}:{entry.seq}"
        return (await pages.begin(self._store, owner, title, key=key, session=entry.id)).id

    async def _open(self, ask: frames.Open) -> frames.Shown | None:
        owner = self._visitor.owner
        entry = await page_sessions.find(self._store, owner, ask.chat)
        if entry is None:
            page = await pages.get(self._store, ask.chat)
            return await self._empty(page) if page and page.owner == owner else None
        self._view = _View(entry.id)
        is_known = ask.edits == entry.edits and entry.seq - LINES < ask.seq <= entry.seq
        shown = await self._shown(entry, ask.chat, ask.seq if is_known and ask.seq else None)
        at = _page_at(entry.address)
        if at is not None and (preview := self._previews(at)):
            self._soon(preview)
        return shown

    async def _shown(self, entry: Entry, was: str, after: int | None) -> frames.Shown | None:
        """What is new in the session after that message, or without one all of it."""
        owner = self._visitor.owner
        part = await page_sessions.part(self._store, owner, entry.id, after=after or 0)
        if part is None:
            return None
        lines, messages, moves = await views.part_frames(part)
        page = self._view.page if self._view else None
        chat = views.chat_entry(entry)
        at = _page_at(entry.address)
        self._view = _View(entry.id, chat, entry.seq, entry.edits, at, page)
        return frames.Shown(
            chat=entry.id,
            was=was,
            fresh=after is None or part.more,
            entry=chat,
            lines=lines,
            more=part.more,
            messages=messages,
            moves=moves,
            seq=entry.seq,
            edits=entry.edits,
        )

    async def _empty(self, page: Page) -> frames.Shown:
        """A conversation on the page that has no session."""
        self._view = _View(page.id, at=page.id)
        messages = await pages.messages(self._store, page.id)
        shown = await asyncio.to_thread(lambda: tuple(map(views.message_frame, messages)))
        return frames.Shown(
            chat=page.id,
            was=page.id,
            fresh=True,
            entry=None,
            lines=(),
            more=False,
            messages=shown,
            moves=(),
            seq=0,
            edits=0,
        )

    async def _update(self) -> frames.Tell | None:
        """What is new in the session that the page shows, or None."""
        view = self._view
        if view is None:
            return None
        owner = self._visitor.owner
        if view.page is not None:
            there = await page_sessions.find(self._store, owner, view.page)
            if there is not None and there.id != view.id:  # /new, /resume, or the first message
                return await self._shown(there, view.id, None)
        entry = await page_sessions.find(self._store, owner, view.id)
        if entry is None:
            gone = view.chat is not None
            self._view = None if gone else view
            return frames.Gone(chat=view.id) if gone else None
        if entry.id != view.id or entry.edits != view.edits:
            return await self._shown(entry, view.id, None)
        if views.chat_entry(entry) == view.chat and entry.seq == view.seq:
            return None
        return await self._shown(entry, view.id, view.seq)

    async def _export(self, entry: Entry, key: str) -> None:
        """Send the session as JSON lines, like `segue sessions export`."""
        name = f"{entry.id}.jsonl"
        part = bytearray()
        async for line in transcripts.export(self._store, self._visitor.owner, entry.id):
            part += line
            if len(part) >= _EXPORT_PART:
                await self._out.put(frames.Exported(key=key, name=name, text=part.decode()))
                part.clear()
        if part:
            await self._out.put(frames.Exported(key=key, name=name, text=part.decode()))


def _page_at(address: Address | None) -> str | None:
    return address.thread_id if address and address.platform is Platform.WEB else None


def address_of(owner: str, page: str | None = None) -> Address:
    """The address of a conversation of the owner, or without `page` that of the page itself."""
    return Address(platform=Platform.WEB, chat_type=ChatType.DM, chat_id=owner, thread_id=page)
