"""REST calls: routes and bodies declared in a JSON file, other parameters by the handler.

    {"shapes": {"NewMessage": {"text": "text 1-2000"}},
     "calls": {"send": {"at": ["POST /chats/{chat}/messages"], "body": "NewMessage"}}}

    def send(self, chat: int, body: Json, files: Files = NONE, wait: bool = True) -> Json:

A parameter comes from the path, from the query, or as `body` and `files` from the body. `shapes`
explains how bodies are declared.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import urllib.parse
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeAlias

import msgspec
from msgspec import Struct

from segue.testing.http import Request, Response
from segue.testing.peers import signature
from segue.testing.peers.faults import Malformed, Refuse
from segue.testing.peers.server import AnyState, Effect, Record, Server, Settings
from segue.testing.peers.snapshot import Upload
from tests.fakes.protocols import forms, shapes
from tests.fakes.protocols.errors import Codes

Files: TypeAlias = Mapping[str, Upload]
NONE: Files = {}


class Call(Struct, frozen=True, forbid_unknown_fields=True):
    at: tuple[str, ...]
    body: str = ""
    """The shape of the body, if there is one."""
    is_open: bool = False
    """Whether it can be called without the bot's token."""
    bucket: str = ""
    """The rate limit that it shares with other calls, in one chat, if there is one."""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    shapes: dict[str, Any]
    calls: dict[str, Call]


class Routes:
    """The calls by HTTP method and path. The first that matches is taken."""

    def __init__(self, path: Path, body: str, ignored: tuple[str, ...] = ()) -> None:
        """A form with files has the JSON of the body in its field `body`. If that is empty, the
        fields are the body. `ignored` are parameters of queries that have no effect here."""
        read = msgspec.json.decode(path.read_bytes(), type=_File)
        self._shapes = shapes.types(read.shapes)
        self._body = body
        self._ignored = ignored
        self._all: list[tuple[re.Pattern[str], str, Call]] = []
        for name, call in read.calls.items():
            for at in call.at:
                pattern = re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", at))
                self._all.append((pattern, name, call))

    def find(self, method: str, path: str) -> tuple[str, Call, dict[str, str]] | None:
        """The name of a call, the call and the values in the path, or None."""
        for pattern, name, call in self._all:
            if match := pattern.fullmatch(f"{method} {path}"):
                found = match.groupdict().items()
                return name, call, {key: urllib.parse.unquote(it) for key, it in found}
        return None

    def arguments(
        self, call: Call, handler: Callable[..., object], path: Mapping[str, str], request: Request
    ) -> tuple[dict[str, Any], Mapping[str, object]]:
        """The arguments for a handler, and how to record them. Raises Malformed."""
        kinds = {it.name: it.type for it in msgspec.structs.fields(signature.parameters(handler))}
        pairs = urllib.parse.parse_qsl(urllib.parse.urlsplit(request.target).query)
        query = {name: value for name, value in pairs if name not in self._ignored}
        body, files = _body(request, self._body)
        sizes = {name: {"name": it.name, "size": len(it.content)} for name, it in files.items()}
        record = {**path, **query}
        if body is not None:
            record["body"] = body
        record |= sizes
        given = set(query)
        if files:
            given.add("files")
        if body:
            given.add("body")
        for name in given - kinds.keys():
            raise Malformed(f"{handler.__name__} has no parameter {name!r}")
        try:
            values: dict[str, Any] = {
                name: msgspec.convert(value, kinds[name], strict=False)
                for name, value in {**path, **query}.items()
                if name in kinds
            }
        except msgspec.ValidationError as error:
            raise Malformed(str(error)) from error
        if call.body:
            sent: Any = {} if body is None else body
            wrong = shapes.flaw(sent, self._shapes[call.body])
            if wrong:
                raise Malformed(wrong)
            values["body"] = sent
        if files:
            values["files"] = files
        return values, record


class RestMethods(Generic[AnyState]):
    """The handlers, with the names of the calls, which return the result or raise Refuse. There is
    one object for each call."""

    chat: int | str | None = None
    """The chat of the call, if it has one."""

    def __init__(self, state: AnyState, path: Mapping[str, str]) -> None:
        """`path` has the values in the path. Raises Refuse."""
        self._state = state


class RestServer(Server[Settings, AnyState]):
    """Serves the calls of `routes`. A call without a result is answered by 204."""

    routes: Routes
    methods: type[RestMethods[AnyState]]
    errors: Codes
    headers: Mapping[str, str] = {}
    """The headers of all responses."""
    unknown: int = 404
    """The code of the error for a call that does not exist."""

    # What each fake implements

    @abstractmethod
    def check(self, request: Request, *, is_open: bool) -> None:
        """Raise Refuse if the bot may not call now, as without its token."""

    # What they share

    def window(self) -> float:
        """The seconds of a window for the calls of a bucket; 0 for no limit."""
        return self.state.windows.limit * self.state.settings.chat_seconds

    async def _answer_bot(self, request: Request) -> Response:
        response = await super()._answer_bot(request)
        bucket = self._bucket(request)
        limits = self.state.windows.headers(*bucket) if bucket else {}
        headers = {**self.headers, **limits, **response.headers}
        return dataclasses.replace(response, headers=headers)

    def malformed(self, reason: str) -> Refuse:
        return self.errors.invalid(reason)

    def _bucket(self, request: Request) -> tuple[str, str] | None:
        """The name of the bucket of a call, and the chat."""
        path = urllib.parse.urlsplit(request.target).path
        if not self.window() or (found := self.routes.find(request.method, path)) is None:
            return None
        _, call, values = found
        return (call.bucket, next(iter(values.values()))) if call.bucket else None

    async def _respond(self, state: AnyState, request: Request, record: Record) -> Response:
        response = await super()._respond(state, request, record)
        if response.body != b"null":
            return response
        kind = {"Content-Type": "text/html; charset=utf-8"}
        return dataclasses.replace(response, status=204, headers=kind, body=b"")

    def parse(self, request: Request, record: Record) -> tuple[Effect, str | None]:
        path = urllib.parse.urlsplit(request.target).path
        found = self.routes.find(request.method, path)
        record.method = f"{request.method} {path}" if found is None else found[0]
        self.check(request, is_open=found is not None and found[1].is_open)
        bucket = self._bucket(request)
        if bucket and (wait := self.state.windows.wait(*bucket, self.window())):
            raise self.errors.too_often(wait)
        if found is None:
            raise self.errors(self.unknown, mistake=True)
        name, call, values = found
        methods = self.methods(self.state, values)
        handler = getattr(self.methods, name)
        arguments, record.parameters = self.routes.arguments(call, handler, values, request)
        effect = functools.partial(handler, methods, **arguments)
        chat = None if methods.chat is None else str(methods.chat)
        return effect, chat


def _body(request: Request, field: str) -> tuple[Any, Files]:
    kind = request.headers.get("content-type", "")
    text = request.body
    files = NONE
    if kind.startswith("multipart/form-data"):
        form = forms.read(request)
        if not field:
            return dict(form.values), form.files
        text = str(form.values.get(field, "{}")).encode()
        files = form.files
    elif text and kind != "application/json":
        raise Malformed(f"the content type {kind} is not one of those that calls have")
    if not text:
        return None, files
    try:
        return msgspec.json.decode(text), files
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Malformed(f"the body is not JSON: {error}") from error
