"""The parameters of an HTTP request: in its query, as a form, as JSON or as multipart/form-data."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from segue.testing.http import Request
from segue.testing.peers import Record, signature
from segue.testing.peers.faults import Malformed
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


def arguments(method: Callable[..., object], form: Form) -> dict[str, Any]:
    """The arguments for a method. In a form, values other than text are JSON. Raises Malformed."""
    kinds = {it.name: it.type for it in msgspec.structs.fields(signature.parameters(method))}
    values: dict[str, object] = {}
    for name, value in {**form.values, **form.files}.items():
        if name not in kinds:
            raise Malformed(f"{method.__name__} has no parameter {name!r}")
        values[name] = _value(value, kinds[name]) if form.as_text else value
    try:
        return signature.arguments(method, values)
    except msgspec.ValidationError as error:
        raise Malformed(f"{method.__name__}: {error}") from error


def recorded(method: Callable[..., object], request: Request, record: Record) -> dict[str, Any]:
    """The arguments for a method, which are noted in the record. Raises Malformed."""
    form = read(request)
    record.parameters = form.values
    found = arguments(method, form)
    record.parameters = given(form, found)
    return found


def given(form: Form, arguments: Mapping[str, object]) -> Mapping[str, object]:
    """The arguments that the form gives, to be recorded, with the size of each file."""
    files = {
        name: {"name": it.name, "media_type": it.media_type, "size": len(it.content)}
        for name, it in form.files.items()
    }
    return {name: msgspec.to_builtins(arguments[name]) for name in form.values} | files


def _value(value: object, kind: object) -> object:
    if not isinstance(value, str) or kind in (str, str | None):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value  # text where other types are also allowed


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
    first, *parts = (b"\r\n" + request.body).split(f"\r\n--{boundary[1]}".encode())
    if first or len(parts) < 2:
        raise Malformed("the multipart form has no parts")
    values: dict[str, object] = {}
    files: dict[str, Upload] = {}
    for part in parts[:-1]:
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
