"""A store of an earlier version is upgraded with all its data."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec import structs

import segue.store
from segue.approvals import queries as approvals
from segue.core import provenance
from segue.core.address import HomeChannel, Platform, Sender
from segue.core.approval import Answer
from segue.core.provenance import Author
from segue.core.session import SECOND, Origin, Session, Usage
from segue.core.transcript import Image, Kind, Message, Outcome, Role, ToolCall
from segue.handoffs import queries as handoffs
from segue.handoffs.values import Failure, State, Step
from segue.store import (
    Store,
    Tx,
    bindings,
    bubbles,
    database,
    gateways,
    inbox,
    leases,
    outbox,
    owners,
    pairings,
    postgres_schema,
    processes,
    search,
    sessions,
    sqlite,
    transcripts,
)
from segue.store.base import SqlDialect
from segue.store.gateways import LinkState
from segue.store.outbox import OutgoingState
from segue.testing.clock import FakeClock
from segue.turns import queries
from tests.store.samples import CHANNEL, DM, TOPIC, answered, draft, said, texts, waiting

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
# What versions 1 and 2 wrote for the messages beside it.
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
    Message(Role.USER, "where are my roses?", NOON, tokens=5, provenance=provenance.OWNER, seq=1),
    Message(
        Role.ASSISTANT,
        "",
        NOON,
        tool_calls=(ToolCall("1", "shell", "{}"),),
        extras={"signature": "abc"},
        provenance=provenance.AGENT,
        seq=2,
    ),
    Message(
        Role.TOOL,
        "in the garden",
        NOON,
        tool_call_id="1",
        tool_name="shell",
        provenance=frozenset({Author.TOOL}),
        seq=3,
    ),
    Message(Role.SYSTEM, "so far", NOON, kind=Kind.SUMMARY, seq=4),
]
# The outcome of each message; None for one that is still queued.
RECEIPTS = {"1": None, "2": "", "3": 'message "77"\n\\', "4": "78"}


OLD_REASONS = {
    Failure.CANCELLED: "Cancelled. The session stayed where it was.",
    Failure.EXPIRED: (
        "No gateway took it up in time. The session stayed where it was. Type `segue gateway"
        " status` to see whether one is running, `segue gateway start` if none is, then /handoff"
        " again."
    ),
    Failure.ABANDONED: (
        "The gateway stopped in the middle of it, and none went on with it. The session stayed"
        " where it was. Type `segue gateway status`, then /handoff again."
    ),
}

OLD_TEXTS = {
    "[interrupted: this tool call did not finish, and what it did is not known]": (
        Outcome.INTERRUPTED
    ),
    "[interrupted: this tool call was not begun, and nothing came of it]": Outcome.NOT_BEGUN,
    "[not allowed: the person said no to this call. Do not repeat it; ask, or do without.]": (
        Outcome.DENIED
    ),
    "[a list]": None,
    "done": None,
}


@dataclass(frozen=True)
class Earlier:
    """An earlier version of the program, until it is `over`."""

    version: int
    over: Callable[[], None]


@pytest.fixture(params=[1, 2])
def earlier(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Earlier:
    """A process of the earlier version, with the schema of that time."""

    def new_era(connection: apsw.Connection, era: str) -> None:
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('era', ?)", (era,))

    monkeypatch.setattr(sqlite, "_new_era", new_era)
    return knows(request.param, tmp_path, monkeypatch)


def knows(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Earlier:
    """The program with the migrations up to that version only."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    for script in database._FOLDER.glob("*.sql"):
        if int(script.name[:4]) <= version:
            shutil.copy(script, folder)
    monkeypatch.setattr(database, "_FOLDER", folder)
    monkeypatch.setattr(database, "LATEST", version)
    if version < 26:  # which knew no platforms, counts and queue of sessions

        def nothing(*_: object) -> int:
            return 0

        monkeypatch.setattr(sessions, "record_place", nothing)
        monkeypatch.setattr(sessions, "_count", nothing)
        monkeypatch.setattr(search, "queue", nothing)
    return Earlier(version, monkeypatch.undo)


