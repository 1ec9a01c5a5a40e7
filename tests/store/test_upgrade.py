"""A store that an earlier version made is brought up to date, and everything is still there."""

from __future__ import annotations

import asyncio
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import segue.store
from segue.core.address import HomeChannel, Platform
from segue.core.session import Origin
from segue.core.transcript import Image, Kind, Message, Role, ToolCall
from segue.store import Store, Tx, schema
from segue.store.base import Dialect
from segue.testing.clock import FakeClock
from tests.store.samples import CHANNEL, DM, draft, said, texts

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
# What version 1 wrote for the messages that stand beside it.
ROWS: list[dict[str, Any]] = [
    {"role": "user", "content": "where are my roses?", "tokens": 5},
    {
        "role": "assistant",
        "tool_calls": '[{"id":"1","name":"shell","arguments":"{}"}]',
        "extras": '{"signature":"abc"}',
    },
    {"role": "tool", "content": "in the garden", "tool_call_id": "1", "tool_name": "shell"},
    {"role": "system", "content": "so far", "kind": "summary"},
    {"role": "user", "content": "never mind", "undone": 5},
]
MESSAGES = [
    Message(Role.USER, "where are my roses?", NOON, tokens=5, seq=1),
    Message(
        Role.ASSISTANT,
        "",
        NOON,
        tool_calls=(ToolCall("1", "shell", "{}"),),
        extras={"signature": "abc"},
        seq=2,
    ),
    Message(Role.TOOL, "in the garden", NOON, tool_call_id="1", tool_name="shell", seq=3),
    Message(Role.SYSTEM, "so far", NOON, kind=Kind.SUMMARY, seq=4),
]


@pytest.fixture
def version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The program knows the scripts of version 1 only, until this is undone."""
    folder = tmp_path / "version 1"
    folder.mkdir()
    for script in schema._FOLDER.glob("0001*.sql"):
        shutil.copy(script, folder)
    monkeypatch.setattr(schema, "_FOLDER", folder)
    monkeypatch.setattr(schema, "LATEST", 1)
    return monkeypatch


def say(tx: Tx, session_id: str) -> None:
    """Append ROWS as version 1 did."""
    (no,) = tx.one("SELECT no FROM sessions WHERE id = :id", id=session_id)
    common = {"kind": "said", "content": "", "tokens": 0, "undone": 0, "at": 1_767_268_800_000_000}
    optional = dict.fromkeys(("tool_calls", "tool_call_id", "tool_name", "extras"))
    tx.change_many(
        "INSERT INTO messages (id, role, kind, content, tool_calls, tool_call_id, tool_name,"
        " tokens, at, extras, undone) VALUES (:id, :role, :kind, :content, :tool_calls,"
        " :tool_call_id, :tool_name, :tokens, :at, :extras, :undone)",
        [common | optional | row | {"id": (no << 32) + i} for i, row in enumerate(ROWS, 1)],
    )
    sql = "UPDATE sessions SET last_seq = :last, summary_seq = 4 WHERE no = :no"
    tx.change(sql, last=len(ROWS), no=no)


def version(tx: Tx) -> int:
    if tx.dialect is Dialect.SQLITE:
        return tx.one("PRAGMA user_version")[0]
    return tx.one("SELECT version FROM schema_version")[0]


async def look(store: Store, session_id: str) -> tuple[object, ...]:
    """All that version 1 could tell, but for the messages."""
    return (
        await store.owners.all(),
        await store.owners.homes("me"),
        await store.sessions.list("me"),
        await store.bindings.list("me"),
        await store.leases.get(session_id),
        await store.get_handoff_state(session_id),
        await store.sessions.search("me", "roses"),
        await store.inbox.waiting(),
        await store.outbox.get("1"),
    )


async def fill(store: Store) -> str:
    """Something of everything."""
    await store.owners.ensure("me", "Me")
    await store.owners.set_home("me", HomeChannel(address=DM, name="home"))
    session = await store.sessions.create("me", Platform.LOCAL, title="roses", cwd="/home/me")
    await store.sessions.create("me", Platform.SLACK)
    await store.write(say, session.id)
    await store.bindings.rebind(session.id, CHANNEL, Origin.RESUME)
    lease = await store.leases.acquire(session.id, "a terminal on desk")
    await store.request_handoff(session.id, Platform.TELEGRAM, lease=lease)
    await store.inbox.record("bot", "1", DM, "hello")
    await store.outbox.enqueue(draft("1"))
    return session.id


async def test_a_store_of_version_1_is_brought_up_to_date_with_everything_in_it(
    url: str, clock: FakeClock, version_1: pytest.MonkeyPatch
):
    async with await segue.store.open(url, clock=clock) as old:
        session_id = await fill(old)
        before = await look(old, session_id)
        assert await old.write(version) == 1
        version_1.undo()
        # While the old one still runs, and by two at once.
        new, other = await asyncio.gather(*(segue.store.open(url, clock=clock) for _ in range(2)))
        async with new, other:
            assert await new.write(version) == 2
            assert await look(new, session_id) == await look(other, session_id) == before
            assert list(await new.transcripts.load(session_id)) == MESSAGES
            assert texts(await other.transcripts.window(session_id, 9)) == ["so far"]


async def test_a_store_of_version_1_can_do_what_is_new_once_it_is_up_to_date(
    url: str, clock: FakeClock, version_1: pytest.MonkeyPatch
):
    async with await segue.store.open(url, clock=clock) as old:
        session_id = await fill(old)
    version_1.undo()
    async with await segue.store.open(url, clock=clock) as new:
        lease = await new.leases.acquire(session_id, "a terminal on sofa", take_over=True)
        picture = Message(Role.USER, "this one", NOON, images=(Image("image/png", b"\x89PNG"),))
        assert await new.transcripts.append(lease, [picture, said("look")]) == len(ROWS) + 2
        loaded = await new.transcripts.load(session_id)
        assert [m.images for m in loaded] == [()] * 4 + [picture.images, ()]
        await new.sessions.grant(lease, "0badcafe")
        assert await new.sessions.granted(session_id) == {"0badcafe"}
        assert (await new.notes.add("me", "likes roses")).number == 1
    async with await segue.store.open(url, clock=clock) as again:
        assert [note.text for note in await again.notes.list("me")] == ["likes roses"]
