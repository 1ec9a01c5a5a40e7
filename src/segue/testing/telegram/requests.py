"""Parse an HTTP request into a call: core.telegram.org/bots/api#making-requests and #sending-files.

Parameters come in the query, as a form, as JSON or as multipart/form-data. In a form, values other
than text are JSON.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from segue.testing.http import Request
from segue.testing.telegram.errors import Malformed, Refuse
from segue.testing.telegram.wire import Call

LARGEST = 50 * 1024 * 1024
"""The maximum size of a file that a bot sends: #sending-files."""
_AROUND = 1024 * 1024
"""The maximum size of the other parameters."""
_ATTACHED = "attach://"
_NAME = re.compile(r'\b(name|filename)="([^"]*)"')
_KIND = re.compile(r"content-type:\s*([^\s;]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sent:
    """A file uploaded with a call."""

    name: str
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Parameters:
    values: Mapping[str, object]
    files: Mapping[str, Sent] = field(default_factory=dict[str, Sent])
    as_text: bool = True
    """Values other than text are JSON in a string."""


def parameters(request: Request) -> Parameters:
    """Return the parameters of a request. Raises Malformed, or Refuse if it is too large."""
    if len(request.body) > LARGEST + _AROUND:
        raise Refuse(413, "Request Entity Too Large")
    query = _pairs(urllib.parse.urlsplit(request.target).query)
    kind, _, _ = request.headers.get("content-type", "").partition(";")
    match kind.strip().lower():
        case "application/json":
            given = _object(request.body)
            return Parameters({**query, **given}, as_text=False)
        case "multipart/form-data":
            form = _multipart(request)
            return Parameters({**query, **form.values}, form.files)
        case "application/x-www-form-urlencoded" | "":
            return Parameters({**query, **_pairs(_text(request.body))})
        case other:
            raise Malformed(f"the content type {other} is not one of those that calls have")


def call(kind: type[Call], given: Parameters) -> Call:
    """Return the call with these parameters. Raises Malformed."""
    fields = {it.name: it.type for it in msgspec.structs.fields(kind)}
    values: dict[str, object] = {}
    for name, value in given.values.items():
        if name not in fields:
            raise Malformed(f"{kind.__name__} has no parameter {name!r}")
        values[name] = _value(value, fields[name]) if given.as_text else value
    for name in given.files:
        if name in fields:
            values[name] = _ATTACHED + name
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise Malformed(f"{kind.__name__}: {error}") from error


def attached(value: str, files: Mapping[str, Sent]) -> Sent | None:
    """The uploaded file that a parameter names, or None if it names no upload."""
    if not value.startswith(_ATTACHED):
        return None
    name = value.removeprefix(_ATTACHED)
    if name not in files:
        raise Malformed(f"no file {name!r} came with the call")
    return files[name]


def _value(value: object, kind: object) -> object:
    """Decode a form value, unless its type is text."""
    if not isinstance(value, str) or kind in (str, str | None):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value  # text where a number is also allowed, such as @channel


def _pairs(text: str) -> dict[str, object]:
    pairs = urllib.parse.parse_qsl(text, keep_blank_values=True, errors="strict")
    values: dict[str, object] = dict(pairs)
    if len(values) < len(pairs):
        raise Malformed("a parameter is given twice")
    return values


def _object(body: bytes) -> dict[str, object]:
    try:
        return msgspec.json.decode(body or b"{}", type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Malformed(f"the call is not a JSON object: {error}") from error


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Malformed("strings must be encoded in UTF-8") from error


def _multipart(request: Request) -> Parameters:
    boundary = re.search(r'boundary="?([^";]+)', request.headers["content-type"])
    if boundary is None:
        raise Malformed("the multipart form has no boundary")
    first, *parts, _ = (b"\r\n" + request.body).split(f"\r\n--{boundary[1]}".encode())
    if first or not parts:
        raise Malformed("the multipart form has no parts")
    values: dict[str, object] = {}
    files: dict[str, Sent] = {}
    for part in parts:
        head, _, content = part.partition(b"\r\n\r\n")
        names = dict(_NAME.findall(_text(head)))
        name = names.get("name")
        if name is None or name in values or name in files:
            raise Malformed("a part of the form has no name, or that of another")
        if "filename" in names:
            kind = _KIND.search(_text(head))
            media_type = "application/octet-stream" if kind is None else kind[1]
            files[name] = Sent(names["filename"], media_type, content)
        else:
            values[name] = _text(content)
    return Parameters(values, files)
