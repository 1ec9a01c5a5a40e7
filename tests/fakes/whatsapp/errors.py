"""Error responses of the Graph API. `errors.json` has the status and the text of each code.

developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes: the codes,
each with its HTTP status. An error comes as the response to a call, or later in a status, or both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from segue.testing.http import Response
from segue.testing.peers import Refuse, Trouble
from segue.testing.peers.errors import Codes, bad_gateway
from tests.fakes.whatsapp.snapshot import Json, fill


class GraphCodes(Codes):
    def body(self, code: int, status: int, **more: Any) -> Json:
        data = {"messaging_product": "whatsapp", **more} if more else None
        return fill("refusal", code=code, title=self.text(code), data=data)

    def invalid(self, reason: str, kind: str = "", *, mistake: bool = True) -> Refuse:
        return self(100, details=reason, mistake=mistake)


refuse = GraphCodes(Path(__file__).with_suffix(".json"), invalid=100)
check = refuse.check


def missing(name: str) -> Refuse:
    """The error of an object that does not exist, or is not the app's."""
    body = msgspec.json.encode(fill("missing", name=name))
    return Refuse(f"there is no {name}", Response(400, body=body))


def injected(trouble: Trouble, seconds: float) -> Refuse:
    """Return the error for a fault that a test ordered. WhatsApp never says how long to wait."""
    if trouble is Trouble.BUSY:
        return refuse(130429, details="Cloud API message throughput has been reached.")
    return refuse(131005) if trouble is Trouble.FORBIDDEN else bad_gateway()
