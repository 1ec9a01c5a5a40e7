"""HTTP/1.1 as the server speaks it: one request per connection, which is then closed or becomes a
WebSocket.

h11 parses the request, so that bodies and their limits are read by one tested parser. Requests and
responses are the values of the `websockets` library, to which an upgraded connection is passed on.
Every response has the same security headers. Connections of strangers are limited in number, size
and time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import NamedTuple, cast

import h11
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from segue.system import accounts

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    " manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE = {
    "Connection": "close",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def response(
    status: HTTPStatus, host: str, body: bytes = b"", kind: str = "text/plain", **more: str
) -> Response:
    """`host` is the name under which the page may open its WebSocket; empty for responses that are
    not the page. `more` headers have one-word names."""
    sources = f"'self' ws://{host}" if host else "'none'"
    headers = Headers(
        {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": f"{_POLICY}; connect-src {sources}",
            **_SAFE,
            **more,
        }
    )
    return Response(status.value, status.phrase, headers, body)


def refusal(status: HTTPStatus, **more: str) -> Response:
    """A response that reveals nothing but the status."""
    return response(status, "", f"{status.phrase}\n".encode(), **more)


class Refused(Exception):
    """The request is answered with only this status."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


HEAD_LIMIT = 16 * 1024
"""Maximum bytes of a request line and its headers."""
OPENING = 10.0
"""Seconds for a request's head to arrive, and again for its response to be read."""
SENDING = 10.0
"""Seconds for a request's body to arrive."""
_CHUNKS = 4096
"""Maximum chunks of a body. Parsing millions of tiny ones would block the event loop."""
MOST_STRANGERS = 64
MOST_SENDERS = 16

logger = logging.getLogger(__name__)


class _Stranger(NamedTuple):
    client: str
    send_away: Callable[[], None]


class Strangers:
    """Connections that are not authenticated. Their number is limited: beyond it, the client with
    the most connections loses its oldest one."""

    def __init__(self, most: int = MOST_STRANGERS) -> None:
        self._most = most
        self._strangers: dict[Hashable, _Stranger] = {}
        """By connection, oldest first."""

    def __len__(self) -> int:
        return len(self._strangers)

    def add(self, connection: Hashable, client: str, send_away: Callable[[], None]) -> None:
        """`client` is an address, with an account if that is known. `send_away` closes the
        connection, saying that there are too many. A connection that is added again keeps its
        age."""
        self._strangers[connection] = _Stranger(client, send_away)
        if len(self) > self._most:
            self._make_room()

    def remove(self, connection: Hashable) -> None:
        """Remove a connection that was closed or authenticated."""
        self._strangers.pop(connection, None)

    def _make_room(self) -> None:
        clients = Counter(stranger.client for stranger in self._strangers.values())
        [(crowded, _)] = clients.most_common(1)
        oldest = next(c for c, s in self._strangers.items() if s.client == crowded)
        self._strangers.pop(oldest).send_away()


@dataclass(frozen=True, slots=True)
class BodyReceiver:
    """Takes a request's body of at most `limit` bytes, and answers the request."""

    limit: int
    start: Callable[[bytes], asyncio.Task[Response]]


@dataclass(frozen=True, slots=True)
class HttpSite:
    """What the connections of a server share."""

    route: Callable[[Request], Response | BodyReceiver | None]
    """Returns the response, or what receives the request's body, or None for a WebSocket."""
    connections: set[HttpConnection] = field(default_factory=set["HttpConnection"])
    """Those that are not closed and not upgraded."""
    strangers: Strangers = field(default_factory=Strangers)
    senders: Strangers = field(default_factory=lambda: Strangers(MOST_SENDERS))
    """Strangers whose bodies are arriving. They are fewer, to limit the memory in use."""


