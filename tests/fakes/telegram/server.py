"""The Telegram fake's HTTP interface for the bot.

Calls go to `/bot<token>/<method>`, and file downloads to `/file/bot<token>/<file_path>`:
core.telegram.org/bots/api#making-requests and #getfile. A malformed token and an unknown method get
404; a token that belongs to no bot gets 401 (`ClientManager` of tdlib/telegram-bot-api).
"""

from __future__ import annotations

import functools
import re
import urllib.parse

from segue.testing import peers
from segue.testing.http import Request, Response
from segue.testing.peers import Outage, Record
from segue.testing.peers.server import Effect
from tests.fakes.telegram.control import Control
from tests.fakes.telegram.errors import Refuse, mistake
from tests.fakes.telegram.methods import LARGEST_FILE, MEGABYTE, METHODS, Methods
from tests.fakes.telegram.snapshot import Settings
from tests.fakes.telegram.state import State

_OTHER = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is "
    "running"
)
_TOKEN = re.compile(r"[0-9]{6,20}:[A-Za-z0-9_-]{30,64}")
_TARGET = re.compile(r"(/file)?/bot([^/]*)/([^?]*)(?:\?.*)?")


class Server(peers.Server[Settings, State]):
    control = Control
    polls = "getUpdates"

    def fresh(self, settings: Settings) -> State:
        return State(settings, int(self.token.partition(":")[0]), self.pulse)

    def receives_updates(self, request: Request) -> bool:
        return "/getUpdates" in request.target

    def farewell(self, request: Request, outage: Outage) -> Response:
        """A poll that returns at once, or one of two at the same time."""
        if outage is Outage.TOO_MANY:
            return Refuse(409, _OTHER).response
        return Response(body=b'{"ok":true,"result":[]}')

    def parse(self, request: Request, record: Record) -> tuple[Effect, str | None]:
        file, name = self._authorized(request)
        methods = Methods(self.state)
        if file:
            record.method, record.parameters = "download", {"file_path": name}
            return functools.partial(methods.download, name), None
        record.method = name
        if (method := METHODS.get(name.lower())) is None:
            raise Refuse(404, "Not Found", mistake=True)
        record.method = re.sub(r"_(\w)", lambda it: it[1].upper(), method.__name__)
        if record.method in self.state.settings.missing:
            raise Refuse(404, "Not Found")
        if len(request.body) > LARGEST_FILE + MEGABYTE:
            raise Refuse(413, "Request Entity Too Large")
        arguments = self.arguments(method, request, record)
        chat = arguments.get("chat_id")
        return functools.partial(method, methods, **arguments), chat and str(chat)

    def _authorized(self, request: Request) -> tuple[bool, str]:
        """Check the token. Return whether this is a file request, and the method or file path."""
        if (match := _TARGET.fullmatch(request.target)) is None:
            raise Refuse(404, "Not Found", mistake=True)
        if _TOKEN.fullmatch(token := urllib.parse.unquote(match[2])) is None:
            raise Refuse(404, "Not Found")
        if token != self.token or self.state.settings.revoked:
            raise Refuse(401, "Unauthorized")
        if request.method not in ("GET", "POST"):
            raise mistake(f"calls are got or posted, not {request.method}")
        return match[1] is not None, urllib.parse.unquote(match[3])

    def envelope(self, result: object) -> object:
        return {"ok": True, "result": result}

    def malformed(self, reason: str) -> Refuse:
        return mistake(reason)
