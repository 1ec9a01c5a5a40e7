"""Matrix for the tests: its users, as matrix-nio's client knows them, and a proxy before the real
Synapse, which breaks the bot's calls."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import socket
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import parse_qs, quote, unquote, urlsplit

import httpx2
import nio
import pytest
from nio.crypto.attachments import decrypt_attachment, encrypt_attachment
from nio.store import SqliteMemoryStore

from segue.testing import synapse
from segue.testing.http import HangUp, Request, Response, serving
from segue.testing.peers import Trouble
from segue.testing.synapse import Account, Server

_HOP = ("host", "content-length", "transfer-encoding", "connection", "content-encoding")
_REFUSALS: dict[Trouble, tuple[int, str]] = {
    Trouble.BUSY: (429, "M_LIMIT_EXCEEDED"),
    Trouble.FORBIDDEN: (403, "M_FORBIDDEN"),
    Trouble.BROKEN: (500, "M_UNKNOWN"),
}
_BEFORE = (Trouble.DROP_BEFORE, Trouble.HANG, *_REFUSALS)


@pytest.fixture(scope="session")
def server() -> Generator[Server]:
    """One Synapse for all tests of a process."""
    with synapse.running() as running:
        yield running


@dataclass(slots=True)
class Fault:
    path: re.Pattern[str]
    trouble: Trouble
    seconds: float
    times: int = 1


class Proxy:
    """Passes the bot's calls on to Synapse, or breaks them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._http = httpx2.AsyncClient(trust_env=False, timeout=60)
        self._stack = contextlib.AsyncExitStack()
        self._faults: list[Fault] = []
        self._calm = asyncio.Event()
        self._injected: list[tuple[str, list[Any]]] = []
        self._wake = asyncio.Event()
        self.last: tuple[str, Any] | None = None
        """The last event that a sync contained, with its room."""
        self.calls: Counter[str] = Counter()
        self.writes = 0
        """The number of calls that may have changed something."""
        self.loses_keys = False
        """Whether syncs lose what other devices sent to the bot."""
        self.hanging = 0
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port: int = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    async def up(self) -> None:
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", self._port))
        await self._stack.enter_async_context(serving(self._handle, bound))

    async def down(self) -> None:
        """Drop all connections, and refuse new ones."""
        await self._stack.aclose()

    async def close(self) -> None:
        await self.calm()
        await self.down()
        await self._http.aclose()

    def fail(self, path: str, trouble: Trouble, *, seconds: float = 0.0, times: int = 1) -> None:
        self._faults.append(Fault(re.compile(path), trouble, seconds, times))

    async def calm(self) -> None:
        """Remove all faults, and drop the connections of calls that hang."""
        self._faults.clear()
        self._calm.set()
        self._calm = asyncio.Event()

    def inject(self, room: str, events: list[Any]) -> None:
        """Deliver these events with the next sync, as events of that room."""
        self._injected.append((room, events))
        self._wake.set()

    async def _handle(self, request: Request) -> Response:
        target = urlsplit(request.target)
        self.calls[f"{request.method} {target.path}"] += 1
        name = f"{request.method} {unquote(target.path)}"
        fault = next((it for it in self._faults if it.path.search(name)), None)
        if fault is not None:
            fault.times -= 1
            if fault.times <= 0:
                self._faults.remove(fault)
            return await self._break(fault, request)
        if target.path.endswith("/sync"):
            return await self._sync(request)
        return await self._pass(request)

    async def _break(self, fault: Fault, request: Request) -> Response:
        trouble = fault.trouble
        if trouble is Trouble.DELAY:
            await asyncio.sleep(fault.seconds)
        answer = None if trouble in _BEFORE else await self._pass(request)
        if trouble in _REFUSALS:
            status, code = _REFUSALS[trouble]
            error: dict[str, Any] = {"errcode": code, "error": "No."}
            if trouble is Trouble.BUSY:
                error["retry_after_ms"] = fault.seconds * 1000
            return Response(status, {"content-type": "application/json"}, _json(error))
        if trouble in (Trouble.HANG, Trouble.HANG_AFTER):
            self.hanging += 1
            try:
                await self._calm.wait()
            finally:
                self.hanging -= 1
        if trouble is Trouble.GARBLED:
            return Response(200, {"content-type": "application/json"}, b"<html>")
        if answer is None or trouble in (Trouble.DROP_AFTER, Trouble.HANG_AFTER):
            raise HangUp
        return answer

    async def _pass(self, request: Request) -> Response:
        headers = {name: it for name, it in request.headers.items() if name not in _HOP}
        url = f"{self._server.url}{request.target}"
        try:
            answer = await self._http.request(
                request.method, url, headers=headers, content=request.body
            )
        except httpx2.HTTPError:
            raise HangUp from None
        self.writes += request.method != "GET"
        kept = {name: it for name, it in answer.headers.items() if name.lower() not in _HOP}
        return Response(answer.status_code, kept, answer.content)

    async def _sync(self, request: Request) -> Response:
        asked = asyncio.ensure_future(self._pass(request))
        woken = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait([asked, woken], return_when=asyncio.FIRST_COMPLETED)
            if self._injected:
                return self._altered(request)
            answer = await asked
        finally:
            for task in (asked, woken):
                task.cancel()
        if self.loses_keys:
            found = json.loads(cast("bytes", answer.body))
            found.pop("to_device", None)
            answer = Response(answer.status, answer.headers, _json(found))
        with contextlib.suppress(ValueError, LookupError):
            rooms = json.loads(cast("bytes", answer.body))["rooms"]["join"]
            for room, joined in rooms.items():
                for event in joined["timeline"]["events"]:
                    self.last = room, event
        return answer

    def _altered(self, request: Request) -> Response:
        """A sync that contains only what was injected, and does not move on."""
        self._wake.clear()
        injected, self._injected = self._injected, []
        since = parse_qs(urlsplit(request.target).query)["since"][0]
        join = {room: {"timeline": {"events": events}} for room, events in injected}
        return Response(
            200,
            {"content-type": "application/json"},
            _json({"next_batch": since, "rooms": {"join": join}}),
        )


