"""The exceptions that end a call early."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from segue.testing.http import Response
from segue.testing.peers.templates import Json


class Refuse(Exception):
    """Refuses a call with this response, or an action of the test with this reason.

    A `mistake` is a call that no bot should make: the fake also records it as an error.
    """

    def __init__(self, reason: str, response: Response, *, mistake: bool = False) -> None:
        super().__init__(reason)
        self.response = response
        self.mistake = mistake


def page(reason: str, status: int, **headers: str) -> Refuse:
    """An answer for people, which is not JSON."""
    body = f"<html>\r\n<head><title>{status} {reason}</title></head>\r\n</html>\r\n"
    return Refuse(reason, Response(status, {"Content-Type": "text/html", **headers}, body.encode()))


def bad_gateway() -> Refuse:
    """The answer of the proxy in front of a platform's servers."""
    return page("Bad Gateway", 502)


class Codes:
    """Errors with numbers. A JSON file has the status and the text of each."""

    def __init__(self, path: Path) -> None:
        self._all = msgspec.json.decode(path.read_bytes(), type=dict[int, tuple[int, str]])

    def __call__(
        self, code: int, *, mistake: bool = False, headers: Json | None = None, **more: Any
    ) -> Refuse:
        """The error with that code. One without a code of its own has that of its status."""
        status, text = self._all[code]
        body = {"message": text, "code": code if code > status else 0, **more}
        response = Response(status, headers or {}, msgspec.json.encode(body))
        return Refuse(f"{code}: {text} {more.get('errors', '')}", response, mistake=mistake)

    def check(self, fine: object, code: int) -> None:
        """Refuse the call with that error, unless all is fine."""
        if not fine:
            raise self(code)


class Malformed(Exception):
    """The request cannot be parsed. The fake refuses it in its own format."""


class Garble(Exception):
    """The answer must be invalid."""
