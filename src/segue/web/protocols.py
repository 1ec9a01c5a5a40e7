"""uvicorn's protocols for HTTP/1.1 and WebSockets, with the limits for strangers.

uvicorn parses with h11 and `websockets`, keeps connections open and calls the application. Here is
what it lacks on a port that anyone can reach: a time limit for the head of a request, a limited
number of connections, and limits for what h11 accepts. It is also stricter where two parsers could
disagree about where a request ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame
from websockets.protocol import State

from segue.system import accounts
from segue.web.frames import FRAME_LIMIT, PROOF_LIMIT
from segue.web.http import Progress, Strangers, refusal

HEAD_LIMIT = 16 * 1024
"""Maximum bytes of a request line and its headers."""
OPENING = 10.0
"""Seconds for a request's head to arrive, also of the next one on the same connection. As many for
a response to be read, and for a WebSocket to be authenticated."""
_IDLE = 5
"""Seconds that a connection stays open without a request."""
_SMALL_CHUNKS = 512
_CHUNK_SIZE = 256
"""The chunks of a body beyond _SMALL_CHUNKS have at least this size on average. Parsing thousands
of tiny ones would block the event loop."""
_FRAMES = 4096
"""Maximum frames of a message."""
_UNPROVEN = 16 * 1024
"""Maximum bytes that a WebSocket may send before it is authenticated. Each frame takes memory,
even an empty one."""
_UNPROVEN_CLOSING = 1.0
"""Seconds in which a client that was not authenticated may answer a close frame."""


_SILENT = logging.Logger("segue.web.wire", logging.CRITICAL + 1)  # noqa: LOG001 - it stands alone
"""Belongs to no other logger, so no setting changes its level: the libraries would log every header
and frame, including tokens, and a line for whatever strangers send."""


@dataclass(frozen=True, slots=True)
class ServerSite:
    """What the connections of a server share."""

    is_websocket: Callable[[dict[str, Any]], bool]
    """Whether the application would open a WebSocket for the request."""
    strangers: Strangers
    senders: Strangers
    """Strangers whose bodies are arriving. They are fewer, to limit the memory in use."""
    state: ServerState = field(default_factory=ServerState)
    emptied: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever the last connection is closed."""

    @property
    def connections(self) -> set[HttpProtocol]:
        """Those that are not closed and not upgraded."""
        return {one for one in self.state.connections if isinstance(one, HttpProtocol)}

    @property
    def websockets(self) -> set[WebSocketProtocol]:
        return {one for one in self.state.connections if isinstance(one, WebSocketProtocol)}


class LingeringTransport(asyncio.Transport):
    """A transport whose `close` lets the client read what was sent.

    A connection that is closed while data arrives is reset, and the client may lose the response.
    So the server's side is closed first, and what still arrives is dropped.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._abort: asyncio.TimerHandle | None = None
        self._is_ended = False

    def close(self) -> None:
        if self._is_ended or self._transport.is_closing():
            self._transport.close()
        elif self._abort is None:
            self._abort = asyncio.get_running_loop().call_later(OPENING, self._transport.abort)
            self._transport.resume_reading()
            try:
                self._transport.write_eof()
            except OSError:  # the client has gone
                self._transport.abort()

    def drop(self) -> None:
        """Close the connection as soon as everything is written, whether the client reads it or
        not."""
        self._transport.close()

    def ended(self) -> None:
        """The client sends no more."""
        self._is_ended = True

    def lost(self) -> None:
        """The connection is closed."""
        if self._abort is not None:
            self._abort.cancel()

    def is_closing(self) -> bool:
        return self._abort is not None or self._transport.is_closing()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.is_closing():  # else asyncio would log a warning for each
            self._transport.write(data)

    def abort(self) -> None:
        self._transport.abort()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)


class RequestParser(h11.Connection):
    """h11's parser, with stricter limits."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEAD_LIMIT)
        self.refusal = HTTPStatus.BAD_REQUEST
        """How to answer the request that was not accepted."""
        self._chunks = 0
        self._size = 0
        """Of the body so far."""

    def next_event(self) -> Any:
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                self._chunks = 0
                self._size = 0
                _check(event)
            elif isinstance(event, h11.Data):
                self._chunks += event.chunk_start
                self._size += len(event.data)
                if self._chunks > _SMALL_CHUNKS + self._size // _CHUNK_SIZE:
                    raise _error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        except h11.RemoteProtocolError as error:
            self.refusal = HTTPStatus(error.error_status_hint)
            raise
        return event