@dataclass(frozen=True, slots=True)
class Shown:
    """A message as a user sees it."""

    id: str
    author: str
    text: str
    thread: str | None
    labels: tuple[str, ...]
    file: str | None
    html: str = ""
    content: dict[str, Any] = field(default_factory=dict[str, Any])


class MatrixUser:
    """A user with matrix-nio's own client, which trusts every device."""

    def __init__(self, url: str, account: Account) -> None:
        self.account = account
        self.id = account.user_id
        config = nio.AsyncClientConfig(store=SqliteMemoryStore, encryption_enabled=True)
        self.nio = nio.AsyncClient(url, account.user_id, config=config)
        self.nio.restore_login(account.user_id, account.device_id, account.token)
        self._rooms: dict[str, str] = {}
        """The room of each of the user's messages."""
        self.encrypted: set[str] = set()
        """The rooms that are encrypted. In others, the library is not needed."""
        self._http = httpx2.AsyncClient(trust_env=False, timeout=60)

    async def close(self) -> None:
        await self.nio.close()
        await self._http.aclose()
        assert self.nio.store is not None
        self.nio.store.database.close()

    async def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Call the client-server API without the library."""
        headers = {"Authorization": f"Bearer {self.account.token}"}
        url = f"{self.nio.homeserver}/_matrix/client/v3{path}"
        answer = await self._http.request(method, url, json=body, headers=headers)
        found = answer.json()
        assert answer.is_success, found
        return found

    async def sync(self) -> nio.SyncResponse:
        """Learn about rooms, devices and keys."""
        answer = await self.nio.sync(timeout=0, full_state=not self.nio.next_batch)
        assert isinstance(answer, nio.SyncResponse), answer
        if self.nio.should_upload_keys:
            await self.nio.keys_upload()
        if self.nio.should_query_keys:
            await self.nio.keys_query()
        return answer

    async def send(self, room: str, content: dict[str, Any], kind: str = "m.room.message") -> str:
        if room not in self.encrypted:
            where = f"/rooms/{quote(room)}/send/{kind}/{secrets.token_hex(8)}"
            sent = (await self.call("PUT", where, content))["event_id"]
            self._rooms[sent] = room
            return sent
        await self.sync()
        answer = await self.nio.room_send(room, kind, content, ignore_unverified_devices=True)
        assert isinstance(answer, nio.RoomSendResponse), answer
        self._rooms[answer.event_id] = room
        return answer.event_id

    async def say(self, room: str, text: str, thread: str | None = None, **more: Any) -> str:
        content: dict[str, Any] = {"msgtype": "m.text", "body": text, **more}
        if thread is not None:
            content["m.relates_to"] = {
                "rel_type": "m.thread",
                "event_id": thread,
                "is_falling_back": True,
                "m.in_reply_to": {"event_id": thread},
            }
        return await self.send(room, content)

    async def upload(self, room: str, name: str, media_type: str, data: bytes) -> dict[str, Any]:
        """Upload a file, and return what its message says about it."""
        encrypted = room in self.encrypted
        keys: dict[str, Any] = {}
        if encrypted:
            data, keys = encrypt_attachment(data)
        headers = {"Authorization": f"Bearer {self.account.token}", "Content-Type": media_type}
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:
            url = f"{self.nio.homeserver}/_matrix/media/v3/upload"
            answer = (await http.post(url, content=data, headers=headers)).json()
        info = {"mimetype": media_type, "size": len(data)}
        kind = "m.image" if media_type.startswith("image/") else "m.file"
        where = {"file": {**keys, "url": answer["content_uri"]}}
        if not encrypted:
            where = {"url": answer["content_uri"]}
        return {"msgtype": kind, "filename": name, "info": info, **where}

    async def fetch(self, file: dict[str, Any]) -> bytes:
        """The content of an encrypted file."""
        where = f"{self.nio.homeserver}/_matrix/client/v1/media/download/"
        headers = {"Authorization": f"Bearer {self.account.token}"}
        url = where + file["url"].removeprefix("mxc://")
        answer = await self._http.get(url, headers=headers)
        keys = file["key"]["k"], file["hashes"]["sha256"], file["iv"]
        return decrypt_attachment(answer.content, *keys)

    async def edit(self, message: str, text: str) -> None:
        content = {"msgtype": "m.text", "body": text}
        relation = {"rel_type": "m.replace", "event_id": message}
        changed = {**content, "body": f"* {text}", "m.new_content": content}
        await self.send(self._rooms[message], {**changed, "m.relates_to": relation})

    async def react(self, room: str, message: str, label: str) -> None:
        relation = {"rel_type": "m.annotation", "event_id": message, "key": label}
        where = f"/rooms/{quote(room)}/send/m.reaction/{secrets.token_hex(8)}"
        await self.call("PUT", where, {"m.relates_to": relation})

    async def look(self, room: str) -> list[Shown]:
        """The messages of a room as the user sees them, oldest first."""
        events = await self._history(room)
        edits: dict[str, dict[str, Any]] = {}
        labels: defaultdict[str, list[str]] = defaultdict(list)
        for event in events:
            content = event.get("content", {})
            relation = content.get("m.relates_to", {})
            if relation.get("rel_type") == "m.replace":
                edits[relation["event_id"]] = content["m.new_content"]
            if relation.get("rel_type") == "m.annotation" and event["sender"] != self.id:
                labels[relation["event_id"]].append(relation["key"])
        found: list[Shown] = []
        for event in events:
            relation = event.get("content", {}).get("m.relates_to", {})
            if event["type"] != "m.room.message" or relation.get("rel_type") == "m.replace":
                continue
            content = edits.get(event["event_id"], event["content"])
            if not content:
                continue  # it was deleted
            thread = relation.get("event_id") if relation.get("rel_type") == "m.thread" else None
            found.append(
                Shown(
                    event["event_id"],
                    event["sender"],
                    content["body"],
                    thread,
                    tuple(labels[event["event_id"]]),
                    content.get("filename"),
                    content.get("formatted_body", ""),
                    content,
                )
            )
        return found

    async def _history(self, room: str) -> list[dict[str, Any]]:
        """All events of a room, oldest first. Those that are encrypted are decrypted."""
        found: list[dict[str, Any]] = []
        start = ""
        while True:
            answer = await self.call(
                "GET", f"/rooms/{quote(room)}/messages?dir=f&limit=500&from={start}"
            )
            found += answer["chunk"]
            if not (start := answer.get("end", "")):
                break
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

    async def until(
        self,
        room: str,
        condition: Callable[[list[Shown]], bool],
        within: float = 40.0,
        meanwhile: Callable[[], Awaitable[None]] | None = None,
    ) -> list[Shown]:
        """Wait until the messages of a room are as `condition` says, and return them."""
        shown: list[Shown] = []
        try:
            async with asyncio.timeout(within):
                while not condition(shown := await self.look(room)):
                    if meanwhile is not None:
                        await meanwhile()
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"there is only: {shown}") from None
        return shown


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


@contextlib.asynccontextmanager
async def user(server: Server, name: str) -> AsyncGenerator[MatrixUser]:
    """A new user called `name`."""
    local = f"{name.lower()}-{secrets.token_hex(4)}"
    account = await asyncio.to_thread(server.register, local, display_name=name)
    made = MatrixUser(server.url, account)
    try:
        yield made
    finally:
        await made.close()


async def make_room(
    by: MatrixUser | Account,
    server: Server,
    *guests: MatrixUser,
    direct: bool = False,
    encrypted: bool = False,
    name: str = "",
) -> str:
    """A room that the account creates, with these guests in it."""
    account = by.account if isinstance(by, MatrixUser) else by
    state = [
        {
            "type": "m.room.encryption",
            "state_key": "",
            "content": {"algorithm": "m.megolm.v1.aes-sha2"},
        }
    ]
    given: dict[str, Any] = {
        "preset": "private_chat",
        "is_direct": direct,
        "invite": [guest.id for guest in guests],
        "initial_state": state if encrypted else [],
        "power_level_content_override": {"users_default": 100},
    }
    if name:
        given["name"] = name
    headers = {"Authorization": f"Bearer {account.token}"}
    base = f"{server.url}/_matrix/client/v3"
    async with httpx2.AsyncClient(trust_env=False, timeout=60, headers=headers) as http:
        room = (await http.post(f"{base}/createRoom", json=given)).json()["room_id"]
        for guest in guests:
            await guest.call("POST", f"/join/{quote(room)}", {})
            guest.encrypted |= {room} if encrypted else set()
        if direct:
            where = f"{base}/user/{quote(account.user_id)}/account_data/m.direct"
            found = (await http.get(where)).json()
            known = {} if "errcode" in found else found
            for guest in guests:
                known[guest.id] = [*known.get(guest.id, []), room]
            (await http.put(where, json=known)).raise_for_status()
    return room
