"""The Telegram fake's HTTP interface for the bot.

Calls go to `/bot<token>/<method>`, and file downloads to `/file/bot<token>/<file_path>`:
core.telegram.org/bots/api#making-requests and #getfile. A malformed token and an unknown method get
404; a token that belongs to no bot gets 401 (`ClientManager` of tdlib/telegram-bot-api).
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping

import msgspec

from segue.testing import peers
from segue.testing.http import HangUp, Request, Response
from segue.testing.peers import Garble
from segue.testing.telegram import requests, wire
from segue.testing.telegram.control import Order
from segue.testing.telegram.errors import BadGateway, Malformed, Refuse
from segue.testing.telegram.requests import Parameters
from segue.testing.telegram.snapshot import Called, Settings
from segue.testing.telegram.world import World

DOWNLOAD = "download"
"""The name of a file download, where a method name is expected."""
_TOKEN = re.compile(r"[0-9]{6,20}:[A-Za-z0-9_-]{30,64}")
_TARGET = re.compile(r"(/file)?/bot([^/]*)/([^?]*)(?:\?.*)?")
_BAD_GATEWAY = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n</html>\r\n"


class Doors(peers.Doors[Settings, World]):
    orders = Order

    def _fresh(self, settings: Settings) -> World:
        return World(settings, int(self._token.partition(":")[0]), self._pulse)

    async def _answer_bot(self, request: Request) -> Response:
        world, noted = self._world, _Noted()
        try:
            response = await self._respond(world, request, noted)
        except Malformed as malformed:
            world.errors.append(f"{noted.method}: {malformed.reason}")
            response = _refusal(malformed.refuse)
            noted.description = malformed.refuse.description
        except Refuse as refuse:
            response = _refusal(refuse)
            noted.description = refuse.description
        except BadGateway as broken:
            response = Response(502, {"Content-Type": "text/html"}, _BAD_GATEWAY)
            noted.description = str(broken)
        except Garble:
            response = Response(body=b'{"ok": <html>')
        except HangUp:
            self._end(world, noted, 0)
            raise
        self._end(world, noted, response.status)
        return response

    async def _respond(self, world: World, request: Request, noted: _Noted) -> Response:
        file, name = self._authorized(request)
        if file:
            noted.method = DOWNLOAD
            noted.parameters = {"file_path": name}
            self._begin(world, noted)
            async with world.faults.around(DOWNLOAD, None):
                content = world.asking.content(name)
            return Response(headers={"Content-Type": "application/octet-stream"}, body=content)
        kind = self._kind(name, noted)
        self._begin(world, noted)
        given = requests.parameters(request)
        noted.parameters = given.values
        call = requests.call(kind, given)
        noted.parameters = _given(call, given)
        chat = getattr(call, "chat_id", None)
        async with world.faults.around(noted.method, None if chat is None else str(chat)):
            if isinstance(call, wire.GetUpdates):
                frames = await world.updates.poll(call)
                return Response(body=f'{{"ok":true,"result":[{",".join(frames)}]}}'.encode())
            result = world.carry_out(call, given.files)
        return Response(body=msgspec.json.encode({"ok": True, "result": result}))

    def _authorized(self, request: Request) -> tuple[bool, str]:
        """Check the token. Return whether this is a file request, and the method or file path."""
        match = _TARGET.fullmatch(request.target)
        if match is None:
            raise Malformed(
                f"there is nothing at {request.target!r}", refuse=Refuse(404, "Not Found")
            )
        if _TOKEN.fullmatch(token := urllib.parse.unquote(match[2])) is None:
            raise Refuse(404, "Not Found")
        if token != self._token or self._world.state.settings.revoked:
            raise Refuse(401, "Unauthorized")
        if request.method not in ("GET", "POST"):
            raise Malformed(f"calls are got or posted, not {request.method}")
        return match[1] is not None, urllib.parse.unquote(match[3])

    def _kind(self, name: str, noted: _Noted) -> type[wire.Call]:
        noted.method = name
        kind = wire.METHODS.get(name.lower())
        if kind is None:
            raise Malformed(f"there is no method {name!r}", refuse=Refuse(404, "Not Found"))
        noted.method = kind.__name__[0].lower() + kind.__name__[1:]
        if noted.method in self._world.state.settings.missing:
            raise Refuse(404, "Not Found")
        return kind

    def _begin(self, world: World, noted: _Noted) -> None:
        world.counts[noted.method] += 1
        self._pulse.beat()

    def _end(self, world: World, noted: _Noted, status: int) -> None:
        self._pulse.beat()
        if noted.method == "getUpdates":
            return
        called = Called(
            method=noted.method,
            parameters=noted.parameters,
            status=status,
            description=noted.description,
        )
        world.calls.append(called)
        self._note(called)


class _Noted:
    """The record of a call in progress."""

    def __init__(self) -> None:
        self.method = ""
        self.parameters: Mapping[str, object] = {}
        self.description = ""


def _given(call: wire.Call, given: Parameters) -> Mapping[str, object]:
    """The parsed parameters, with the name, type and size of each file."""
    parsed: dict[str, object] = msgspec.to_builtins(call)
    files = {
        name: {"name": sent.name, "media_type": sent.media_type, "size": len(sent.content)}
        for name, sent in given.files.items()
    }
    return {name: parsed[name] for name in given.values} | files


def _refusal(refuse: Refuse) -> Response:
    answer: dict[str, object] = {
        "ok": False,
        "error_code": refuse.status,
        "description": refuse.description,
    }
    if refuse.parameters is not None:
        answer["parameters"] = refuse.parameters
    return Response(refuse.status, body=msgspec.json.encode(answer))
