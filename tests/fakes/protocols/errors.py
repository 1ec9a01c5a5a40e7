"""Error responses of platforms: pages of a proxy, bare statuses, and errors with numbers."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import msgspec

from segue.testing.http import Response
from segue.testing.peers import Refuse
from tests.fakes.protocols.templates import Json


def page(reason: str, status: int, **headers: str) -> Refuse:
    """An answer for people, which is not JSON."""
    body = f"<html>\r\n<head><title>{status} {reason}</title></head>\r\n</html>\r\n"
    return Refuse(reason, Response(status, {"Content-Type": "text/html", **headers}, body.encode()))


def bare(status: int, *, mistake: bool = True) -> Refuse:
    """An answer with nothing but a status."""
    return Refuse(f"HTTP {status}", Response(status, {"Content-Type": ""}), mistake=mistake)


def bad_gateway() -> Refuse:
    """The answer of the proxy in front of a platform's servers."""
    return page("Bad Gateway", 502)


class Codes:
    """Errors with numbers. A JSON file has the status and text of each. Their format is Discord's;
    a fake of another platform has its own `body`."""

    def __init__(self, path: Path, invalid: int) -> None:
        """`invalid` is the code for a wrong field."""
        self._invalid = invalid
        self._all = msgspec.json.decode(path.read_bytes(), type=dict[int, tuple[int, str]])

    def __call__(
        self, code: int, *, mistake: bool = False, headers: Json | None = None, **more: Any
    ) -> Refuse:
        """The error with that code. One without a code of its own has that of its status."""
        status, text = self._all[code]
        body = msgspec.json.encode(self.body(code, status, **more))
        reason = f"{code}: {text} {more.get('errors') or more.get('details', '')}"
        return Refuse(reason, Response(status, headers or {}, body), mistake=mistake)

    def body(self, code: int, status: int, **more: Any) -> Json:
        return {"message": self.text(code), "code": code if code > status else 0, **more}

    def text(self, code: int) -> str:
        return self._all[code][1]

    def check(self, fine: object, code: int, **more: Any) -> None:
        """Refuse the call with that error, unless all is fine."""
        if not fine:
            raise self(code, **more)

    def invalid(
        self, reason: str, kind: str = "BASE_TYPE_INVALID", *, mistake: bool = True
    ) -> Refuse:
        """The body or a parameter is not as documented. The error is in a tree of field names."""
        message, _, fields = reason.partition(" - at `$")
        tree: Json = {"_errors": [{"code": kind, "message": message}]}
        for name in reversed(re.findall(r"\w+", fields)):
            tree = {name: tree}
        return self(self._invalid, mistake=mistake, errors=tree)

    def too_often(self, seconds: float, *, everywhere: bool = False) -> Refuse:
        """The limit of a bucket, or the global one."""
        headers = {"Retry-After": str(math.ceil(seconds))}
        headers["X-RateLimit-Scope"] = "global" if everywhere else "user"
        headers |= {"X-RateLimit-Global": "true"} if everywhere else {}
        scope: Json = {"global": everywhere}
        return self(429, headers=headers, retry_after=round(seconds, 3), **scope)