def say(tx: Tx, session_id: str, rows: Sequence[dict[str, Any]] = ROWS) -> None:
    """Append `rows` as the earlier versions did."""
    (no,) = tx.one("SELECT no FROM sessions WHERE id = :id", id=session_id)
    common = {"kind": "said", "content": "", "tokens": 0, "undone": 0, "at": 1_767_268_800_000_000}
    optional = dict.fromkeys(("tool_calls", "tool_call_id", "tool_name", "extras"))
    tx.change_many(
        "INSERT INTO messages (id, role, kind, content, tool_calls, tool_call_id, tool_name,"
        " tokens, at, extras, undone) VALUES (:id, :role, :kind, :content, :tool_calls,"
        " :tool_call_id, :tool_name, :tokens, :at, :extras, :undone)",
        [common | optional | row | {"id": (no << 32) + i} for i, row in enumerate(rows, 1)],
    )
    sql = "UPDATE sessions SET last_seq = :last, summary_seq = 4 WHERE no = :no"
    tx.change(sql, last=len(rows), no=no)


def version(tx: Tx) -> int:
    if tx.dialect is SqlDialect.SQLITE:
        return tx.one("PRAGMA user_version")[0]
    return tx.one("SELECT version FROM schema_version")[0]


def place(tx: Tx, session_id: str) -> None:
    """Hold, bind and hand off a session, queue, send and receive messages, and register a gateway,
    as the earlier version did."""
    (no,) = tx.one("SELECT no FROM sessions WHERE id = :id", id=session_id)
    tx.change(
        "UPDATE sessions SET epoch = 1, holder = 'a terminal on desk', process = :me,"
        " lease_until = :until WHERE no = :no",
        me=tx.process,
        until=tx.ticks + 20 * SECOND,
        no=no,
    )
    tx.change(
        "INSERT INTO bindings (address, session_no, origin, version, bound)"
        " VALUES (:key, :no, 'resume', 3, :now)",
        key=CHANNEL.key,
        no=no,
        now=tx.now,
    )
    tx.change(
        "INSERT INTO handoffs (session_no, key, platform, epoch, seq, state, claim_by, requested,"
        " fence, attempt, process, lease_until, claimed, step, thread) VALUES (:no, 'asked',"
        " 'telegram', 1, 5, 'running', :claim_by, :now, 1, 1, :me, :lease, :now, :step, :thread)",
        no=no,
        claim_by=tx.ticks + 30 * SECOND,
        now=tx.now,
        me=tx.process,
        lease=tx.ticks + 15 * SECOND,
        step="opening a thread",
        thread=TOPIC.key,
    )
    for key, receipt in RECEIPTS.items():
        tx.change(
            "INSERT INTO outbox (key, platform, address, session_id, body, state, queued,"
            " receipt, finished) VALUES (:key, 'telegram', :address, :session, 'hello', :state,"
            " :now, :receipt, :finished)",
            key=key,
            address=DM.key,
            session=session_id,
            state="queued" if receipt is None else "sent",
            now=tx.now,
            receipt=receipt,
            finished=None if receipt is None else tx.now,
        )
    tx.change(
        "INSERT INTO inbox (platform, account, update_id, address, body, received)"
        " VALUES ('telegram', 'bot', '1', :address, 'hello', :now)",
        address=DM.key,
        now=tx.now,
    )
    tx.change(
        "INSERT INTO gateways VALUES (:me, 'gateway on desk', :now, :until)",
        me=tx.process,
        now=tx.now,
        until=tx.ticks + 15 * SECOND,
    )
    tx.change("INSERT INTO gateway_platforms VALUES ('telegram', :me)", me=tx.process)


def choose_home(tx: Tx) -> None:
    tx.insert("homes", owner="me", platform=DM.platform.value, address=DM.key, name="home")


async def fill(store: Store) -> Session:
    """Some rows in every table."""
    await owners.ensure(store, "me", "Me")
    await store.write(choose_home)
    await sessions.create(store, "me", Platform.SLACK)
    session = await sessions.create(store, "me", Platform.LOCAL, title="roses", cwd="/home/me")
    await store.write(say, session.id)
    await store.write(place, session.id)
    return session


