"""Error responses of the Graph API, and the errors of statuses.

developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes: the codes,
each with its HTTP status. An error comes as the response to a call, or later in a status, or both.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from segue.testing import peers
from segue.testing.http import Response
from segue.testing.peers import Trouble
from segue.testing.peers.errors import bad_gateway

CODES = msgspec.json.decode(
    Path(__file__).with_suffix(".json").read_bytes(), type=dict[int, tuple[int, str]]
)


class Refuse(peers.Refuse):
    """Raised by the handler of a call: it is answered with this error."""

    def __init__(
        self, code: int, details: str = "", *, mistake: bool = False, subcode: int | None = None
    ) -> None:
        status, title = CODES[code]
        data = {"messaging_product": "whatsapp", "details": details}
        error: dict[str, object] = {
            "message": f"(#{code}) {title}",
            "type": "OAuthException",
            "code": code,
            "fbtrace_id": "AbCdEfGhIjKlMnOpQrStUvWxYz",
        }
        error |= {"error_data": data} if details else {}
        error |= {"error_subcode": subcode} if subcode is not None else {}
        body = msgspec.json.encode({"error": error})
        super().__init__(
            f"{code}: {title}: {details}", Response(status, body=body), mistake=mistake
        )


def check(fine: object, code: int, details: str = "") -> None:
    """Refuse the call with this error, unless all is fine."""
    if not fine:
        raise Refuse(code, details)


def mistake(details: str) -> Refuse:
    """A call that no bot should make, such as one with a field that does not exist."""
    return Refuse(100, details, mistake=True)


def missing(name: str, method: str) -> peers.Refuse:
    """The error of an object that does not exist, or is not the app's."""
    text = f"Unsupported {method.lower()} request. Object with ID '{name}' does not exist"
    error = {"message": text, "type": "GraphMethodException", "code": 100, "error_subcode": 33}
    return peers.Refuse(text, Response(400, body=msgspec.json.encode({"error": error})))


def injected(trouble: Trouble, seconds: float) -> peers.Refuse:
    """Return the error for a fault that a test ordered. WhatsApp never says how long to wait."""
    if trouble is Trouble.BUSY:
        return Refuse(130429, "Cloud API message throughput has been reached.")
    return Refuse(131005, "Permission denied") if trouble is Trouble.FORBIDDEN else bad_gateway()
