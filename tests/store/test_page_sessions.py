"""Sessions as the page lists and shows them, on both databases."""

from __future__ import annotations

from datetime import UTC, timedelta
from pathlib import Path

import pytest

import segue.store
from segue.core.address import Address, ChatType, Platform
from segue.core.reset import ResetMode, ResetPolicy
from segue.core.session import EndReason, Origin, Session
from segue.core.transcript import Message, Role, ToolCall, spoken
from segue.store import (
    Store,
    Tx,
    bindings,
    database,
    inbox,
    leases,
    outbox,
    owners,
    page_sessions,
    pages,
    sessions,
    transcripts,
)
from segue.store.leases import Pause
from segue.store.outbox import Draft
from segue.store.page_sessions import LINES, SessionActivity
from segue.store.pages import Page
from segue.testing.clock import FakeClock
from segue.turns import queries
from tests.store.job_samples import ready, reported
from tests.store.samples import DM, on_sqlite
from tests.store.test_upgrade import Earlier, knows

TERMINAL = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id="t")


def at(page: Page) -> Address:
    return Address(
        platform=Platform.WEB, chat_type=ChatType.DM, chat_id=page.owner, thread_id=page.id
    )


async def say(store: Store, session: Session, *messages: Message) -> None:
    lease = await leases.acquire(store, session.id, "me", take_over=True)
    await transcripts.append(store, lease, messages)
    await leases.release(store, lease)


def answer(text: str, session: Session) -> Message:
    return Message(Role.ASSISTANT, text, session.started)


async def bound(store: Store, session: Session) -> Page:
    """A conversation on the page, where the session is."""
    page = await pages.begin(store, "me", "Sums", key="1")
    await bindings.rebind(store, session.id, at(page), Origin.RESUME)
    return page


async def test_an_entry_shows_what_the_session_is_doing(store: Store, session: Session):
    assert await page_sessions.list_entries(store, "me", limit=9) == ()
    lease = await leases.acquire(store, session.id, "me")
    call = Message(Role.ASSISTANT, "", session.started, tool_calls=(ToolCall("1", "ls", "{}"),))
    for message, activity, words in (
        (spoken("hello", session.started), SessionActivity.WORKING, "hello"),
        (call, SessionActivity.WORKING, "hello"),
        (
            Message(Role.TOOL, "x", session.started, tool_call_id="1"),
            SessionActivity.WORKING,
            "hello",
        ),
        (answer("Done.", session), SessionActivity.IDLE, "Done."),
    ):
        await transcripts.append(store, lease, [message])
        [entry] = await page_sessions.list_entries(store, "me", limit=9)
        assert (entry.activity, entry.last_words, entry.held) == (activity, words, True)
    await transcripts.append(store, lease, [spoken("more", session.started)])
    await leases.release(store, lease)
    [entry] = await page_sessions.list_entries(store, "me", limit=9)
    assert (entry.activity, entry.held) == (SessionActivity.IDLE, False)


async def test_an_entry_shows_that_its_session_waits_for_approval_or_is_paused(
    store: Store, session: Session
):
    async def activity() -> SessionActivity:
        [entry] = await page_sessions.list_entries(store, "me", limit=9)
        return entry.activity

    lease = await leases.acquire(store, session.id, "me")
    await transcripts.append(store, lease, [spoken("hello", session.started)])
    assert await leases.pause(store, lease, Pause.ASKING)
    assert await activity() is SessionActivity.ASKING
    await leases.pause(store, lease, None)
    assert await activity() is SessionActivity.WORKING
    await leases.pause(store, lease, Pause.STOPPED)
    assert await activity() is SessionActivity.IDLE
    await transcripts.append(store, lease, [spoken("go on", session.started)])
    assert await activity() is SessionActivity.WORKING
    await leases.pause(store, lease, Pause.ASKING)
    newer = await leases.acquire(store, session.id, "another", take_over=True)
    assert not await leases.pause(store, lease, Pause.ASKING)
    assert await activity() is SessionActivity.WORKING
    await leases.pause(store, newer, Pause.ASKING)
    await leases.release(store, newer)
    assert await activity() is SessionActivity.IDLE


