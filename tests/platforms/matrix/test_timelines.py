"""Timelines of which a sync contains only the end, on a homeserver that the test controls."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from segue.testing.http import Request, Response
from tests.platforms.matrix.homeserver import ROOM, Homeserver, json_response


class Limited(Homeserver):
    """Says that each timeline has more events before those in the sync, of which it has none."""

    def _synced(self, number: int, events: list[dict[str, Any]]) -> dict[str, Any]:
        found = super()._synced(number, events)
        if events:
            found["rooms"]["join"][ROOM]["timeline"] |= {"limited": True, "prev_batch": "t0"}
        return found

    async def _answer(self, request: Request) -> Response:
        if "/messages" in request.target:
            return json_response({"chunk": [], "start": "t0"})
        return await super()._answer(request)


@pytest.mark.parametrize("time", [2**53 - 1, -(2**53) + 1, 2**62])
async def test_an_event_with_an_impossible_time_does_not_stop_the_next(tmp_path: Path, time: int):
    evil = {
        "type": "m.room.message",
        "event_id": "$evil",
        "sender": "@eve:evil.test",
        "content": {"msgtype": "m.text", "body": "hi"},
        "origin_server_ts": time,
    }
    async with Limited.running(tmp_path) as server, asyncio.timeout(20):
        server._events.append(evil)
        await server.say(await server.place("dm"), "Still there?")
        async with contextlib.aclosing(server.adapter.receive()) as coming:
            async for inbound in coming:
                if inbound is not None and inbound.text == "Still there?":
                    break