async def test_an_older_store_is_upgraded_with_all_its_data(
    url: str, clock: FakeClock, earlier: Earlier, monkeypatch: pytest.MonkeyPatch
):
    async with await segue.store.open(url, clock=clock) as old:
        session = await fill(old)
        assert await old.write(version) == earlier.version
        earlier.over()
        # It counts as alive, but it does not keep the others from upgrading.
        monkeypatch.setattr(processes, "older", lambda _: [])
        monkeypatch.setattr(postgres_schema, "_older", lambda _: [])
        # By two processes at once.
        new, other = await asyncio.gather(*(segue.store.open(url, clock=clock) for _ in range(2)))
        async with new, other:
            assert await new.write(version) == database.LATEST
            assert list(await transcripts.load(new, session.id)) == MESSAGES
            assert texts(await transcripts.window(other, session.id, 9)) == ["so far"]
            await everything_is_there(new, session, old.process)
            await everything_is_there(other, session, old.process)


async def everything_is_there(store: Store, session: Session, gateway: str) -> None:
    assert [owner.name for owner in await owners.all_owners(store)] == ["Me"]
    assert await owners.homes(store, "me") == (HomeChannel(address=DM, name="home"),)
    there = await sessions.get(store, session.id)
    assert there == structs.replace(session, address=CHANNEL, messages=len(ROWS))
    assert len(await sessions.list_sessions(store, "me")) == 2
    (binding,) = await bindings.list_bindings(store, "me")
    assert (binding.session_id, binding.origin, binding.version) == (session.id, Origin.RESUME, 3)
    lease = await leases.get(store, session.id)
    assert lease is not None
    assert lease.holder == "a terminal on desk"
    handoff = await handoffs.current(store, session.id)
    assert handoff is not None
    assert (handoff.state, handoff.step, handoff.thread) == (State.RUNNING, Step.OPENING, TOPIC)
    assert handoff.reply is None
    assert [hit.session_id for hit in await search.messages(store, "me", "roses")] == [session.id]
    (incoming,) = await inbox.waiting(store, [Platform.TELEGRAM])
    assert (incoming.body, incoming.session_id) == ("hello", None)
    for key, receipt in RECEIPTS.items():
        outgoing = await outbox.get(store, key)
        assert outgoing is not None
        assert outgoing.receipts == ((receipt,) if receipt else ())
        assert (outgoing.body, outgoing.buttons, outgoing.reported) == ("hello", (), False)
        assert outgoing.state is (OutgoingState.QUEUED if key == "1" else OutgoingState.SENT)
    (alive,) = await gateways.alive(store)
    assert (alive.process, alive.platforms) == (gateway, {Platform.TELEGRAM})
    assert alive.links[Platform.TELEGRAM].state is LinkState.CONNECTING