async def test_the_title_of_an_old_session_is_found_by_its_beginning(
    store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(page_sessions, "_SEARCHED", 2)
    for title in ("Größe der Rosen", "Red roses", "White roses"):
        made = await sessions.create(store, "me", Platform.LOCAL, title=title)
        await say(store, made, answer("Yes.", made))
        clock.advance(1)

    async def titles(words: str) -> list[str | None]:
        found = await page_sessions.list_entries(store, "me", limit=2, words=words)
        return [entry.title for entry in found]

    assert await titles("ROS") == ["White roses", "Red roses"]
    assert await titles("größe d") == ["Größe der Rosen"]
    assert await titles("der") == []


@pytest.mark.parametrize("words", ["a%b", "a_b", "A!B"])
async def test_a_title_is_found_by_its_exact_words(store: Store, session: Session, words: str):
    await say(store, session, spoken("hello", session.started))
    await sessions.rename(store, session.id, "a%b a_b a!b")
    other = await sessions.create(store, "me", Platform.LOCAL, title="axb")
    await say(store, other, spoken("hello", session.started))
    found = await page_sessions.list_entries(store, "me", limit=9, words=words)
    assert [entry.id for entry in found] == [session.id]


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("Поездка в Москву", "Москву"),
        ("Поездка в Москву", "москву"),
        ("A week in Åsgård", "Åsgård"),
        ("A week in Åsgård", "åsgård"),
        ("A week in Åsgård", "asgard"),
        ("URLAUB IN ÖSTERREICH", "österreich"),
        ("Urlaub in Österreich", "Österreich"),
        ("Urlaub in Österreich", "O\u0308sterreich"),
        ("The letter Ø", "ø"),
        ("明日は東京へ", "東京"),
    ],
)
async def test_a_title_is_found_in_every_script_without_regard_to_case_and_accents(
    store: Store, session: Session, title: str, words: str
):
    await say(store, session, spoken("hello", session.started))
    await sessions.rename(store, session.id, title)
    found = await page_sessions.list_entries(store, "me", limit=9, words=words)
    assert [entry.id for entry in found] == [session.id]


@on_sqlite
async def test_the_list_reads_only_what_it_shows(store: Store):
    """In the order of an index, so that its cost does not grow with the number of sessions."""

    def plan(tx: Tx) -> str:
        sql = f"{page_sessions._SELECT} ORDER BY s.active DESC, s.no DESC LIMIT :limit"
        rows = tx.rows(f"EXPLAIN QUERY PLAN {sql}", owner="me", ticks=tx.ticks, limit=50)
        return "\n".join(row[3] for row in rows)

    steps = await store.read(plan)
    assert "USING INDEX sessions_by_activity (owner=?)" in steps
    assert "SCAN" not in steps
    assert "TEMP B-TREE" not in steps


async def test_a_message_that_the_transcript_shows_is_not_shown_twice(
    store: Store, session: Session
):
    page = await bound(store, session)
    said = await pages.say(store, page.id, "k", "b1", "hello")
    waiting = await page_sessions.part(store, "me", session.id)
    assert waiting is not None
    assert [(m.no, m.after) for m in waiting.messages] == [(said.no, None)]

    def begin(tx: Tx) -> None:
        pages.taken(tx, str(said.no), session.id)

    await say(store, session, spoken("hello", session.started))
    await store.write(begin)
    draft = Draft(key=f"{session.id}/2", address=at(page), body="Hi.", session_id=session.id)
    await outbox.enqueue(store, draft)
    await say(store, session, answer("Hi.", session))
    answered = await pages.show(store, page.id, f"{draft.key}/0", "Hi.")
    part = await page_sessions.part(store, "me", session.id)
    assert part is not None
    assert (part.messages, part.shows) == ((), {1: said.no, 2: answered.no})


async def test_undoing_a_turn_removes_its_questions(store: Store, session: Session):
    page = await bound(store, session)
    await say(store, session, spoken("one", session.started), answer("1", session))
    kept = await pages.show(store, page.id, "1", "kept")
    await say(store, session, spoken("two", session.started), answer("2", session))
    await pages.show(store, page.id, "2", "May I?")
    lease = await leases.acquire(store, session.id, "me")
    await transcripts.undo(store, lease)
    part = await page_sessions.part(store, "me", session.id)
    assert part is not None
    assert ([m.content for m in part.lines], [m.no for m in part.messages]) == (
        ["one", "1"],
        [kept.no],
    )
    entry = await page_sessions.find(store, "me", page.id)
    assert entry is not None
    assert (entry.id, entry.edits) == (session.id, 1)
    await transcripts.restore(store, lease)
    part = await page_sessions.part(store, "me", session.id)
    assert part is not None
    assert (len(part.lines), len(part.messages)) == (4, 2)


async def test_each_move_is_recorded_once_after_its_message(store: Store, session: Session):
    page = await bound(store, session)
    await say(store, session, spoken("one", session.started), answer("1", session))
    for address in (TERMINAL, TERMINAL, at(page), at(page)):
        await bindings.rebind(store, session.id, address, Origin.RESUME)
    part = await page_sessions.part(store, "me", session.id)
    assert part is not None
    assert [(move.address, move.seq) for move in part.moves] == [
        (at(page), 0),
        (TERMINAL, 2),
        (at(page), 2),
    ]


