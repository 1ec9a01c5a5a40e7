"""Messages are stored in order and atomically, and read back unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.core import provenance
from segue.core.address import Platform
from segue.core.errors import SessionError, SessionNotFound, UserError
from segue.core.provenance import Provenance
from segue.core.session import Session, Usage
from segue.core.transcript import Image, Kind, Message, Role, ToolCall, Transcript
from segue.store import Store, Tx, sessions, transcripts
from segue.store.transcripts import _PAGE
from segue.store.values import MESSAGE_LIMIT
from segue.testing.clock import FakeClock
from tests.store.samples import (
    AT,
    ODD,
    PICTURES,
    answered,
    called,
    hold,
    result,
    said,
    say,
    summary,
    texts,
)

NOWHERE = "20260101_120000_00000000"


# Appending


async def test_messages_are_read_back_in_the_order_in_which_they_were_appended(
    store: Store, session: Session
):
    lease = await hold(store, session.id)
    assert await transcripts.append(store, lease, [said("one")]) == 1
    assert await transcripts.append(store, lease, [answered("two"), said("three")]) == 3
    assert await transcripts.append(store, lease, []) == 3
    loaded = await transcripts.load(store, session.id)
    assert texts(loaded) == ["one", "two", "three"]
    assert [message.seq for message in loaded] == [1, 2, 3]


async def test_every_field_of_a_message_is_read_back_unchanged(store: Store, session: Session):
    calls = (
        ToolCall("call_1", "shell", '{"command": "echo \\"ü\\""}'),
        ToolCall("call_2", "read", "not even JSON \n"),
    )
    extras = {"signature": "abc==", "nested": {"list": [1, 2.5, None, True, "ü\0"]}}
    messages = [
        Message(Role.SYSTEM, "be brief", AT, kind=Kind.SYNTHETIC),
        Message(Role.USER, "grüß Gott 👋🏽 \u202e\u200b\r\n\t'\"\\ % :name", AT, tokens=12),
        Message(Role.ASSISTANT, "", AT, tool_calls=calls, tokens=3, extras=extras),
        Message(Role.TOOL, "", AT, tool_call_id="call_1", tool_name="shell", extras={}),
        Message(Role.TOOL, "x" * 100_000, AT, tool_call_id="call_2", tool_name="read"),
        Message(Role.SYSTEM, "so far", AT, kind=Kind.SUMMARY, tokens=2**40, keeps=3),
        Message(Role.ASSISTANT, "done", AT + timedelta(microseconds=1)),
        Message(Role.USER, "", AT, images=PICTURES),
    ]
    await say(store, session.id, *messages)
    loaded = await transcripts.load(store, session.id)
    assert list(loaded) == [msgspec.structs.replace(m, seq=i) for i, m in enumerate(messages, 1)]


async def test_every_way_of_reading_a_transcript_returns_its_pictures(
    store: Store, session: Session
):
    lease = await hold(store, session.id, Message(Role.USER, "look", AT, images=PICTURES))
    for read in (
        await transcripts.load(store, session.id),
        await transcripts.last(store, session.id, 1),
        await transcripts.tail(store, session.id, 1),
        await transcripts.window(store, session.id, 1),
        await transcripts.undo(store, lease),
        await transcripts.restore(store, lease),
    ):
        assert [message.images for message in read] == [PICTURES]


async def test_every_way_of_reading_a_transcript_returns_the_authors(
    store: Store, session: Session
):
    mixed = provenance.OWNER | provenance.STRANGER
    lease = await hold(store, session.id, Message(Role.USER, "look", AT, provenance=mixed))
    for read in (
        await transcripts.load(store, session.id),
        await transcripts.last(store, session.id, 1),
        await transcripts.tail(store, session.id, 1),
        await transcripts.window(store, session.id, 1),
        await transcripts.undo(store, lease),
        await transcripts.restore(store, lease),
    ):
        assert [message.provenance for message in read] == [mixed]


async def test_authors_of_a_window_whose_start_was_not_read_are_unknown(
    store: Store, session: Session
):
    owned = Message(Role.USER, "hi", AT, tokens=1, provenance=provenance.OWNER)
    await say(store, session.id, *[owned] * _PAGE)
    window = await transcripts.window(store, session.id, 10)
    assert window.provenance == provenance.OWNER
    await say(store, session.id, *[owned] * _PAGE)
    window = await transcripts.window(store, session.id, 10)
    assert window.provenance == provenance.OWNER | provenance.UNKNOWN


async def test_authors_of_a_session_are_those_since_its_last_summary(
    store: Store, session: Session
):
    def by(authors: Provenance, kind: Kind = Kind.SAID, keeps: int = 0) -> Message:
        return Message(Role.USER, "x", AT, kind=kind, keeps=keeps, provenance=authors)

    async def authors() -> Provenance:
        return await store.read(transcripts.authors, session.id)

    assert await authors() == provenance.NOTHING
    await say(store, session.id, by(provenance.FILE), by(provenance.STRANGER))
    assert await authors() == provenance.FILE | provenance.STRANGER
    await say(store, session.id, by(provenance.AGENT, Kind.SUMMARY, keeps=1))
    assert await authors() == provenance.AGENT | provenance.STRANGER
    lease = await hold(store, session.id, by(provenance.OWNER))
    assert await authors() == provenance.AGENT | provenance.STRANGER | provenance.OWNER
    await transcripts.undo(store, lease)
    assert await authors() == provenance.AGENT | provenance.STRANGER


async def test_pictures_count_towards_the_size_limit_of_a_message(store: Store, session: Session):
    lease = await hold(store, session.id)
    huge = Message(Role.USER, "look", AT, images=(Image("image/png", bytes(MESSAGE_LIMIT)),))
    with pytest.raises(UserError, match=r"That message has .* bytes"):
        await transcripts.append(store, lease, [huge])
    assert len(await transcripts.load(store, session.id)) == 0


async def test_times_in_any_zone_are_stored_to_the_microsecond(store: Store, session: Session):
    east = timezone(timedelta(hours=5, minutes=45))
    times = [
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 3, 29, 2, 30, 0, 1, tzinfo=east),
        datetime(2100, 1, 1, tzinfo=UTC),
    ]
    await say(store, session.id, *(Message(Role.USER, "now", at) for at in times))
    assert [m.at for m in await transcripts.load(store, session.id)] == times


async def test_unstorable_characters_are_replaced(store: Store, session: Session):
    marked = "a\ufffdb\ufffdc"
    await say(
        store,
        session.id,
        said(ODD),
        said("\0"),
        Message(Role.ASSISTANT, ODD, AT, tool_calls=(ToolCall(ODD, ODD, ODD),)),
        Message(Role.TOOL, ODD, AT, tool_call_id=ODD, tool_name=ODD),
    )
    plain, nul, call, done = await transcripts.load(store, session.id)
    assert (plain.content, nul.content) == (marked, "\ufffd")
    assert call.tool_calls == (ToolCall(marked, marked, marked),)
    assert (done.tool_call_id, done.tool_name) == (marked, marked)


async def test_unstorable_characters_in_the_extras_of_a_provider_are_replaced(
    store: Store, session: Session
):
    await say(store, session.id, Message(Role.ASSISTANT, "hm", AT, extras={"thought": [ODD]}))
    (kept,) = await transcripts.load(store, session.id)
    assert kept.extras is not None
    assert "a" in kept.extras["thought"][0]


async def test_an_append_of_several_messages_is_atomic(store: Store, session: Session):
    lease = await hold(store, session.id, said("before"))
    long = said("x" * (MESSAGE_LIMIT + 1))
    before = await sessions.get(store, session.id)
    with pytest.raises(UserError, match=r"That message has .* bytes"):
        await transcripts.append(store, lease, [said("a"), long, said("b")], usage=Usage(input=9))
    assert texts(await transcripts.load(store, session.id)) == ["before"]
    assert await sessions.get(store, session.id) == before
    assert await transcripts.append(store, lease, [said("after")]) == 2


async def test_a_message_of_exactly_the_size_limit_is_stored(store: Store, session: Session):
    body = "ü" * (MESSAGE_LIMIT // 2)
    await say(store, session.id, said(body))
    (kept,) = await transcripts.load(store, session.id)
    assert kept.content == body


async def test_a_message_that_is_too_long_by_its_tool_calls_is_refused(
    store: Store, session: Session
):
    lease = await hold(store, session.id)
    call = ToolCall("1", "write", "x" * MESSAGE_LIMIT)
    with pytest.raises(UserError, match=r"That message has .* bytes"):
        await transcripts.append(store, lease, [Message(Role.ASSISTANT, "", AT, (call,))])
    assert len(await transcripts.load(store, session.id)) == 0


async def test_an_append_outside_chats_takes_two_statements(store: Store, session: Session):
    lease = await hold(store, session.id, said("hello"))

    def append(tx: Tx) -> int:
        statements = 0

        def counted(run: Callable[..., Any]) -> Callable[..., Any]:
            def count(*args: Any, **values: Any) -> Any:
                nonlocal statements
                statements += 1
                return run(*args, **values)

            return count

        with pytest.MonkeyPatch.context() as patch:
            for name in ("rows", "each", "change", "change_many"):
                patch.setattr(tx, name, counted(getattr(tx, name)))
            transcripts.append(tx, lease, [answered("hi")])
        return statements

    assert await store.write(append) == 2


async def test_appends_from_many_callers_at_once_lose_nothing(store: Store, session: Session):
    lease = await hold(store, session.id)
    count = 200
    seqs = await asyncio.gather(
        *(transcripts.append(store, lease, [said(f"{i}")]) for i in range(count))
    )
    assert sorted(seqs) == list(range(1, count + 1))
    loaded = await transcripts.load(store, session.id)
    assert {m.seq: m.content for m in loaded} == {s: f"{i}" for i, s in enumerate(seqs)}


async def test_transcripts_of_different_sessions_are_separate(store: Store):
    made = [await sessions.create(store, "me", Platform.LOCAL) for _ in range(3)]
    for turn in range(3):
        for session in made:
            await say(store, session.id, said(f"{session.id} {turn}"))
    for session in made:
        expected = [f"{session.id} {turn}" for turn in range(3)]
        assert texts(await transcripts.load(store, session.id)) == expected
        assert texts(await transcripts.last(store, session.id, 99)) == expected
        assert texts(await transcripts.tail(store, session.id, 99)) == expected
        assert texts(await transcripts.window(store, session.id, 99)) == expected


async def test_usage_and_activity_are_counted_with_the_messages(
    store: Store, session: Session, clock: FakeClock
):
    lease = await hold(store, session.id)
    clock.advance(60)
    for _ in range(2):
        await transcripts.append(
            store, lease, [answered("hi")], usage=Usage(input=10, output=2, cached=7)
        )
    counted = await sessions.get(store, session.id)
    assert counted is not None
    assert counted.usage == Usage(input=20, output=4, cached=14)
    assert (counted.messages, counted.active) == (2, clock.now())
    assert counted.started == session.started


# Reading


async def test_a_session_without_messages_has_an_empty_transcript(store: Store, session: Session):
    for read in (
        transcripts.load(store, session.id),
        transcripts.last(store, session.id, 5),
        transcripts.tail(store, session.id, 5),
        transcripts.window(store, session.id, 5),
    ):
        assert await read == Transcript()


async def test_reading_an_unknown_session_is_an_error(store: Store):
    for read in (
        transcripts.load(store, NOWHERE),
        transcripts.last(store, NOWHERE, 5),
        transcripts.tail(store, NOWHERE, 5),
        transcripts.window(store, NOWHERE, 5),
    ):
        with pytest.raises(SessionNotFound):
            await read


async def test_the_last_messages_are_read_in_order(store: Store, session: Session):
    await say(store, session.id, *(said(f"{i}") for i in range(10)))
    for count in (0, 1, 3, 10, 11):
        last = await transcripts.last(store, session.id, count)
        assert texts(last) == [f"{i}" for i in range(10)][10 - min(count, 10) :]


async def test_only_the_messages_after_a_seq_are_read(store: Store, session: Session):
    await say(store, session.id, *(said(f"{i}") for i in range(1, 6)))
    assert texts(await transcripts.last(store, session.id, 10, after=3)) == ["4", "5"]
    assert texts(await transcripts.last(store, session.id, 1, after=3)) == ["5"]
    assert texts(await transcripts.last(store, session.id, 10, after=5)) == []


tokens = st.integers(0, 40)


def spoken(text: str, count: int) -> list[Message]:
    return [said(text, tokens=count)]


def summed(text: str, count: int, keeps: int) -> list[Message]:
    return [msgspec.structs.replace(summary(text, tokens=count), keeps=keeps)]


def worked(results: int, count: int) -> list[Message]:
    """A message with tool calls, and its results."""
    call = msgspec.structs.replace(called("shell"), tokens=count)
    return [
        call,
        *[msgspec.structs.replace(result(call.tool_calls[0]), tokens=count % 3)] * results,
    ]


blocks = st.one_of(
    st.builds(spoken, st.just("said"), tokens),
    st.builds(summed, st.just("summary"), tokens, st.sampled_from([0, 1, 2, 5, 2 * _PAGE])),
    st.builds(worked, st.integers(0, 4), tokens),
    st.builds(worked, st.sampled_from([_PAGE - 1, _PAGE, _PAGE + 1, 2 * _PAGE]), tokens),
)
conversations = st.lists(blocks, max_size=12).map(lambda parts: [m for part in parts for m in part])
budgets = st.one_of(st.integers(0, 60), st.integers(0, 3 * _PAGE), st.just(10**9))


def test_window_and_tail_equal_those_of_the_whole_transcript(store: Store, runner: asyncio.Runner):
    @settings(max_examples=25)
    @given(messages=conversations, wanted=st.lists(budgets, min_size=1, max_size=6))
    def check(messages: list[Message], wanted: list[int]) -> None:
        runner.run(same_ends(store, messages, wanted))

    check()


async def same_ends(store: Store, messages: list[Message], budgets: list[int]) -> None:
    session = await sessions.create(store, "me", Platform.LOCAL)
    await say(store, session.id, *messages)
    whole = await transcripts.load(store, session.id)
    assert len(whole) == len(messages)
    for budget in budgets:
        assert await transcripts.window(store, session.id, budget) == whole.window(budget)
        assert await transcripts.tail(store, session.id, budget) == whole.tail(budget)


async def test_window_and_tail_keep_a_tool_call_with_results_of_more_than_a_page(
    store: Store, session: Session
):
    group = worked(2 * _PAGE + 5, 1)
    await say(store, session.id, said("old"), *group)
    for read in (transcripts.window(store, session.id, 0), transcripts.tail(store, session.id, 0)):
        assert [m.seq for m in await read] == list(range(2, len(group) + 2))


async def test_a_window_starts_at_the_last_summary_however_far_back_it_is(
    store: Store, session: Session
):
    await say(store, session.id, said("forgotten"), summary("so far"))
    await say(store, session.id, *(said(f"{i}", tokens=5) for i in range(2 * _PAGE)))
    window = await transcripts.window(store, session.id, 12)
    assert texts(window) == ["so far", f"{2 * _PAGE - 2}", f"{2 * _PAGE - 1}"]
    tail = await transcripts.tail(store, session.id, 12)
    assert texts(tail) == [f"{2 * _PAGE - 2}", f"{2 * _PAGE - 1}"]


async def test_a_summary_in_one_session_does_not_affect_the_window_of_another(
    store: Store, session: Session
):
    await say(store, session.id, said("a"), said("b"))
    other = await sessions.create(store, "me", Platform.LOCAL)
    await say(store, other.id, said("c"), summary("so far"), said("d"))
    assert texts(await transcripts.window(store, session.id, 99)) == ["a", "b"]
    assert texts(await transcripts.window(store, other.id, 99)) == ["so far", "d"]


# Undo and restore


async def test_undo_removes_the_last_turn_and_returns_it(store: Store, session: Session):
    call = called("shell")
    lease = await hold(store, session.id, said("one"), answered("1"), said("two"))
    await transcripts.append(store, lease, [call, result(call.tool_calls[0], "!"), answered("2")])
    hidden = await transcripts.undo(store, lease)
    assert texts(hidden) == ["two", "", "!", "2"]
    assert [message.seq for message in hidden] == [3, 4, 5, 6]
    for read in (
        transcripts.load(store, session.id),
        transcripts.last(store, session.id, 9),
        transcripts.tail(store, session.id, 99),
        transcripts.window(store, session.id, 99),
    ):
        assert texts(await read) == ["one", "1"]


async def test_restore_brings_back_exactly_what_was_undone(store: Store, session: Session):
    lease = await hold(store, session.id, said("one"), answered("1"), said("two"), answered("2"))
    before = await transcripts.load(store, session.id)
    hidden = await transcripts.undo(store, lease, 2)
    assert texts(await transcripts.load(store, session.id)) == []
    assert await transcripts.restore(store, lease) == hidden
    assert await transcripts.load(store, session.id) == before
    with pytest.raises(SessionError, match="nothing to redo"):
        await transcripts.restore(store, lease)


async def test_restore_reverts_several_undos_in_a_row(store: Store, session: Session):
    lease = await hold(store, session.id, said("one"), said("two"), said("three"))
    await transcripts.undo(store, lease)
    await transcripts.undo(store, lease)
    assert texts(await transcripts.load(store, session.id)) == ["one"]
    assert texts(await transcripts.restore(store, lease)) == ["two", "three"]
    assert texts(await transcripts.load(store, session.id)) == ["one", "two", "three"]


async def test_restore_does_nothing_once_the_conversation_has_continued(
    store: Store, session: Session
):
    lease = await hold(store, session.id, said("one"), said("two"))
    await transcripts.undo(store, lease)
    assert await transcripts.append(store, lease, [said("instead")]) == 3
    with pytest.raises(SessionError, match="nothing to redo"):
        await transcripts.restore(store, lease)
    assert texts(await transcripts.load(store, session.id)) == ["one", "instead"]
    await transcripts.undo(store, lease)
    assert texts(await transcripts.restore(store, lease)) == ["instead"]
    assert texts(await transcripts.load(store, session.id)) == ["one", "instead"]


async def test_undoing_more_turns_than_there_are_is_refused(store: Store, session: Session):
    lease = await hold(store, session.id)
    with pytest.raises(SessionError, match="no earlier message of yours to undo"):
        await transcripts.undo(store, lease)
    await transcripts.append(store, lease, [said("one"), answered("1")])
    with pytest.raises(SessionError, match="no earlier message of yours to undo"):
        await transcripts.undo(store, lease, 2)
    assert texts(await transcripts.load(store, session.id)) == ["one", "1"]
    with pytest.raises(SessionError, match="nothing to redo"):
        await transcripts.restore(store, lease)


async def test_undo_does_not_count_synthetic_prompts_as_turns(store: Store, session: Session):
    prompt = Message(Role.USER, "say that you are here", AT, kind=Kind.SYNTHETIC)
    lease = await hold(store, session.id, said("one"), answered("1"), prompt, answered("here"))
    assert texts(await transcripts.undo(store, lease)) == [
        "one",
        "1",
        "say that you are here",
        "here",
    ]


async def test_undoing_a_summary_returns_its_messages_to_the_window(store: Store, session: Session):
    lease = await hold(
        store, session.id, summary("first"), said("one"), said("two"), summary("second"), said("3")
    )
    assert texts(await transcripts.window(store, session.id, 99)) == ["second", "3"]
    await transcripts.undo(store, lease, 2)
    assert texts(await transcripts.window(store, session.id, 99)) == ["first", "one"]
    await transcripts.restore(store, lease)
    assert texts(await transcripts.window(store, session.id, 99)) == ["second", "3"]
    await transcripts.undo(store, lease, 3)
    assert texts(await transcripts.window(store, session.id, 99)) == ["first"]


async def test_an_undo_does_not_affect_other_sessions(store: Store, session: Session):
    other = await sessions.create(store, "me", Platform.LOCAL)
    lease = await hold(store, session.id, said("one"))
    theirs = await hold(store, other.id, said("two"))
    await transcripts.undo(store, lease)
    assert texts(await transcripts.load(store, other.id)) == ["two"]
    with pytest.raises(SessionError, match="nothing to redo"):
        await transcripts.restore(store, theirs)
    assert texts(await transcripts.restore(store, lease)) == ["one"]
