"""Socket Mode: docs.slack.dev/apis/events-api/using-socket-mode.

Frames are as in the tests of python-slack-sdk, slack-go, node-slack-sdk and java-slack-sdk. An
event that the bot does not acknowledge in time comes again, in a new envelope with `retry_attempt`
and `retry_reason`, up to three times (docs.slack.dev/apis/events-api). A command or a press does
not: its user sees an error. An acknowledgement may come through any of the app's sockets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from segue.testing.peers import Pulse, shapes
from segue.testing.peers.sockets import Pushed
from segue.testing.peers.updates import Update
from segue.testing.slack.snapshot import Json, fill
from segue.testing.websocket import WebSocket

if TYPE_CHECKING:
    from segue.testing.slack.state import State

EVENT, PRESS, COMMAND = "events_api", "interactive", "slash_commands"
_SHAPES = shapes.types({"Acknowledgement": {"envelope_id": "text"}})
"""It has no payload: a bot like ours answers with messages."""


class Envelopes(Pushed):
    def __init__(self, pulse: Pulse, state: State) -> None:
        super().__init__(pulse)
        self._state = state
        self.names.add("injected")  # the envelope of the frames that a test injects

    def put(self, kind: str, payload: Json) -> None:
        """Queue an envelope. An event that Slack delivers again waits for a socket. Anything else
        is lost without one, and its user sees an error."""
        if not self.sockets and (kind != EVENT or not self._state.settings.retry_seconds):
            self._state.failed.append(f"{kind}: the app is not connected")
            return
        more = {"payload": payload, "accepts_response_payload": kind == COMMAND}
        self.inject(msgspec.json.encode({"type": kind, **more}).decode())

    def frame(self, update: Update, attempt: int, name: str) -> str | None:
        if not update.frame.startswith('{"type":"'):
            return None  # a test injected it
        made = {"envelope_id": name, **_opened(update)}
        if made["type"] == EVENT:
            made |= {"retry_attempt": attempt, "retry_reason": "timeout" if attempt else ""}
        return msgspec.json.encode(made).decode()

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
        """Ask the bot to leave its sockets."""
        warning = msgspec.json.encode(fill("disconnect", reason=reason)).decode()
        self.dismiss(warning, self._state.settings.leave_seconds)

    async def connect(self, link: str, socket: WebSocket) -> None:
        """Serve a connection to that address."""
        if link not in self._state.links:
            self._state.errors.append(f"socket: {link} is not from apps.connections.open")
        hello = fill("hello", count=len(self.sockets) + 1)
        socket.send(msgspec.json.encode(hello).decode())
        await self.serve(socket)


def _opened(update: Update) -> dict[str, Any]:
    return msgspec.json.decode(update.frame)
