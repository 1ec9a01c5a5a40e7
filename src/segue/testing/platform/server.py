"""The test platform's HTTP interface for the bot."""

from __future__ import annotations

import msgspec

from segue.testing import peers
from segue.testing.http import Request, Response
from segue.testing.peers import Garble
from segue.testing.platform.control import Order, Refused
from segue.testing.platform.errors import Refuse, malformed
from segue.testing.platform.wire import CALLS, Call, Rules
from segue.testing.platform.world import World

LARGEST_CALL = 8 * 1024 * 1024


class Doors(peers.Doors[Rules, World]):
    orders = Order

    def _fresh(self, settings: Rules) -> World:
        return World(settings, self._pulse)

    async def _answer_bot(self, request: Request) -> Response:
        method = request.target.removeprefix("/v1/")
        world = self._world
        world.counts[method] += 1
        self._pulse.beat()
        outcome = "cut off"
        try:
            call = self._parse(method, request)
            async with world.faults.around(method, getattr(call, "chat", None)):
                answer = await world.calls.carry_out(call)
                outcome = "done"
        except Refuse as refuse:
            world.refused.append(Refused(method=method, refusal=refuse.refusal))
            outcome = refuse.refusal.code
            return _refusal(refuse)
        except Garble:
            return Response(body=b'{"id": <html>')
        finally:
            self._pulse.beat()
            if method != "updates":
                said = request.body[:2000].decode("utf-8", "replace")
                self._note({"method": method, "outcome": outcome, "call": said})
        if isinstance(answer, bytes):
            return Response(headers={"Content-Type": "application/octet-stream"}, body=answer)
        return Response(body=msgspec.json.encode(answer))

    def _parse(self, method: str, request: Request) -> Call:
        if request.headers.get("authorization") != f"Bearer {self._token}":
            raise Refuse(401, "unauthorized", "The token is not valid.")
        if (kind := CALLS.get(method)) is None:
            raise Refuse(404, "unknown_method", f"There is no method {method!r}.")
        if request.method != "POST":
            raise Refuse(405, "malformed", "Calls are posted.")
        if request.headers.get("content-type") != "application/json":
            raise Refuse(415, "malformed", "Calls are application/json.")
        if len(request.body) > LARGEST_CALL:
            raise Refuse(413, "too_long", f"A call has at most {LARGEST_CALL} bytes.")
        try:
            return msgspec.json.decode(request.body, type=kind)
        except msgspec.MsgspecError as error:
            raise malformed(error) from error


def _refusal(refuse: Refuse) -> Response:
    after = refuse.refusal.retry_after
    headers = {} if after is None else {"Retry-After": f"{after:.3f}"}
    return Response(refuse.status, headers, msgspec.json.encode(refuse.refusal))
