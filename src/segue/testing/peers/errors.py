"""The exceptions that end a call early."""

from __future__ import annotations

from segue.testing.http import Response


class Refuse(Exception):
    """Refuses a call with this response, or an action of the test with this reason.

    A `mistake` is a call that no bot should make: the fake also records it as an error.
    """

    def __init__(self, reason: str, response: Response, *, mistake: bool = False) -> None:
        super().__init__(reason)
        self.response = response
        self.mistake = mistake


def bad_gateway() -> Refuse:
    """The answer of the proxy in front of a platform's servers."""
    body = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n</html>\r\n"
    return Refuse("Bad Gateway", Response(502, {"Content-Type": "text/html"}, body))


class Malformed(Exception):
    """The request cannot be parsed. The fake refuses it in its own format."""


class Garble(Exception):
    """The answer must be invalid."""