async def test_an_upgrade_turns_failure_messages_into_failure_kinds(
    url: str, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    messages = {**OLD_REASONS, Failure.ERROR: "Telegram does not answer."}
    before = knows(9, tmp_path, monkeypatch)
    async with await segue.store.open(url, clock=clock) as old:
        await owners.ensure(old, "me", "Me")
        session = await sessions.create(old, "me", Platform.LOCAL)
        for message in messages.values():
            await old.write(fail_handoff, session.id, message)
    before.over()
    async with await segue.store.open(url, clock=clock) as new:
        found = reversed(await handoffs.history(new, session.id))
        assert {handoff.failure: handoff.error for handoff in found} == messages


async def test_an_upgrade_turns_result_texts_into_outcomes(
    url: str, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before = knows(10, tmp_path, monkeypatch)
    async with await segue.store.open(url, clock=clock) as old:
        await owners.ensure(old, "me", "Me")
        session = await sessions.create(old, "me", Platform.LOCAL)
        await old.write(say, session.id, [{"role": "tool", "content": text} for text in OLD_TEXTS])
    before.over()
    async with await segue.store.open(url, clock=clock) as new:
        found = await transcripts.load(new, session.id)
        assert {m.content: m.outcome for m in found} == OLD_TEXTS


OLD_AUTHORS = {
    ("user", "said", "hello"): "owner",
    ("user", "said", "[The user forwarded this. It was written by x:]\n> hi"): "unknown",
    ("user", "said", "[The user replies to this message. It was written by x:]\n> hi"): (
        "owner,unknown"
    ),
    ("user", "said", "look\n\n[attached file: /tmp/x]"): "owner,file",
    ("user", "synthetic", "[Job 1 is due]"): "unknown",
    ("assistant", "said", "hi"): "agent",
    ("tool", "said", "a page"): "tool",
    ("system", "summary", "so far"): "unknown",
    ("system", "synthetic", "[undelivered]"): "unknown",
}


async def test_an_upgrade_finds_the_authors_of_messages(
    url: str, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before = knows(17, tmp_path, monkeypatch)
    names = ("role", "kind", "content")
    rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in OLD_AUTHORS]
    async with await segue.store.open(url, clock=clock) as old:
        await owners.ensure(old, "me", "Me")
        session = await sessions.create(old, "me", Platform.LOCAL)
        await old.write(say, session.id, rows)
        await old.write(_keep_a_note)
        before.over()
        monkeypatch.setattr(processes, "older", lambda _: [])
        monkeypatch.setattr(postgres_schema, "_older", lambda _: [])
        async with await segue.store.open(url, clock=clock) as new:
            # A process of the earlier version still writes.
            await old.write(_say_more, session.id, {"role": "user", "content": "more"})
            found = await transcripts.load(new, session.id)
            authors = [provenance.encode(m.provenance) for m in found]
            assert authors == [*OLD_AUTHORS.values(), "unknown"]
            (note,) = await owners.list_notes(new, "me")
            assert note.provenance == provenance.UNKNOWN


def _keep_a_note(tx: Tx) -> None:
    tx.change("INSERT INTO notes VALUES ('me', 1, 'likes tea', 0)")


def _say_more(tx: Tx, session_id: str, row: dict[str, Any]) -> None:
    (no, last) = tx.one("SELECT no, last_seq FROM sessions WHERE id = :id", id=session_id)
    tx.change(
        "INSERT INTO messages (id, role, kind, content, tokens, at)"
        " VALUES (:id, :role, 'said', :content, 0, 0)",
        id=(no << 32) + last + 1,
        **row,
    )


def fail_handoff(tx: Tx, session_id: str, message: str) -> None:
    tx.change(
        "INSERT INTO handoffs (session_no, key, platform, epoch, seq, state, claim_by, requested,"
        " finished, error) SELECT no, :message, 'telegram', 1, 0, 'failed', 0, :now, :now, :message"
        " FROM sessions WHERE id = :id",
        id=session_id,
        message=message,
        now=tx.now,
    )


async def test_an_upgraded_store_supports_new_features(
    url: str, clock: FakeClock, earlier: Earlier
):
    async with await segue.store.open(url, clock=clock) as old:
        session = await fill(old)
    earlier.over()
    async with await segue.store.open(url, clock=clock) as new:
        lease = await leases.acquire(new, session.id, "a terminal on sofa", take_over=True)
        picture = Message(Role.USER, "this one", NOON, images=(Image("image/png", b"\x89PNG"),))
        await gateways.announce(new, "takes over", [DM.platform])
        (incoming,) = await inbox.waiting(new)
        await transcripts.append(new, lease, [picture])
        await new.write(queries.begin, lease, said("look"), [incoming.no], NOON)
        answer = answered("a rose")
        await new.write(queries.add, lease, answer, Usage(), inbox_ids=[incoming.no], deliver_to=DM)
        loaded = await transcripts.load(new, session.id)
        assert [m.images for m in loaded] == [()] * 4 + [picture.images, (), ()]
        assert await waiting(new, DM) == 2
        await outbox.enqueue(new, structs.replace(draft("5"), buttons=(("Yes", "y"),)))
        await approvals.grant(new, lease, "0badcafe")
        assert await approvals.granted(new, session.id) == {"0badcafe"}
        assert (await owners.add_note(new, "me", "likes roses")).number == 1
        asked = await approvals.ask(new, lease, "1", "0badcafe", "rm", CHANNEL, seconds=60)
        await approvals.give(new, asked.id, "me", CHANNEL, Answer.NEVER)
        code = await pairings.begin(new, "me")
        await pairings.redeem(new, code, Sender(platform=Platform.TELEGRAM, user_id="42"))
        assert not await owners.introduced(new, "me")
        await bubbles.put(new, DM, "79")
    async with await segue.store.open(url, clock=clock) as again:
        assert [note.text for note in await owners.list_notes(again, "me")] == ["likes roses"]
        assert await bubbles.shown(again, [Platform.TELEGRAM]) == {DM: "79"}
        assert await owners.introduced(again, "me")
