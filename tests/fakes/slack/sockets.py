"""Socket Mode: docs.slack.dev/apis/events-api/using-socket-mode.

Frames are as in the tests of python-slack-sdk, slack-go, node-slack-sdk and java-slack-sdk. An
event that the bot does not acknowledge in time comes again, in a new envelope with `retry_attempt`
and `retry_reason`, up to three times (docs.slack.dev/apis/events-api). A command or a press does
not: its user sees an error. An acknowledgement may come through any of the app's sockets.

A socket that is about to be closed gets a `disconnect` with the reason `warning`, and later another
one with `refresh_requested`: both are about that socket. An app has ten at most, and one more gets
`too_many_websockets` (bolt-js issue 2225, node-slack-sdk issue 1654). `link_disabled` means that
Socket Mode was turned off.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from segue.testing.peers import Outage, Pulse
from segue.testing.peers.updates import Update
from segue.testing.websocket import Close, WebSocket
from tests.fakes.protocols import shapes
from tests.fakes.protocols.sockets import Pushed
from tests.fakes.slack.snapshot import Json, fill

if TYPE_CHECKING:
    from tests.fakes.slack.state import State

TOO_MANY = "too_many_websockets"
EVENT, PRESS, COMMAND = "events_api", "interactive", "slash_commands"
_SHAPES = shapes.types({"Acknowledgement": {"envelope_id": "text"}})
"""It has no payload: a bot like ours answers with messages."""


class Envelopes(Pushed):
    def __init__(self, pulse: Pulse, state: State) -> None:
        super().__init__(pulse)
        self._state = state

    def put(self, kind: str, payload: Json) -> None:
        """Queue an envelope. An event that Slack delivers again waits for a socket. Anything else
        is lost without one, and its user sees an error."""
        if not self.sockets and (kind != EVENT or not self._state.settings.retry_seconds):
            self._state.failed.append(f"{kind}: the app is not connected")
            return
        more = {"payload": payload, "accepts_response_payload": kind == COMMAND}
        self.inject(msgspec.json.encode({"type": kind, **more}).decode())

    def frame(self, update: Update, attempt: int, name: str) -> str | None:
        if not update.frame.startswith('{"type":"'):  # a test injected it
            self._learn_name(update.frame)
            return None
        made = {"envelope_id": name, **_opened(update)}
        if made["type"] == EVENT:
            made |= {"retry_attempt": attempt, "retry_reason": "timeout" if attempt else ""}
        return msgspec.json.encode(made).decode()

    def _learn_name(self, frame: str) -> None:
        """Expect an acknowledgement of this frame, if it is an envelope."""
        with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            self.names.add(str(msgspec.json.decode(frame, type=dict[str, Any]).get("envelope_id")))

    def patience(self, update: Update) -> tuple[float, Sequence[float]]:
        settings, again = self._state.settings, _opened(update)["type"] == EVENT
        return settings.ack_seconds, settings.retry_seconds if again else ()

    def gave_up(self, update: Update) -> None:
        self._state.failed.append(f"{_opened(update)['type']}: not acknowledged")

    def take(self, frame: bytes) -> None:
        try:
            name = msgspec.json.decode(frame, type=_SHAPES["Acknowledgement"]).envelope_id
        except msgspec.MsgspecError as error:
            name = str(error)
        if name not in self.names:
            self._state.errors.append(f"socket: no acknowledgement of an envelope: {name}")
        update = self.acknowledge(name)
        if update is not None and _opened(update)["type"] == PRESS:
            self._state.answered.append(_opened(update)["payload"]["trigger_id"])

    def disconnect(self, reason: str) -> None:
        """Ask the bot to leave all of its sockets, those too that it was asked to leave before:
        `refresh_requested` follows a `warning` through the same socket."""
        self.dismiss(_goodbye(reason), self._state.settings.leave_seconds)

    async def connect(self, link: str, socket: WebSocket, outage: Outage | None = None) -> None:
        """Serve a connection to that address."""
        if link not in self._state.links:
            self._state.errors.append(f"socket: {link} is not from apps.connections.open")
        self._state.links.discard(link)  # it is good for one connection
        if self.connections >= self._state.settings.most_sockets:
            socket.send(_goodbye(TOO_MANY))
            raise Close(1000, "")
        hello = fill("hello", count=self.connections + 1)
        socket.send(msgspec.json.encode(hello).decode())
        if outage is Outage.TOO_MANY:
            socket.send(_goodbye(TOO_MANY))
        if outage is not None:
            raise Close(1000, "")
        await self.serve(socket)


def _goodbye(reason: str) -> str:
    return msgspec.json.encode(fill("disconnect", reason=reason)).decode()


def _opened(update: Update) -> dict[str, Any]:
    return msgspec.json.decode(update.frame)
