"""The Telegram fake's HTTP interface for the bot.

Calls go to `/bot<token>/<method>`, and file downloads to `/file/bot<token>/<file_path>`:
core.telegram.org/bots/api#making-requests and #getfile. A malformed token and an unknown method get
404; a token that belongs to no bot gets 401 (`ClientManager` of tdlib/telegram-bot-api).
"""

from __future__ import annotations

import re
import urllib.parse

import msgspec

from segue.testing import peers
from segue.testing.http import Request, Response
from segue.testing.peers import Malformed, Record, forms
from segue.testing.telegram.control import Control
from segue.testing.telegram.errors import Refuse, mistake
from segue.testing.telegram.methods import LARGEST_FILE, METHODS, Call, Download
from segue.testing.telegram.snapshot import Settings, Shown
from segue.testing.telegram.state import State

DOWNLOAD = "download"
"""The name of a file download, where a method name is expected."""
_TOKEN = re.compile(r"[0-9]{6,20}:[A-Za-z0-9_-]{30,64}")
_TARGET = re.compile(r"(/file)?/bot([^/]*)/([^?]*)(?:\?.*)?")
_OTHER_PARAMETERS = 1024 * 1024
"""The maximum size of a request without its file."""


class Server(peers.Server[Settings, State, Call]):
    control = Control
    polls = "getUpdates"

    def fresh(self, settings: Settings) -> State:
        return State(settings, int(self.token.partition(":")[0]), self.pulse)

    def shown(self, chat: int | None) -> Shown:
        return self.state.snapshot(chat)

    def parse(self, request: Request, record: Record) -> tuple[Call, str | None]:
        file, name = self._authorized(request)
        if file:
            record.method, record.parameters = DOWNLOAD, {"file_path": name}
            return Download(file_path=name), None
        record.method = name
        if (kind := METHODS.get(name.lower())) is None:
            raise Refuse(404, "Not Found", mistake=True)
        record.method = kind.__name__[0].lower() + kind.__name__[1:]
        if record.method in self.state.settings.missing:
            raise Refuse(404, "Not Found")
        if len(request.body) > LARGEST_FILE + _OTHER_PARAMETERS:
            raise Refuse(413, "Request Entity Too Large")
        form = forms.read(request)
        record.parameters = form.values
        call = _call(kind, form)
        files = {
            name: {"name": it.name, "media_type": it.media_type, "size": len(it.content)}
            for name, it in form.files.items()
        }
        given = {name: msgspec.to_builtins(getattr(call, name)) for name in form.values}
        record.parameters = {**given, **files}
        chat = getattr(call, "chat_id", None)
        return call, None if chat is None else str(chat)

    def _authorized(self, request: Request) -> tuple[bool, str]:
        """Check the token. Return whether this is a file request, and the method or file path."""
        match = _TARGET.fullmatch(request.target)
        if match is None:
            raise Refuse(404, "Not Found", mistake=True)
        if _TOKEN.fullmatch(token := urllib.parse.unquote(match[2])) is None:
            raise Refuse(404, "Not Found")
        if token != self.token or self.state.settings.revoked:
            raise Refuse(401, "Unauthorized")
        if request.method not in ("GET", "POST"):
            raise mistake(f"calls are got or posted, not {request.method}")
        return match[1] is not None, urllib.parse.unquote(match[3])

    def carry_out(self, call: Call) -> object:
        return call.answer(self.state)

    def encode(self, result: object) -> Response:
        if isinstance(result, bytes):
            return Response(headers={"Content-Type": "application/octet-stream"}, body=result)
        return Response(body=msgspec.json.encode({"ok": True, "result": result}))

    def malformed(self, reason: str) -> Refuse:
        return mistake(reason)


def _call(kind: type[Call], form: forms.Form) -> Call:
    """Return the call with these parameters. In a form, values other than text are JSON."""
    fields = {it.name: it.type for it in msgspec.structs.fields(kind)}
    values: dict[str, object] = {}
    for name, value in {**form.values, **form.files}.items():
        if name not in fields:
            raise Malformed(f"{kind.__name__} has no parameter {name!r}")
        values[name] = forms.value(value, fields[name]) if form.as_text else value
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise Malformed(f"{kind.__name__}: {error}") from error