def _check(head: h11.Request) -> None:
    """Refuse a request that h11 accepts. A head that arrives at once is not limited by h11. Another
    server could see another end of a request with two lengths, or with chunks in HTTP/1.0."""
    if head.http_version not in {b"1.0", b"1.1"}:
        raise _error(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
    size = len(head.method) + len(head.target)
    size += sum(len(name) + len(value) + 4 for name, value in head.headers)
    if size > HEAD_LIMIT:
        raise _error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    names = {name for name, _ in head.headers}
    if b"transfer-encoding" in names and (
        b"content-length" in names or head.http_version == b"1.0"
    ):
        raise _error(HTTPStatus.BAD_REQUEST)


def _error(status: HTTPStatus) -> h11.RemoteProtocolError:
    return h11.RemoteProtocolError(status.phrase, error_status_hint=status.value)


class HttpProtocol(H11Protocol):
    transport: LingeringTransport  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, site: ServerSite, config: Config) -> None:
        super().__init__(config, site.state, {"connection": self})
        self.logger = _SILENT
        self.conn = self._parser = RequestParser()
        self._site = site
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._is_ended = False
        """Whether the client sends no more."""
        self._is_half = False
        """Whether a part of a head has arrived."""

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        client = client_of(transport)
        self.address = client
        super().connection_made(LingeringTransport(cast("asyncio.Transport", transport)))
        self._site.emptied.clear()
        self._site.strangers.add(self, client, self.send_away, Progress.NEW)
        self._await_head()
        # What has arrived already is read in the next round of the event loop.
        self.loop.call_soon(self.loop.call_soon, self._was_polled)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.resume_writing()
        self._site.strangers.remove(self)
        self._site.senders.remove(self)
        super().connection_lost(exc)
        self.transport.lost()
        if not self.connections:
            self._site.emptied.set()

    def data_received(self, data: bytes) -> None:
        # After the last request that is answered, the rest is dropped.
        if self.transport.is_closing() or self.conn.their_state is h11.MUST_CLOSE:
            return
        super().data_received(data)
        self._is_half = self._is_waiting
        if self._is_half:
            self._site.strangers.advance(self, Progress.HALF)

    def eof_received(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Keep the connection open for the responses to complete requests."""
        self._is_ended = True
        self.transport.ended()
        return self._is_answering and not self.cycle.more_body

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(OPENING, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    # Called by uvicorn

    def _should_upgrade(self) -> bool:
        """Called for each head, when it is complete."""
        self._stop_waiting()
        self._is_half = False
        self._site.strangers.advance(self, Progress.READ)
        return self._get_upgrade() is not None and self._site.is_websocket(cast("Any", self.scope))

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Pass the connection on, with everything that was received."""
        self.connections.discard(self)
        self._site.strangers.remove(self)
        head = [event.method, b" ", event.target, b" HTTP/1.1\r\n"]
        for name, value in self.headers:
            head += [name, b": ", value, b"\r\n"]
        protocol = WebSocketProtocol(self._site, self.config, self.address)
        protocol.connection_made(self.transport)
        self.transport.set_protocol(protocol)
        protocol.open(b"".join([*head, b"\r\n"]), self.conn.trailing_data[0])

    def on_response_complete(self) -> None:
        self._site.strangers.advance(self, Progress.READ)
        self._await_head()
        super().on_response_complete()
        # If another request had arrived, it is being answered now.
        if self._is_ended and not self._is_answering:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Called for a request that the parser does not accept."""
        self._refuse(self._parser.refusal)

    def shutdown(self) -> None:
        if self.transport.is_closing():
            return
        if self._is_answering:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
        else:
            self.transport.close()

    # Limits

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    @property
    def _is_waiting(self) -> bool:
        """Whether the head of the next request has not arrived."""
        return self._deadline is not None and not self._deadline.cancelled()

    def _await_head(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(OPENING, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _was_polled(self) -> None:
        self._site.strangers.advance(self, Progress.HALF if self._is_half else Progress.READ)

    def send_away(self) -> None:
        """Answer with 503 and close the connection. Cut off a client that was answered before."""
        if self.transport.is_closing():
            self.transport.abort()
        elif self.cycle is not None and self.cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
            self.transport.close()
        else:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
            self.transport.drop()

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer in place of the application, unless it has begun to, and close the connection."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            response = refusal(status)
            is_head = self._is_answering and self.scope["method"] == "HEAD"
            events = (
                h11.Response(
                    status_code=status.value,
                    headers=response.raw_headers,
                    reason=status.phrase.encode(),
                ),
                h11.Data(data=b"" if is_head else bytes(response.body)),
                h11.EndOfMessage(),
            )
            self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        if self._is_answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


class WebSocketProtocol(WebSocketsSansIOProtocol):
    transport: LingeringTransport  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, site: ServerSite, config: Config, client: str) -> None:
        super().__init__(config, site.state, {"connection": self})
        self._site = site
        self._client = client
        self._unproven = _UNPROVEN
        """The bytes that may still arrive before the client is authenticated."""
        self._is_proven = False
        self._echoed = 0
        self._early = b""
        self.logger = self.conn.logger = _SILENT
        self.conn.debug = False
        self.conn.max_message_size = PROOF_LIMIT
        self.close_timeout = _UNPROVEN_CLOSING

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._site.strangers.add(self, self._client, self.send_away)
        self._deadline = self.loop.call_later(OPENING, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        self._site.strangers.remove(self)
        super().connection_lost(exc)
        self.transport.lost()
        if not self.connections:
            self._site.emptied.set()

    def eof_received(self) -> None:
        self.transport.ended()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if not self._is_proven:
            self._unproven -= len(data)
            if self._unproven < 0:
                self.go_away(CloseCode.MESSAGE_TOO_BIG)
                return
        # Drop a client that sends pings and never reads: pongs are sent without flow control and
        # would fill the memory. No browser does this.
        before = self.transport.get_write_buffer_size()
        try:
            super().data_received(data)
        except InvalidState:  # text that is not UTF-8, with a close frame behind it
            self.transport.abort()
        self._echoed += max(0, self.transport.get_write_buffer_size() - before)
        if self._echoed > FRAME_LIMIT:
            self.transport.abort()

    def open(self, head: bytes, early: bytes) -> None:
        """Begin with that request. `early` arrived after it. uvicorn cannot refuse a frame before
        the application has accepted the request, so frames are read after that."""
        self._early = early
        self.transport.pause_reading()
        self.data_received(head)
        if not self.handshake_initiated:  # longer lines or more headers than `websockets` reads
            self.transport.abort()

    async def send(self, message: Any) -> None:
        await self.writable.wait()
        if self.close_sent:  # by the protocol itself; the application does not know it yet
            raise ClientDisconnected
        await super().send(message)
        if message["type"] == "websocket.accept" and not self.transport.is_closing():
            self.transport.resume_reading()
            if self._early:
                self.data_received(self._early)

    def handle_parser_exception(self) -> None:
        if self.conn.close_sent is None:  # nothing can be sent in this state
            self.transport.abort()
        else:
            super().handle_parser_exception()

    def handle_cont(self, event: Frame) -> None:
        super().handle_cont(event)
        if len(self.frames) > _FRAMES:  # empty ones count to no limit of bytes
            self.go_away(CloseCode.MESSAGE_TOO_BIG)

    def prove(self) -> None:
        """Lift the limits for strangers: the client is authenticated."""
        self._is_proven = True
        self._deadline.cancel()
        self._site.strangers.remove(self)
        self._site.strangers.remember(self._client)
        self.conn.max_message_size = FRAME_LIMIT
        self.close_timeout = OPENING

    def shutdown(self) -> None:
        self.go_away(CloseCode.GOING_AWAY)

    def send_away(self) -> None:
        if self.transport.is_closing():
            self.transport.abort()
        self.go_away(CloseCode.TRY_AGAIN_LATER, "too many connections")
        self.transport.drop()

    def go_away(self, code: CloseCode, reason: str = "") -> None:
        """Close the connection with that code, without waiting for the client."""
        self.stop_keepalive()
        if self.conn.state is State.OPEN:
            self.conn.send_close(code, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
            self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.transport.close()


def client_of(transport: asyncio.BaseTransport) -> str:
    """The client's address. On this machine, with its account if that is known: another account
    must not take the place of the owner's browser."""
    peer = transport.get_extra_info("peername", ("", 0))
    here = transport.get_extra_info("sockname", ("", 0))
    address: str = peer[0]
    if not address.startswith("127."):
        return address
    return " ".join([address, *map(str, sorted(accounts.connected(peer, here)))])


def is_of_own_account(client: str) -> bool:
    """Whether `client_of` says that our own account has made the connection, on this machine."""
    _, _, account = client.partition(" ")
    return account.isdecimal() and accounts.is_ours(int(account))


def configuration(app: Any) -> Config:
    """The settings of uvicorn, all of them independent of the environment. What is worth a line in
    the log is logged by the application."""
    return Config(
        app,
        interface="asgi3",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        forwarded_allow_ips="",
        workers=1,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_IDLE,
        ws_max_size=PROOF_LIMIT,
        ws_per_message_deflate=False,
    )
