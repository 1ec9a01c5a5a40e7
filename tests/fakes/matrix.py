"""Matrix for the tests: its users, as matrix-nio's client knows them, and the real Synapse behind a
proxy that breaks the bot's calls. It is used like a fake that is built on `segue.testing.peers`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, quote, unquote, urlsplit

import httpx2
import nio
import pytest
from nio.crypto.attachments import decrypt_attachment, encrypt_attachment
from nio.store import SqliteMemoryStore

from segue.testing.http import HangUp, Request, Response
from segue.testing.peers import File, FileKind, Message, Pulse, Refuse, Shown, Thread, Trouble
from segue.testing.peers.faults import Fault, Faults, Garble
from segue.testing.peers.server import Listener
from tests.fakes import synapse
from tests.fakes.synapse import Account, Server

_HOP = ("host", "content-length", "transfer-encoding", "connection", "content-encoding")
_JSON = {"content-type": "application/json"}
_METHODS = {
    "connect": re.compile(r"/account/whoami$"),
    "send": re.compile(r"/rooms/[^/]+/send/"),
    "typing": re.compile(r"/typing/"),
    "fetch": re.compile(r"/media/download/"),
    "history": re.compile(r"/rooms/[^/]+/messages$"),
    "sync": re.compile(r"/sync$"),
    "event": re.compile(r"/rooms/[^/]+/event/"),
    "state": re.compile(r"/rooms/[^/]+/state$"),
}
"""The calls that tests break."""
_REFUSALS: dict[Trouble, tuple[int, str]] = {
    Trouble.BUSY: (429, "M_LIMIT_EXCEEDED"),
    Trouble.FORBIDDEN: (403, "M_FORBIDDEN"),
    Trouble.BROKEN: (500, "M_UNKNOWN"),
}
_ENOUGH_KEYS = {"device_one_time_keys_count": {"signed_curve25519": 50}}
_ROOM = re.compile(r"/rooms/([^/]+)/")
_OURS = re.compile(r"(?:~|%7E)(\d+)")
"""The part of a sync token that says how many of our events the bot has."""
_ASKS = {"flows": [{"stages": ["m.login.password"]}], "params": {}, "session": "s"}
_ENCRYPTION = {"algorithm": "m.megolm.v1.aes-sha2"}


def _refusal(trouble: Trouble, seconds: float) -> Refuse:
    status, code = _REFUSALS[trouble]
    error: dict[str, Any] = {"errcode": code, "error": "No."}
    if trouble is Trouble.BUSY:
        error["retry_after_ms"] = seconds * 1000
    return Refuse(code, Response(status, _JSON, json.dumps(error).encode()))


class Proxy:
    """Passes the bot's calls on to Synapse, or breaks them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._http = httpx2.AsyncClient(trust_env=False, verify=False, timeout=60)
        self._listener = Listener()
        self.url = self._listener.url
        self.down = self._listener.shut
        self.pulse = Pulse()
        """Beats when something may have changed."""
        self.faults = Faults(Pulse(), _refusal)
        self.calls: Counter[str] = Counter()
        self._injected: list[tuple[str, list[Any]]] = []
        self._confirmed = 0
        """How many of these the bot has confirmed."""
        self.wake = asyncio.Event()
        self.last: tuple[str, Any] | None = None
        """The last event that a sync contained, with its room."""
        self.loses_keys = False
        """Whether syncs lose what other devices sent to the bot."""
        self.asks = False
        """Whether an identity takes a password, as it did before version 1.11 of Matrix."""

    async def up(self) -> None:
        await self._listener.open(self._answer)

    async def close(self) -> None:
        self.faults.calm()
        await self._listener.close()
        await self._http.aclose()

    async def _answer(self, request: Request) -> Response:
        path = unquote(urlsplit(request.target).path)
        name = next((name for name, it in _METHODS.items() if it.search(path)), path)
        self.calls[name] += 1
        if path == "/.well-known/matrix/client":
            return Response(404, _JSON, b"{}")  # its address is that of the proxy
        if self.asks and name.endswith("/device_signing/upload") and b'"auth"' not in request.body:
            return Response(401, _JSON, json.dumps(_ASKS).encode())
        try:
            room = _ROOM.search(path)
            async with self.faults.around(name, room and room[1]):
                handle = self._sync if name == "sync" else self._pass
                answer = await handle(request)
        except Refuse as refused:
            return refused.response
        except Garble:
            return Response(200, _JSON, b"<html>")
        return answer

    def deliver(self, room: str, events: list[Any]) -> None:
        """Deliver these events with the next sync, as events of that room, until the bot confirms
        them."""
        self._injected.append((room, events))
        self.wake.set()

    async def _pass(self, request: Request) -> Response:
        headers = {name: it for name, it in request.headers.items() if name not in _HOP}
        url = f"{self._server.url}{_OURS.sub('', request.target)}"
        try:
            answer = await self._http.request(
                request.method, url, headers=headers, content=request.body
            )
        except httpx2.HTTPError:
            raise HangUp from None
        if request.method != "GET":
            self.pulse.beat()
        kept = {name: it for name, it in answer.headers.items() if name.lower() not in _HOP}
        return Response(answer.status_code, kept, answer.content)

    async def _sync(self, request: Request) -> Response:
        since = parse_qs(urlsplit(request.target).query).get("since", [""])[0]
        if (ours := _OURS.search(since)) is not None:
            self._confirmed = max(self._confirmed, int(ours[1]))
        asked = asyncio.ensure_future(self._pass(request))
        woken = asyncio.ensure_future(self.wake.wait())
        try:
            await asyncio.wait([asked, woken], return_when=asyncio.FIRST_COMPLETED)
            if self._confirmed < len(self._injected):
                return self._altered(_OURS.sub("", since))
            answer = await asked
        finally:
            for task in (asked, woken):
                task.cancel()
        found = json.loads(cast("bytes", answer.body))
        for room, joined in found.get("rooms", {}).get("join", {}).items():
            for event in joined["timeline"]["events"]:
                self.last = room, event
        if self.loses_keys:
            found.pop("to_device", None)
        return Response(answer.status, answer.headers, json.dumps(found).encode())

    def _altered(self, since: str) -> Response:
        """A sync that contains only what was injected."""
        self.wake.clear()
        join: dict[str, Any] = {}
        for room, events in self._injected[self._confirmed :]:
            timeline = join.setdefault(room, {"timeline": {"events": []}})["timeline"]
            timeline["events"] += events
        token = f"{since}~{len(self._injected)}"
        found = {"next_batch": token, "rooms": {"join": join}, **_ENOUGH_KEYS}
        return Response(200, _JSON, json.dumps(found).encode())


