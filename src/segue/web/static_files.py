"""The files of the page, as they are served.

The page refers to its files under a path with a hash of all of them. Browsers keep these files, and
load none of an older version. Files are compressed once, when they are first asked for.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Collection, Mapping
from http import HTTPStatus
from importlib import resources
from pathlib import PurePath

from starlette.datastructures import Headers
from starlette.responses import Response

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
_REFERENCE = re.compile(r'(?P<attribute> (?:href|src)=")/(?P<name>[\w.-]+)(?=")')
_MODULE = '<script type="module"'
_CLASSIC = re.compile(r'<script src="/([\w.-]+)">')
"""A script of the page that is no module."""
_PAGE = "index.html"
_GZIP = 31
"""For zlib: the format of gzip."""
_ASK_EACH_TIME = "no-cache"
_IMMUTABLE = "private, max-age=31536000, immutable"


class StaticFile:
    def __init__(self, kind: str, body: bytes, *, is_immutable: bool = False) -> None:
        """`is_immutable`: the path changes with the content."""
        self.kind = kind
        self.body = body
        self._caching = _IMMUTABLE if is_immutable else _ASK_EACH_TIME
        self._digest = _digest(body)
        self._compressed = b""

    def answer(self, asked: Headers, headers: Mapping[str, str]) -> Response:
        """Return the response to a request with the headers `asked`, or that the browser has the
        file. `headers` are added."""
        is_compressed = _accepts_gzip(asked)
        etag = f'"{self._digest}-gzip"' if is_compressed else f'"{self._digest}"'
        found = {
            **headers,
            "Cache-Control": self._caching,
            "ETag": etag,
            "Vary": "Accept-Encoding",
        }
        if etag in _tags(asked):
            return Response(status_code=HTTPStatus.NOT_MODIFIED.value, headers=found)
        found["Content-Type"] = self.kind
        if not is_compressed:
            return Response(self.body, headers=found)
        found["Content-Encoding"] = "gzip"
        return Response(self._gzip(), headers=found)

    def _gzip(self) -> bytes:
        if not self._compressed:
            compressor = zlib.compressobj(wbits=_GZIP)
            self._compressed = compressor.compress(self.body) + compressor.flush()
        return self._compressed


def load() -> dict[str, StaticFile]:
    """All files by path."""
    bodies: dict[str, bytes] = {}
    for file in (resources.files("segue.web") / "assets").iterdir():
        if PurePath(file.name).suffix in _TYPES:
            bodies[file.name] = file.read_bytes()
    names = sorted(bodies)
    version = _digest(b"".join(name.encode() + b"\0" + bodies[name] for name in names))
    folder = f"/v/{version}"
    page = _with_versions(bodies[_PAGE].decode(), names, folder)
    found: dict[str, StaticFile] = {}
    for name in names:
        kind = _TYPES[PurePath(name).suffix]
        if name == _PAGE:
            found["/"] = found[f"/{name}"] = StaticFile(kind, page.encode())
            continue
        found[f"/{name}"] = StaticFile(kind, bodies[name])
        found[f"{folder}/{name}"] = StaticFile(kind, bodies[name], is_immutable=True)
    return found


def _with_versions(page: str, names: Collection[str], folder: str) -> str:
    """The page with references to the files in `folder`. All modules are asked for at once: a
    browser would find them one after another, as they import each other."""
    classic = set(_CLASSIC.findall(page))
    modules = [name for name in names if name.endswith(".js") and name not in classic]
    preloads = "".join(f'<link rel="modulepreload" href="/{name}">\n  ' for name in modules)
    page = page.replace(_MODULE, f"{preloads}{_MODULE}", 1)
    return _REFERENCE.sub(rf"\g<attribute>{folder}/\g<name>", page)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _accepts_gzip(asked: Headers) -> bool:
    """Whether the browser names gzip. With a quality it might mean that it does not want it."""
    codings = ",".join(asked.getlist("Accept-Encoding")).split(",")
    return "gzip" in (coding.strip() for coding in codings)


def _tags(asked: Headers) -> set[str]:
    """The versions that the browser has."""
    tags = ",".join(asked.getlist("If-None-Match")).split(",")
    return {tag.strip().removeprefix("W/") for tag in tags}
