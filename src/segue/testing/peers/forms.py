"""The parameters of an HTTP request: in its query, as a form, as JSON or as multipart/form-data."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from segue.testing.http import Request
from segue.testing.peers.errors import Malformed
from segue.testing.peers.snapshot import Upload

_NAME = re.compile(r'\b(name|filename)="([^"]*)"')
_TYPE = re.compile(r"content-type:\s*([^\s;]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Form:
    values: Mapping[str, object]
    files: Mapping[str, Upload] = field(default_factory=dict[str, Upload])
    as_text: bool = True
    """Values other than text are JSON in a string."""


def read(request: Request) -> Form:
    """Return the parameters of a request. Raises Malformed."""
    query = _pairs(urllib.parse.urlsplit(request.target).query)
    kind, _, _ = request.headers.get("content-type", "").partition(";")
    match kind.strip().lower():
        case "application/json":
            return Form({**query, **_object(request.body)}, as_text=False)
        case "multipart/form-data":
            form = _multipart(request)
            return Form({**query, **form.values}, form.files)
        case "application/x-www-form-urlencoded" | "":
            return Form({**query, **_pairs(_text(request.body))})
        case other:
            raise Malformed(f"the content type {other} is not one of those that calls have")


def value(text: object, kind: object) -> object:
    """Decode a form's value of that type. Text where other types are also allowed stays text."""
    if not isinstance(text, str) or kind in (str, str | None):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


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


def _multipart(request: Request) -> Form:
    boundary = re.search(r'boundary="?([^";]+)', request.headers["content-type"])
    if boundary is None:
        raise Malformed("the multipart form has no boundary")
    first, *parts, _ = (b"\r\n" + request.body).split(f"\r\n--{boundary[1]}".encode())
    if first or not parts:
        raise Malformed("the multipart form has no parts")
    values: dict[str, object] = {}
    files: dict[str, Upload] = {}
    for part in parts:
        head, _, content = part.partition(b"\r\n\r\n")
        names = dict(_NAME.findall(_text(head)))
        name = names.get("name")
        if name is None or name in values or name in files:
            raise Malformed("a part of the form has no name, or that of another")
        if "filename" in names:
            kind = _TYPE.search(_text(head))
            media_type = "application/octet-stream" if kind is None else kind[1]
            files[name] = Upload(name=names["filename"], media_type=media_type, content=content)
        else:
            values[name] = _text(content)
    return Form(values, files)