class MatrixUser:
    """A user. In encrypted rooms they write with matrix-nio's client, which trusts every device."""

    def __init__(self, server: Server, account: Account) -> None:
        self.account = account
        self.id = account.user_id
        self._url = server.url
        self.encrypted: set[str] = set()
        """The rooms that are encrypted."""
        self._rooms: dict[str, str] = {}
        """The room of each of the user's messages."""
        self._http = httpx2.AsyncClient(
            base_url=f"{server.url}/_matrix",
            headers={"Authorization": f"Bearer {account.token}"},
            trust_env=False,
            verify=False,
            timeout=60,
        )

    @cached_property
    def nio(self) -> nio.AsyncClient:
        config = nio.AsyncClientConfig(store=SqliteMemoryStore, encryption_enabled=True)
        client = nio.AsyncClient(self._url, self.id, config=config)
        client.restore_login(self.id, self.account.device_id, self.account.token)
        return client

    async def close(self) -> None:
        await self._http.aclose()
        if "nio" in vars(self):
            await self.nio.close()
            assert self.nio.store is not None
            self.nio.store.database.close()

    async def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Call the client-server API without the library."""
        answer = await self._http.request(method, f"/client/v3{path}", json=body)
        assert answer.is_success, answer.json()
        return answer.json()

    async def sync(self) -> None:
        """Publish keys, and learn about rooms, devices and keys."""
        answer = await self.nio.sync(timeout=0, full_state=not self.nio.next_batch)
        assert isinstance(answer, nio.SyncResponse), answer
        if self.nio.should_upload_keys:
            await self.nio.keys_upload()
        if self.nio.should_query_keys:
            await self.nio.keys_query()

    async def send(self, room: str, content: dict[str, Any], kind: str = "m.room.message") -> str:
        if room in self.encrypted and kind != "m.reaction":  # those are never encrypted
            await self.sync()
            answer = await self.nio.room_send(room, kind, content, ignore_unverified_devices=True)
            assert isinstance(answer, nio.RoomSendResponse), answer
            sent = answer.event_id
        else:
            where = f"/rooms/{quote(room)}/send/{kind}/{secrets.token_hex(8)}"
            sent = (await self.call("PUT", where, content))["event_id"]
        self._rooms[sent] = room
        return sent

    async def say(self, room: str, text: str, thread: str | None = None, **more: Any) -> str:
        content: dict[str, Any] = {"msgtype": "m.text", "body": text, **more}
        if thread is not None:
            fallback = {"is_falling_back": True, "m.in_reply_to": {"event_id": thread}}
            relation = {"rel_type": "m.thread", "event_id": thread, **fallback}
            content["m.relates_to"] = relation
        return await self.send(room, content)

    async def upload(self, room: str, name: str, media_type: str, data: bytes) -> dict[str, Any]:
        """Upload a file, and return what its message says about it."""
        info = {"mimetype": media_type, "size": len(data)}
        keys: dict[str, Any] = {}
        if room in self.encrypted:
            data, keys = encrypt_attachment(data)
        headers = {"Content-Type": media_type}
        answer = await self._http.post("/media/v3/upload", content=data, headers=headers)
        url = answer.json()["content_uri"]
        kind = "m.image" if media_type.startswith("image/") else "m.file"
        where = {"file": {**keys, "url": url}} if keys else {"url": url}
        return {"msgtype": kind, "filename": name, "info": info, **where}

    async def fetch(self, file: dict[str, Any]) -> bytes:
        """The content of an encrypted file."""
        url = f"/client/v1/media/download/{file['url'].removeprefix('mxc://')}"
        keys = file["key"]["k"], file["hashes"]["sha256"], file["iv"]
        return decrypt_attachment((await self._http.get(url)).content, *keys)

    async def edit(self, message: str, text: str) -> None:
        new = {"msgtype": "m.text", "body": text}
        relation = {"rel_type": "m.replace", "event_id": message}
        changed = {**new, "body": f"* {text}", "m.new_content": new, "m.relates_to": relation}
        await self.send(self._rooms[message], changed)

    async def redact(self, message: str) -> None:
        where = (
            f"/rooms/{quote(self._rooms[message])}/redact/{quote(message)}/{secrets.token_hex(8)}"
        )
        await self.call("PUT", where, {})

    async def react(self, room: str, message: str, emoji: str) -> None:
        relation = {"rel_type": "m.annotation", "event_id": message, "key": emoji}
        await self.send(room, {"m.relates_to": relation}, "m.reaction")

    async def events(self, room: str) -> list[dict[str, Any]]:
        """All events of a room, oldest first. Those that are encrypted are decrypted."""
        found: list[dict[str, Any]] = []
        start: str | None = ""
        while start is not None:
            where = f"/rooms/{quote(room)}/messages?dir=f&limit=500&from={start}"
            answer = await self.call("GET", where)
            found = found + answer["chunk"]
            start = answer.get("end")
        if room in self.encrypted:
            await self.sync()
        return [self._opened(room, event) for event in found]

    def _opened(self, room: str, event: dict[str, Any]) -> dict[str, Any]:
        if event["type"] != "m.room.encrypted" or not event["content"]:
            return event
        parsed = nio.Event.parse_event(event)
        assert isinstance(parsed, nio.MegolmEvent), event
        parsed.room_id = room
        try:
            return self.nio.decrypt_event(parsed).source
        except nio.EncryptionError:
            return {**event, "type": "m.room.message", "content": {"body": "(not decrypted)"}}

    async def look(self, room: str) -> list[Message[str]]:
        """The messages of a room as the user sees them, oldest first."""
        found: dict[str, Message[str]] = {}
        for event in await self.events(room):
            content = event["content"]
            name = event["event_id"]
            if event["type"] != "m.room.message" or not content:
                continue
            relation = content.get("m.relates_to", {})
            thread = relation.get("event_id") if relation.get("rel_type") == "m.thread" else None
            if relation.get("rel_type") == "m.replace":
                name = relation["event_id"]
                content = content["m.new_content"]
                thread = found[name].thread
            found[name] = Message(
                id=name,
                chat=room,
                author=event["sender"],
                text=content["body"],
                thread=thread,
                files=_files(content),
                service="segue.thread" in content,
            )
        return list(found.values())


def _files(content: dict[str, Any]) -> tuple[File, ...]:
    name = content.get("filename")
    info = content.get("info", {})
    if not name:
        return ()
    where = json.dumps(content.get("file"))
    kind = info["mimetype"]
    return (File(id=where, name=name, media_type=kind, size=0, kind=FileKind.DOCUMENT),)


class MatrixDriver:
    """A bot, its users and their rooms."""

    def __init__(self, server: Server, proxy: Proxy, bot: MatrixUser, folder: Path) -> None:
        self.server = server
        self.proxy = proxy
        self.bot = bot
        self.folder = folder
        self.users: dict[str, MatrixUser] = {}
        self.rooms: dict[str, MatrixUser] = {}
        """A user who is in each room."""
        self._direct: dict[str, list[str]] = {}
        self._seen: dict[str, tuple[int, list[Message[str]]]] = {}
        self.down = proxy.down
        self.up = proxy.up

    async def user(self, name: str) -> str:
        local = f"{name.lower()}-{secrets.token_hex(4)}"
        account = await asyncio.to_thread(self.server.register, local, display_name=name)
        self.users[account.user_id] = MatrixUser(self.server, account)
        return account.user_id

    async def chat(
        self, members: Sequence[str], *, direct: bool = False, encrypted: bool = False
    ) -> str:
        """A room of the bot with these users."""
        state = {"type": "m.room.encryption", "state_key": "", "content": _ENCRYPTION}
        given: dict[str, Any] = {
            "preset": "private_chat",
            "is_direct": direct,
            "invite": members,
            "initial_state": [state] if encrypted else [],
            "power_level_content_override": {"users_default": 100},
        }
        room = (await self.bot.call("POST", "/createRoom", given))["room_id"]
        for user in (self.users[it] for it in members):
            await user.call("POST", f"/join/{quote(room)}", {})
            self.rooms[room] = user
            if encrypted:
                user.encrypted.add(room)
                await user.sync()
            if direct:
                self._direct[user.id] = [*self._direct.get(user.id, ()), room]
        if direct:
            where = f"/user/{quote(self.bot.id)}/account_data/m.direct"
            await self.bot.call("PUT", where, self._direct)
        return room

    async def say(
        self, user: str, room: str, text: str, thread: str | None, files: Iterable[Any] = ()
    ) -> str:
        person = self.users[user]
        more = dict[str, Any]()
        for it in files:
            more = await person.upload(room, it.name, it.media_type, it.content)
        said = await person.say(room, text, thread, **more)
        self.proxy.pulse.beat()
        return said

    async def look(self, chat: str | None = None) -> Shown[str, Message[str], Thread[str]]:
        """What is in a room. The server is asked only if something may have changed."""
        proxy = self.proxy
        found = list[Message[str]]()
        if chat is not None:
            count = proxy.pulse.count
            if self._seen.get(chat, (-1, []))[0] != count:
                self._seen[chat] = count, await self.rooms[chat].look(chat)
            found = self._seen[chat][1]
        # The message that opens a thread is its title.
        threads = (Thread(id=it.id, chat=it.chat, title=it.text) for it in found if it.service)
        return Shown(
            version=proxy.pulse.count,
            messages=tuple(it for it in found if not it.service),
            threads=tuple(threads),
            typing=(),
            drafts=(),
            answered=(),
            calls=proxy.calls,
            errors=(),
            hanging=proxy.faults.hanging,
            unconfirmed=0,
        )

    async def until(
        self, condition: Callable[[Any], bool], chat: str | None = None, within: float = 40.0
    ) -> Shown[str, Message[str], Thread[str]]:
        pulse = self.proxy.pulse
        async with asyncio.timeout(within):
            while not condition(shown := await self.look(chat)):
                before = shown.version
                await pulse.until(lambda before=before: pulse.count != before, 0.2)
                if pulse.count == before:
                    pulse.beat()  # the bot may not use the proxy
        return shown

    async def fail(
        self, method: str, trouble: Trouble, *, seconds: float, times: int = 1, chat: object = None
    ) -> None:
        room = None if chat is None else str(chat)
        self.proxy.faults.add(Fault(method, trouble, times, seconds, room))

    async def calm(self) -> None:
        self.proxy.faults.calm()

    async def clear(self) -> None:
        """A driver is new anyway."""

    async def errors(self) -> tuple[str, ...]:
        return ()

    async def repeat(self) -> None:
        assert self.proxy.last is not None
        room, event = self.proxy.last
        self.proxy.deliver(room, [event])

    async def inject(self, updates: Iterable[str]) -> None:
        self.proxy.deliver(list(self.rooms)[-1], [json.loads(update) for update in updates])


class MatrixPeer:
    """The server of this process."""

    server: Server

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncGenerator[MatrixPeer]:
        yield self

    @contextlib.asynccontextmanager
    async def driver(self) -> AsyncGenerator[MatrixDriver]:
        """A new bot."""
        name = f"bot-{secrets.token_hex(4)}"
        proxy = Proxy(self.server)
        bot = await asyncio.to_thread(self.server.register, name, display_name="Segue")
        await proxy.up()
        with tempfile.TemporaryDirectory(dir=self.server.folder) as folder:
            driver = MatrixDriver(
                self.server, proxy, MatrixUser(self.server, bot), Path(folder, "matrix")
            )
            try:
                yield driver
            finally:
                for user in (driver.bot, *driver.users.values()):
                    await user.close()
                await proxy.close()


PEER = MatrixPeer()


@pytest.fixture(scope="session")
def peer() -> Generator[MatrixPeer]:
    """One Synapse for all tests of a process, also if several modules import this fixture."""
    with contextlib.ExitStack() as stack:
        if not hasattr(PEER, "server"):
            PEER.server = stack.enter_context(synapse.running())
        yield PEER
