"""The platform's error responses."""

from __future__ import annotations

import msgspec

from segue.testing import peers
from segue.testing.http import Response
from segue.testing.peers import Trouble
from segue.testing.platform.wire import Refusal


class Refuse(peers.Refuse):
    """Raised by the handler of a call: it is answered with this status and refusal."""

    def __init__(
        self, status: int, code: str, reason: str, *, retry_after: float | None = None
    ) -> None:
        headers = {} if retry_after is None else {"Retry-After": f"{retry_after:.3f}"}
        refusal = Refusal(code=code, reason=reason, retry_after=retry_after)
        response = Response(status, headers, msgspec.json.encode(refusal))
        super().__init__(f"{code}: {reason}", response)


def malformed(reason: object) -> Refuse:
    return Refuse(400, "malformed", str(reason))


def missing(what: str, name: str) -> Refuse:
    return Refuse(404, f"{what}_not_found", f"There is no {what} {name!r}.")


def too_often(seconds: float) -> Refuse:
    return Refuse(
        429, "slow_down", f"Too many calls; come back in {seconds:.3f} s.", retry_after=seconds
    )


def injected(trouble: Trouble, seconds: float) -> Refuse:
    """Return the error for a fault that a test ordered."""
    if trouble is Trouble.BUSY:
        return too_often(seconds)
    if trouble is Trouble.FORBIDDEN:
        return Refuse(403, "forbidden", "The bot may not do that.")
    return Refuse(500, "internal", "Something went wrong.")
