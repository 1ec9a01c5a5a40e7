"""A homeserver with one room, in the test's own event loop: what a bot needs to connect and to hear
something. Everything else about Matrix is tested on the real Synapse, for which no clock jumps."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from segue.core.address import Platform
from segue.core.secret import Secret
from segue.platforms.matrix.adapter import MatrixAdapter, make
from segue.platforms.spec import PlatformSettings
from segue.testing.contract.rig import File, Place
from segue.testing.http import Request, Response
from segue.testing.peers import Outage, Pulse
from segue.testing.peers.faults import Outages
from segue.testing.peers.server import Listener

BOT = "@segue:home.test"
ANNA = "@anna:home.test"
ROOM = "!room:home.test"
_KEYS = {"signed_curve25519": 50}
_ANSWERS: dict[str, Any] = {
    "/account/whoami": {"user_id": BOT, "device_id": "DEVICE"},
    "/keys/upload": {"one_time_key_counts": _KEYS},
    "/keys/query": {},
    "/keys/device_signing/upload": {},
    "/keys/signatures/upload": {},
    "/account_data/m.direct": {ANNA: [ROOM]},
    "/state": [],
}
"""The answers to paths with these ends."""


class Homeserver:
    """Anna, the bot, and their room."""

    usual = "dm"

    def __init__(self, folder: Path) -> None:
        self._listener = Listener()
        self._outages = Outages()
        self._pulse = Pulse()
        self._events: list[dict[str, Any]] = []
        self._sent = itertools.count(1)
        token = Secret("syt_token", "test")
        values = {"url": self._listener.url, "token": token, "invites_from": ANNA}
        settings = PlatformSettings(platform=Platform.MATRIX, values=values, folder=folder)
        self.adapter: MatrixAdapter = make(settings)

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, folder: Path) -> AsyncGenerator[Homeserver]:
        server = cls(folder)
        await server._listener.open(server._answer)
        await server.adapter.connect()
        try:
            yield server
        finally:
            await server.adapter.close()
            await server._listener.close()

    async def place(self, shape: str) -> Place:
        return Place(ROOM)

    async def say(self, at: Place, text: str, files: Sequence[File] = ()) -> str:
        name = f"$event{len(self._events)}"
        content = {"msgtype": "m.text", "body": text}
        event = {"type": "m.room.message", "event_id": name, "sender": ANNA, "content": content}
        self._events.append({**event, "origin_server_ts": 1_767_225_600_000})
        self._pulse.beat()
        return name

    # Outages

    async def fail_connections(self, outage: Outage, *, everything: bool) -> None:
        await self._listener.shut()
        self._outages.begin(outage, everything=everything)
        if outage is not Outage.REFUSE:
            await self._listener.open(self._answer)

    async def recover(self) -> None:
        self._outages.end()
        await self._listener.open(self._answer)

    async def arrivals(self) -> Sequence[float]:
        return self._outages.arrivals

    async def flooded(self, most: int, seconds: float) -> None:
        await self._pulse.until(lambda: len(self._outages.arrivals) > most, seconds)

    # The bot

    async def _answer(self, request: Request) -> Response:
        self._outages.arrive()
        self._pulse.beat()
        path = urlsplit(request.target).path
        is_sync = path.endswith("/sync")
        outage = self._outages.now
        if outage is Outage.GOODBYE and is_sync:
            return json_response(self._synced(_since(request), []))
        if outage is Outage.TOO_MANY and is_sync:
            return json_response({"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 2000}, 429)
        if outage is not None and (is_sync or self._outages.everything):
            return await self._outages.response()
        if is_sync:
            return json_response(await self._sync(request))
        if "/send/" in path:
            return json_response({"event_id": f"$sent{next(self._sent)}"})
        for end, answer in _ANSWERS.items():
            if path.endswith(end):
                return json_response(answer)
        return json_response({"errcode": "M_NOT_FOUND", "error": "Not found"}, 404)

    async def _sync(self, request: Request) -> object:
        """Wait for an event that is newer than the token, which is their number."""
        since = _since(request)
        seconds = int(parse_qs(urlsplit(request.target).query)["timeout"][0]) / 1000
        await self._pulse.until(lambda: len(self._events) > since, seconds)
        return self._synced(len(self._events), self._events[since:])

    def _synced(self, number: int, events: list[dict[str, Any]]) -> dict[str, Any]:
        rooms = {"join": {ROOM: {"timeline": {"events": events}}}} if events else {}
        more = {"device_one_time_keys_count": _KEYS}
        return {"next_batch": f"s{number}", "rooms": rooms, **more}


def _since(request: Request) -> int:
    token = parse_qs(urlsplit(request.target).query).get("since", ["s0"])[0]
    return int(token.removeprefix("s"))


def json_response(answer: object, status: int = 200) -> Response:
    return Response(status, body=json.dumps(answer).encode())
