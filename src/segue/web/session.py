"""One open page: answers its requests, and pushes changes to it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

import msgspec
from websockets.asyncio.server import ServerConnection
from websockets.frames import CloseCode

import segue
from segue.core.address import Address, ChatType, Platform
from segue.core.errors import UserError
from segue.core.session import Session
from segue.store import Store, Topic
from segue.store.pages import Author, Page, PageMessage, own_key
from segue.web import frames, health, history, render
from segue.web.guard import Visitor, is_revoked

_MOST_WAITING = 1000
"""Frames queued for a page that does not read. Beyond this it is disconnected, and reconnects."""
PATIENCE = 30.0
"""Seconds that a page may take to read a frame."""

_SESSIONS = 500
"""How many recent sessions to search for those of the conversation list."""
_HERE = "here"

_ask = msgspec.json.Decoder(frames.Ask)
_encoder = msgspec.json.Encoder()

logger = logging.getLogger(__name__)


class Talk:
    def __init__(
        self,
        store: Store,
        connection: ServerConnection,
        visitor: Visitor,
        changes: Callable[[str, int], None],
        listed: Callable[[str], None],
    ) -> None:
        """`changes` sends a new or edited message to every page that follows its conversation.
        `listed` sends the conversation list to every page of its owner."""
        self._store = store
        self._connection = connection
        self._visitor = visitor
        self._changes = changes
        self._listed = listed
        self._followed: set[str] = set()
        self._health = False
        self._out: asyncio.Queue[frames.Tell | _Later] = asyncio.Queue(_MOST_WAITING)

    async def run(self) -> None:
        """Serve the page until it is closed."""
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch())
            host, chats = socket.gethostname(), await self._chats()
            await self._send(frames.Hello(version=segue.__version__, host=host, chats=chats))
            beside = [watching, group.create_task(self._write())]
            async for frame in self._connection:
                await self._answer(frame)
                # Flow control: read no further request until the page has read its answers.
                await self._out.join()
            for task in beside:
                task.cancel()

    # Changes

    def changed(self, page: str, no: int) -> None:
        if page in self._followed:
            self._soon(_Later(page, no))

    def working(self, page: str, seconds: float) -> None:
        if page in self._followed:
            self._soon(frames.Working(chat=page, seconds=seconds))

    def listed(self, owner: str) -> None:
        if owner == self._visitor.owner:
            self._soon(_Later())

    def _soon(self, what: frames.Tell | _Later) -> None:
        try:
            self._out.put_nowait(what)
        except asyncio.QueueFull:  # the page does not read; it asks again after reconnecting
            self._connection.transport.abort()

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
        letting_go = loop.call_later(PATIENCE, self._connection.transport.abort)
        try:
            await self._connection.send(_encoder.encode(what).decode())
        finally:
            letting_go.cancel()

    async def _look_up(self, later: _Later) -> frames.Tell | None:
        if later.page is None:
            return frames.Chats(chats=await self._chats())
        message = await self._store.pages.message(later.no)
        # In a thread, because a long text takes time to render.
        return message and frames.Changed(
            chat=later.page, message=await asyncio.to_thread(shown, message)
        )

    async def _watch(self) -> None:
        """Push changes made elsewhere: moved sessions, progress of handoffs, revoked browsers."""
        topics = (Topic.HANDOFFS, Topic.LEASES, Topic.OWNERS)
        async with self._store.listen(*topics) as wake:
            while True:
                await wake.wait()
                await self._check()
                self._soon(_Later())
                if self._health:
                    self._soon(await health.look(self._store, self._visitor.owner))

    async def _check(self) -> None:
        """Close the connection and raise ConnectionClosed if the browser was revoked."""
        if await is_revoked(self._store, self._visitor):
            await self._connection.close(CloseCode.POLICY_VIOLATION, "revoked")
            raise self._connection.protocol.close_exc

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
        match ask:
            case frames.New(key=key):
                owner = self._visitor.owner
                own = own_key(owner, key)
                page = await self._store.pages.begin(owner, "New conversation", key=own)
                self._listed(owner)
                await self._out.put(frames.Taken(key=key, chat=page.id))
            case frames.Health():
                self._health = True
                await self._out.put(await health.look(self._store, self._visitor.owner))
            case frames.Open() | frames.Earlier() | frames.Say() | frames.Press():
                page = await self._store.pages.get(ask.chat)
                if page is None or page.owner != self._visitor.owner:
                    key = getattr(ask, "key", None)
                    reason = "That conversation does not exist."
                    await self._out.put(frames.Refused(reason=reason, key=key))
                else:
                    await self._in(page, ask)

    async def _in(
        self, page: Page, ask: frames.Open | frames.Earlier | frames.Say | frames.Press
    ) -> None:
        pages, browser = self._store.pages, self._visitor.browser
        match ask:
            case frames.Open(after=after):
                self._followed.add(page.id)
                await self._out.put(await self._shown(page, after))
            case frames.Earlier(before=before):
                at = address_of(page.owner, page.id)
                lines, more = await history.lines(self._store, at, before)
                await self._out.put(frames.History(chat=page.id, history=lines, more=more))
            case frames.Say(key=key, text=text):
                said = await pages.say(page.id, key, browser, text)
                await self._out.put(frames.Taken(key=key, chat=page.id))
                self._changes(page.id, said.no)
                self._listed(page.owner)
            case frames.Press(key=key, message=number, data=data):
                if await pages.press(page.id, key, browser, number, data):
                    await self._out.put(frames.Taken(key=key, chat=page.id))
                    self._changes(page.id, number)
                else:
                    await self._out.put(
                        frames.Refused(reason="That button no longer works.", key=key)
                    )

    async def _chats(self) -> tuple[frames.Chat, ...]:
        owner = self._visitor.owner
        known = {s.id: s for s in await self._store.sessions.list(owner, limit=_SESSIONS)}
        return tuple(
            _chat(page, known.get(page.session or ""))
            for page in await self._store.pages.list(owner)
        )

    async def _shown(self, page: Page, after: int) -> frames.Shown:
        at = address_of(page.owner, page.id)
        lines, more = ((), False) if after else await history.lines(self._store, at, None)
        changes = await self._store.pages.changes(page.id, after)
        rev = max((message.rev for message in changes), default=max(after, page.rev))
        return frames.Shown(
            chat=page.id,
            history=lines,
            more=more,
            messages=await asyncio.to_thread(lambda: tuple(map(shown, changes))),
            rev=rev,
        )


def address_of(owner: str, page: str | None = None) -> Address:
    """The address of a conversation of the owner, or without `page` that of the page itself."""
    return Address(platform=Platform.WEB, chat_type=ChatType.DM, chat_id=owner, thread_id=page)


class _Later(msgspec.Struct, frozen=True):
    """The conversation list or a message, looked up just before it is sent."""

    page: str | None = None
    no: int = 0


def _chat(page: Page, session: Session | None) -> frames.Chat:
    title = session.title if session and session.title else page.title
    where = _where(page, session.address) if session else _HERE
    return frames.Chat(id=page.id, title=title, where=where, active=page.active)


def _where(page: Page, address: Address | None) -> str:
    """Completes the sentence "This conversation goes on …"."""
    if address in (None, address_of(page.owner, page.id)):
        return _HERE
    match address.platform:
        case Platform.LOCAL:
            return "in the terminal"
        case Platform.WEB:
            return "in another conversation on this page"
        case elsewhere:
            return f"on {elsewhere}"


def shown(message: PageMessage) -> frames.Message:
    own = message.author is Author.PERSON
    return frames.Message(
        no=message.no,
        rev=message.rev,
        author=message.author.value,
        html=render.plain(message.text) if own else render.html(message.text),
        buttons=tuple(frames.Button(label, data) for label, data in message.buttons),
        at=message.at,
        key=message.key.rpartition("/")[2] if own else None,
    )
