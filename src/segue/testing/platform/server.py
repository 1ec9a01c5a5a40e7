"""The test platform's HTTP interface for the bot."""

from __future__ import annotations

import functools

import msgspec

from segue.testing import peers
from segue.testing.http import Request, Response
from segue.testing.peers import Outage, Record
from segue.testing.peers.server import Effect
from segue.testing.platform import errors
from segue.testing.platform.control import Control
from segue.testing.platform.errors import Refuse
from segue.testing.platform.methods import Methods
from segue.testing.platform.state import State
from segue.testing.platform.wire import CALLS, AskUpdates, Batch, Rules

LARGEST_CALL = 8 * 1024 * 1024


class Server(peers.Server[Rules, State]):
    control = Control
    polls = "updates"

    def fresh(self, settings: Rules) -> State:
        return State(settings, self.pulse)

    def receives_updates(self, request: Request) -> bool:
        return request.target == "/v1/updates"

    def farewell(self, request: Request, outage: Outage) -> Response:
        """A poll that returns at once, or one of too many."""
        if outage is Outage.TOO_MANY:
            return Refuse(409, "conflict", "Another program asks for updates.").response
        asked = msgspec.json.decode(request.body, type=AskUpdates)
        return Response(body=msgspec.json.encode(Batch(frames=(), next=asked.offset or 0)))

    def parse(self, request: Request, record: Record) -> tuple[Effect, str | None]:
        record.method = request.target.removeprefix("/v1/")
        record.parameters = {"call": request.body[:2000].decode("utf-8", "replace")}
        if request.headers.get("authorization") != f"Bearer {self.token}":
            raise Refuse(401, "unauthorized", "The token is not valid.")
        if (kind := CALLS.get(record.method)) is None:
            raise Refuse(404, "unknown_method", f"There is no method {record.method!r}.")
        if request.method != "POST":
            raise Refuse(405, "malformed", "Calls are posted.")
        if request.headers.get("content-type") != "application/json":
            raise Refuse(415, "malformed", "Calls are application/json.")
        if len(request.body) > LARGEST_CALL:
            raise Refuse(413, "too_long", f"A call has at most {LARGEST_CALL} bytes.")
        try:
            call = msgspec.json.decode(request.body, type=kind)
        except msgspec.MsgspecError as error:
            raise self.malformed(str(error)) from error
        effect = functools.partial(Methods(self.state).carry_out, call)
        return effect, getattr(call, "chat", None)

    def malformed(self, reason: str) -> Refuse:
        return errors.malformed(reason)
