"""What every response has, and which connections of strangers stay open.

Requests and responses are those of starlette. Refusals reveal nothing but their status, and close
the connection.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus

from starlette.responses import Response

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    " manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
CLOSE = {"Connection": "close"}


def safe_headers(host: str = "") -> dict[str, str]:
    """The headers of every response. `host` is the name under which the page may open its
    WebSocket; empty for responses that are not the page."""
    sources = f"'self' ws://{host}" if host else "'none'"
    return {
        "Date": formatdate(usegmt=True),
        "Content-Security-Policy": f"{_POLICY}; connect-src {sources}",
        **_SAFE,
    }


def refusal(status: HTTPStatus, headers: Mapping[str, str] | None = None) -> Response:
    """A response that reveals nothing but the status, and closes the connection."""
    more = {"Content-Type": "text/plain", **CLOSE, **(headers or {})}
    return Response(f"{status.phrase}\n", status.value, {**safe_headers(), **more})


class Refused(Exception):
    """The request is answered with only this status."""

    def __init__(self, status: HTTPStatus, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status.phrase)
        self.status = status
        self.headers = headers or {}


# Strangers


MOST_STRANGERS = 64
MOST_SENDERS = 16
_MOST_REMEMBERED = 64
"""Clients that are remembered because a browser has proven itself from there."""


_MOST_ACCEPTED = 4
"""How many times the limit there may be before anything is read from them."""


class Progress(enum.IntEnum):
    """How far a connection is. Of one client, half a request makes way first, then the oldest."""

    HALF = 0
    """A part of a request's head has arrived."""
    READ = 1
    """Everything that has arrived was read, and it is not half a request."""
    NEW = 2
    """Nothing was read from it yet: its request may have arrived already."""


@dataclass(slots=True)
class _Stranger:
    client: str
    send_away: Callable[[], None]
    progress: Progress


class Strangers:
    """Connections that are not authenticated. Their number is limited: beyond it, the client with
    the most connections loses one, first one that has sent half a request.

    A client that is known has the same number of places for itself. It makes way for none but its
    own connections.
    """

    def __init__(
        self, most: int = MOST_STRANGERS, is_known: Callable[[str], bool] = lambda client: False
    ) -> None:
        """`is_known` returns whether a client need not make way for others, in addition to those
        that are remembered."""
        self._most = most
        self._is_known_otherwise = is_known
        self._strangers: dict[Hashable, _Stranger] = {}
        """By connection, oldest first."""
        self._remembered: dict[str, None] = {}
        """Clients in the order in which they were remembered."""

    def __len__(self) -> int:
        return len(self._strangers)

    def add(
        self,
        connection: Hashable,
        client: str,
        send_away: Callable[[], None],
        progress: Progress = Progress.READ,
    ) -> None:
        """`client` is an address, with an account if that is known. `send_away` closes the
        connection, saying that there are too many. A connection that is added again keeps its
        age."""
        self._strangers[connection] = _Stranger(client, send_away, progress)
        self._make_room(client)

    def advance(self, connection: Hashable, progress: Progress) -> None:
        """The connection is as far as that. Without effect if it was removed."""
        stranger = self._strangers.get(connection)
        if stranger is not None:
            stranger.progress = progress
            self._make_room(stranger.client)

    def remove(self, connection: Hashable) -> None:
        """Remove a connection that was closed or authenticated."""
        self._strangers.pop(connection, None)

    def remember(self, client: str) -> None:
        """The client is known from now on: a browser has proven itself from there."""
        self._remembered.pop(client, None)
        self._remembered[client] = None
        if len(self._remembered) > _MOST_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]

    def _is_known(self, client: str) -> bool:
        return client in self._remembered or self._is_known_otherwise(client)

    def _make_room(self, client: str) -> None:
        """Close a connection if there are too many in the places that `client` may take."""
        if len(self) <= self._most:
            return
        if self._is_known(client):
            rivals = {c: s for c, s in self._strangers.items() if s.client == client}
        else:
            rivals = {c: s for c, s in self._strangers.items() if not self._is_known(s.client)}
        # Connections are accepted before anything is read from them, many at a time.
        found = {c: s for c, s in rivals.items() if s.progress is not Progress.NEW}
        if len(found) <= self._most:
            if len(rivals) <= _MOST_ACCEPTED * self._most:
                return
            found = rivals
        clients = Counter(stranger.client for stranger in rivals.values())
        # `min` returns the first, which is the oldest.
        victim = min(found, key=lambda c: (-clients[found[c].client], found[c].progress))
        self._strangers.pop(victim).send_away()
