"""Timelines of which a sync contains only the end, on a homeserver that the test controls."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from segue.platforms.base import Inbound, InboundKind
from segue.platforms.matrix.events import address
from segue.testing.http import Request, Response
from tests.platforms.matrix.homeserver import ANNA, ROOM, Homeserver, json_response

EVE = "@eve:evil.test"


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
        "sender": EVE,
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


# Messages that were edited while the adapter was away


def edit(name: str, of: str, text: str, sender: str = ANNA) -> dict[str, Any]:
    content = {
        "msgtype": "m.text",
        "body": f"* {text}",
        "m.new_content": {"msgtype": "m.text", "body": text},
        "m.relates_to": {"rel_type": "m.replace", "event_id": of},
    }
    event = {"type": "m.room.message", "event_id": name, "sender": sender, "content": content}
    return {**event, "origin_server_ts": 1_767_225_600_000}


async def heard(server: Homeserver, last: str) -> list[Inbound]:
    """Everything up to the message `last`, which is said now."""
    await server.say(await server.place("dm"), last)
    found: list[Inbound] = []
    async with contextlib.aclosing(server.adapter.receive()) as coming:
        async for inbound in coming:
            if inbound is not None and inbound.text == last:
                break
            found += [inbound] if inbound is not None else []
    return found


async def test_a_message_that_was_edited_meanwhile_has_its_newest_text(tmp_path: Path):
    async with Homeserver.running(tmp_path) as server, asyncio.timeout(20):
        message = await server.say(await server.place("dm"), "Sail on Mnday")
        server._events.append(edit("$edit1", message, "Sail on Monday"))
        server._events.append(edit("$edit2", message, "Sail on Tuesday"))
        found = await heard(server, "That is all.")
    kinds = [InboundKind.MESSAGE, InboundKind.EDIT, InboundKind.EDIT]
    assert [it.kind for it in found] == kinds
    # The gateway drops an edit that changes nothing.
    assert {it.text for it in found} == {"Sail on Tuesday"}
    assert {it.message_id for it in found} == {message}


async def test_an_edit_that_the_server_bundles_with_its_message_is_read(tmp_path: Path):
    async with Homeserver.running(tmp_path) as server, asyncio.timeout(20):
        message = await server.say(await server.place("dm"), "Sail on Mnday")
        bundle = {"m.replace": edit("$edit", message, "Sail on Monday")}
        server._events[-1]["unsigned"] = {"m.relations": bundle}
        [found] = await heard(server, "That is all.")
    assert (found.kind, found.text) == (InboundKind.MESSAGE, "Sail on Monday")


@pytest.mark.parametrize("is_bundled", [False, True])
async def test_an_edit_by_another_user_changes_nothing(tmp_path: Path, is_bundled: bool):
    async with Homeserver.running(tmp_path) as server, asyncio.timeout(20):
        message = await server.say(await server.place("dm"), "Sail on Monday")
        forged = edit("$edit", message, "Sink it", sender=EVE)
        if is_bundled:
            server._events[-1]["unsigned"] = {"m.relations": {"m.replace": forged}}
        else:
            server._events.append(forged)
        [found] = await heard(server, "That is all.")
    assert (found.kind, found.text) == (InboundKind.MESSAGE, "Sail on Monday")


# Events in an encrypted room that are not encrypted


class Encrypted(Homeserver):
    """The room is encrypted, and the server writes in Anna's name what is not."""

    async def _answer(self, request: Request) -> Response:
        if request.target.endswith("/state"):
            content = {"algorithm": "m.megolm.v1.aes-sha2"}
            state = {"type": "m.room.encryption", "state_key": "", "sender": ANNA}
            return json_response([{**state, "event_id": "$state", "content": content}])
        return await super()._answer(request)


@pytest.mark.parametrize("text", ["hello", "/approve 1", "/sethome", "8N2D-VGKQ"])
async def test_plaintext_in_an_encrypted_room_is_not_read(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
):
    async with Encrypted.running(tmp_path) as server, asyncio.timeout(20):
        await server.say(await server.place("dm"), text)
        async with contextlib.aclosing(server.adapter.receive()) as coming:
            assert await anext(coming) is None
            following = asyncio.create_task(anext(coming))
            await server._pulse.until(lambda: "event not encrypted" in caplog.text, 10)
            await server.say(await server.place("dm"), "another")
            assert await following is None, "the next sync"
            assert not server.adapter.trusts_reactions(address(ROOM, direct=True))
    assert "event not encrypted" in caplog.text