async def test_a_long_session_is_read_in_parts_without_gaps(store: Store, session: Session):
    count = 2 * LINES + 10
    await say(store, session, *(spoken(f"{n}", session.started) for n in range(1, count + 1)))
    seen: list[int] = []
    before = None
    while True:
        part = await page_sessions.part(store, "me", session.id, before=before)
        assert part is not None
        seen = [*(line.seq for line in part.lines), *seen]
        if not part.more:
            break
        before = seen[0]
    assert seen == list(range(1, count + 1))


async def test_another_owner_cannot_see_the_session(store: Store, session: Session):
    await owners.ensure(store, "you")
    page = await bound(store, session)
    await say(store, session, spoken("secret", session.started))
    for name in (session.id, page.id):
        assert await page_sessions.find(store, "you", name) is None
    assert await page_sessions.part(store, "you", session.id) is None
    assert await page_sessions.list_entries(store, "you", limit=9) == ()


# Earlier versions


@pytest.fixture
def before_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Earlier:
    return knows(12, tmp_path, monkeypatch)


async def test_after_an_upgrade_the_page_shows_the_transcript_and_open_questions(
    url: str, clock: FakeClock, before_moves: Earlier
):
    async with await segue.store.open(url, clock=clock) as old:
        await owners.ensure(old, "me", "Me")

        def fill(tx: Tx) -> None:
            tx.insert("sessions", id="s", owner="me", source="local", started=1, active=1)
            tx.insert("pages", id="p", owner="me", title="Sums", key="1", active=1, session="s")
            for key, buttons in (("1", None), ("2", '[["Allow","a:1:once"]]')):
                tx.insert(
                    "page_messages",
                    page="p",
                    key=key,
                    rev=1,
                    author="agent",
                    text=key,
                    buttons=buttons,
                    at=1,
                )

        await old.write(fill)
    before_moves.over()
    assert before_moves.version < database.LATEST
    async with await segue.store.open(url, clock=clock) as new:
        part = await page_sessions.part(new, "me", "s")
        assert part is not None
        assert [message.text for message in part.messages] == ["2"]


async def test_a_message_in_an_old_session_on_the_page_is_not_answered_by_a_new_one(
    store: Store, session: Session, clock: FakeClock
):
    idle = ResetPolicy(mode=ResetMode.IDLE, idle=timedelta(hours=1))
    page = await pages.begin(store, "me", "A page", key="a")
    for ends in (False, True):
        await page_sessions.enter(store, "me", session.id, at(page))
        clock.advance(7200)
        if ends:
            await sessions.close(store, session.id, None, EndReason.IDLE)
        await page_sessions.enter(store, "me", session.id, at(page))
        bound = await bindings.resolve(store, at(page), "me", policy=idle, zone=UTC)
        assert bound.session.id == session.id


async def test_the_page_does_not_bring_a_session_that_has_an_answer_to_finish(
    store: Store, session: Session
):
    page = await pages.begin(store, "me", "A page", key="a")
    await bindings.rebind(store, session.id, DM, Origin.RESUME)

    def be_interrupted(tx: Tx) -> int:
        no = inbox.record(tx, "bot", "1", DM, "hello")
        assert no is not None
        inbox.take(tx, [no], session.id)
        return no

    no = await store.write(be_interrupted)
    await page_sessions.enter(store, "me", session.id, at(page))
    assert await bindings.get(store, at(page)) is None
    await inbox.finish(store, [no])
    await page_sessions.enter(store, "me", session.id, at(page))
    assert await bindings.get(store, at(page)) is not None


async def test_a_report_that_the_transcript_gets_later_is_shown_once(
    store: Store, session: Session, clock: FakeClock
):
    page = await pages.begin(store, "me", "A page", key="a")
    await page_sessions.enter(store, "me", session.id, at(page))
    lease = await leases.acquire(store, session.id, "a terminal", seconds=7200)
    await bindings.rebind(store, session.id, TERMINAL, Origin.RESUME)
    await reported(store, clock, "origin", origin=at(page))
    assert await ready(store) == 0
    shown = await pages.show(store, page.id, "report:1/0", "rain")
    await store.write(queries.begin, lease, spoken("thanks", session.started), [], clock.now())
    part = await page_sessions.part(store, "me", session.id)
    assert part is not None
    assert [line.content for line in part.lines][-2:] == ["rain", "thanks"]
    assert part.shows[part.lines[-2].seq] == shown.no
    assert part.messages == ()