class HttpConnection(asyncio.Protocol):
    def __init__(self, site: HttpSite, websocket: ServerConnection) -> None:
        """`websocket` takes over the connection if it is upgraded."""
        self._site = site
        self._websocket = websocket
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
        self._receiver: BodyReceiver | None = None
        self._body = bytearray()
        self._chunks = 0
        self._path = ""
        self._is_done = False
        """Answered or upgraded: nothing more is read."""

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.call_later(OPENING, self._transport.abort)
        self._site.connections.add(self)
        self._client = client(transport)
        self._site.strangers.add(transport, self._client, self.send_away)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        self._site.connections.discard(self)
        self._site.strangers.remove(self._transport)
        self._site.senders.remove(self._transport)

    def data_received(self, data: bytes) -> None:
        if self._is_arriving:  # else the client has sent more than was wanted
            self._wire.receive_data(data)
            self._read()

    def eof_received(self) -> bool:
        """Keep the connection open if a complete request is being handled."""
        return not self._is_arriving and not self._is_done

    # The request

    @property
    def _is_arriving(self) -> bool:
        return not self._is_done and self._wire.their_state in {h11.IDLE, h11.SEND_BODY}

    def _read(self) -> None:
        try:
            while not self._is_done:
                match self._wire.next_event():
                    case h11.Request() as head:
                        self._route(_request(head))
                    case h11.Data(data=data, chunk_start=is_chunk):
                        self._take(data, is_chunk=is_chunk)
                    case h11.EndOfMessage():
                        self._start()
                    case _:
                        return
        except h11.RemoteProtocolError as error:
            self.answer(refusal(HTTPStatus(error.error_status_hint)))

    def _route(self, request: Request) -> None:
        self._path = request.path.partition("?")[0]
        if request.protocol not in {"HTTP/1.0", "HTTP/1.1"}:
            self.answer(refusal(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED))
            return
        # A head that arrives at once is not limited by h11.
        if len(request.serialize()) > HEAD_LIMIT:
            self.answer(refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
            return
        match self._site.route(request):
            case None:
                self._upgrade(request)
            case Response() as response:
                self.answer(response)
            case BodyReceiver() as receiver:
                self._expect(receiver)

    def _upgrade(self, request: Request) -> None:
        self._is_done = True
        self._deadline.cancel()
        self._site.connections.discard(self)
        self._transport.set_protocol(self._websocket)
        self._websocket.connection_made(self._transport)
        self._websocket.data_received(request.serialize() + self._wire.trailing_data[0])

    def _expect(self, receiver: BodyReceiver) -> None:
        self._receiver = receiver
        self._deadline.cancel()
        self._deadline = self._loop.call_later(SENDING, self._time_out)
        self._site.senders.add(self._transport, self._client, self.send_away)
        if self._wire.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            self._transport.write(self._wire.send(go_on) or b"")

    def _time_out(self) -> None:
        self.answer(refusal(HTTPStatus.REQUEST_TIMEOUT))

    def _take(self, data: bytes, *, is_chunk: bool) -> None:
        self._body += data
        self._chunks += is_chunk
        too_long = self._receiver is not None and len(self._body) > self._receiver.limit
        if too_long or self._chunks > _CHUNKS:
            self.answer(refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE))

    def _start(self) -> None:
        if self._receiver is not None:
            self._deadline.cancel()
            self._site.senders.remove(self._transport)
            body = bytes(self._body)
            self._body.clear()
            self._receiver.start(body).add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[Response]) -> None:
        if task.cancelled():
            self.answer(refusal(HTTPStatus.SERVICE_UNAVAILABLE))
        elif error := task.exception():
            logger.error("request failed path=%s", self._path, exc_info=error)
            self.answer(refusal(HTTPStatus.INTERNAL_SERVER_ERROR))
        else:
            self.answer(task.result())

    # The response

    def answer(self, response: Response) -> None:
        """Send the response. Until the client closes the connection, what it sends is discarded: it
        might not read the response of a connection that is closed while it sends."""
        if self._is_done or self._transport.is_closing():
            return
        self._is_done = True
        self._body.clear()
        self._site.senders.remove(self._transport)
        self._deadline.cancel()
        self._deadline = self._loop.call_later(OPENING, self._transport.abort)
        self._transport.write(response.serialize())
        with contextlib.suppress(OSError):  # the client has gone
            self._transport.write_eof()

    def send_away(self) -> None:
        """Answer with 503 and close the connection. Cut off a client that was answered before."""
        if self._is_done:
            self._transport.abort()
        else:
            self.answer(refusal(HTTPStatus.SERVICE_UNAVAILABLE))
            self._transport.close()


def _request(head: h11.Request) -> Request:
    return Request(
        path=head.target.decode("ascii"),
        headers=Headers([(n.decode("ascii"), v.decode("latin-1")) for n, v in head.headers]),
        method=head.method.decode("ascii"),
        protocol=f"HTTP/{head.http_version.decode('ascii')}",
    )


def client(transport: asyncio.BaseTransport) -> str:
    """The client's address. On this machine, with its account if that is known: another account
    must not take the place of the owner's browser."""
    peer = transport.get_extra_info("peername", ("", 0))
    here = transport.get_extra_info("sockname", ("", 0))
    address: str = peer[0]
    if not address.startswith("127."):
        return address
    return " ".join([address, *map(str, sorted(accounts.connected(peer, here)))])
