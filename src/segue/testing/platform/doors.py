"""The test platform's two doors: one for the bot, and one for the test."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from segue.testing import http
from segue.testing.http import Handler, Request, Response
from segue.testing.platform import orders
from segue.testing.platform.faults import Garble
from segue.testing.platform.orders import Order, Refused
from segue.testing.platform.pulse import Pulse
from segue.testing.platform.refusing import Refuse, malformed
from segue.testing.platform.wire import CALLS, Call, Rules
from segue.testing.platform.world import World

LARGEST_CALL = 8 * 1024 * 1024


class Door:
    """An address on loopback that can be shut: connections are then cut, and new ones refused."""

    def __init__(self, port: int = 0) -> None:
        # Bound and never listening: the port stays ours while the door is shut.
        self._place = _bound(port)
        self._port: int = self._place.getsockname()[1]
        self._open = contextlib.AsyncExitStack()
        self.url = f"http://127.0.0.1:{self._port}"

    async def open(self, handler: Handler) -> None:
        await self.shut()
        await self._open.enter_async_context(http.serving(handler, _bound(self._port)))

    async def shut(self) -> None:
        await self._open.aclose()

    async def close(self) -> None:
        """Shut it for good."""
        await self.shut()
        self._place.close()


def _bound(port: int) -> socket.socket:
    # By its protocol asyncio knows that its writes need not wait for each other.
    bound = socket.socket(proto=socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    return bound


class Doors:
    """Answers the bot at one door, and the test at the other."""

    def __init__(
        self, rules: Rules, *, token: str, port: int = 0, journal: Path | None = None
    ) -> None:
        self._token = token
        self._journal = journal
        self._pulse = Pulse()
        self._world = World(rules, self._pulse)
        self.bot = Door(port)
        self.test = Door()

    async def open(self) -> None:
        await self.bot.open(self._answer_bot)
        await self.test.open(self._answer_test)

    async def close(self) -> None:
        await self.bot.close()
        await self.test.close()

    # The bot

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
            self._note(method, request.body, outcome)
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

    def _note(self, method: str, body: bytes, outcome: str) -> None:
        if self._journal is None or method == "updates":
            return
        call = body[:2000].decode("utf-8", "replace")
        line = msgspec.json.encode({"method": method, "outcome": outcome, "call": call})
        with self._journal.open("ab") as journal:
            journal.write(line + b"\n")

    # The test

    async def _answer_test(self, request: Request) -> Response:
        try:
            order: Order = msgspec.json.decode(request.body, type=Order)
            return Response(body=msgspec.json.encode(await self._obey(order)))
        except msgspec.MsgspecError as error:
            return _refusal(malformed(error))
        except Refuse as refuse:
            return _refusal(refuse)

    async def _obey(self, order: Order) -> object:
        match order:
            case orders.Look():
                await self._pulse.until(lambda: self._pulse.count > order.after, order.seconds)
                return self._world.shown(order.chat)
            case orders.Shut():
                await self.bot.shut()
            case orders.Open():
                await self.bot.open(self._answer_bot)
            case orders.Clear():
                self._world.faults.calm()
                self._world = World(order.rules, self._pulse)
                await self.bot.open(self._answer_bot)
            case _:
                return self._do(order)
        return None

    def _do(self, order: Order) -> object:
        result = _steps(self._world)[type(order)](order)
        self._pulse.beat()
        return result


def _steps(world: World) -> Mapping[type[Any], Callable[[Any], object]]:
    """What each order comes to."""
    service, updates, faults = world.service, world.updates, world.faults
    return {
        orders.AddUser: service.add_user,
        orders.AddChat: service.add_chat,
        orders.Say: service.say,
        orders.Rewrite: service.rewrite,
        orders.Press: service.press,
        orders.Join: service.join,
        orders.DeleteThread: service.delete_thread,
        orders.SetRules: service.set_rules,
        orders.Fail: faults.order,
        orders.Calm: lambda _: faults.calm(),
        orders.Inject: lambda order: updates.add(*order.frames),
        orders.Repeat: lambda order: updates.repeat(order.last),
        orders.Hold: lambda _: updates.hold(),
        orders.Release: lambda order: updates.release(backwards=order.backwards),
    }


def _refusal(refuse: Refuse) -> Response:
    after = refuse.refusal.retry_after
    headers = {} if after is None else {"Retry-After": f"{after:.3f}"}
    return Response(refuse.status, headers, msgspec.json.encode(refuse.refusal))
