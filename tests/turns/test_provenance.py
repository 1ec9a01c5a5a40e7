"""Text from outside, however it reached the agent, is not sent to a host that was only named."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from segue.agent.models.scripted import ScriptedModel, Step
from segue.core import provenance
from segue.core.address import Address, ChatType, Platform
from segue.core.approval import Answer
from segue.core.context import Context
from segue.core.errors import ModelBusy
from segue.core.events import Event, TurnPaused
from segue.core.provenance import Author, Provenance
from segue.core.session import Session
from segue.core.transcript import Kind, Message, Role, spoken
from segue.store import owners, sessions, transcripts
from segue.turns import Place, hold
from tests.harness.approver import Approver
from tests.turns.conftest import Desk, call
from tests.turns.test_compaction import CONTEXT, talk
from tests.turns.test_exfiltration import sites

NAMED = "What is new on {url}/news ?"


async def asks(
    desk: Desk,
    session: Session,
    place: Place = Place(),  # noqa: B008 - a value
    *,
    before: Sequence[Step] = (),
    context: int = 100_000,
    is_paused: bool = False,
) -> bool:
    """Whether the agent has to ask before it fetches another page of a host that was named.
    `before` is what the model answers first. `is_paused`: the turn is paused and then resumed."""
    person = Approver(always=Answer.NEVER)
    place = replace(place, approve=person)
    pause = asyncio.Event()
    async with sites() as (site, url):
        said = NAMED.format(url=url)
        model = ScriptedModel(
            [*before, call("fetch_page", 9, url=f"{url}/?q=secret"), "Ok."], context=context
        )
        async with desk.turns(model, private_network=True) as turns:
            if is_paused:
                events: list[Event] = []
                async for event in turns.take_turn(session.id, said, place, pause=pause):
                    events.append(event)
                    pause.set()
                assert isinstance(events[-1], TurnPaused)
            rest = None if is_paused else said
            turn = turns.take_turn(session.id, rest, place, paused=is_paused)
            _ = [event async for event in turn]
        assert bool(site.heard) is not bool(person.asked)
    return bool(person.asked)


async def test_a_conversation_of_the_owner_and_the_agent_may_use_a_host_that_was_named(
    desk: Desk, session: Session
):
    await desk.take(["Hello."], session, "hi")
    assert not await asks(desk, session)


@pytest.mark.parametrize("author", [Author.FILE, Author.STRANGER, Author.UNKNOWN])
async def test_a_message_with_words_of_others_counts(desk: Desk, session: Session, author: Author):
    said = spoken("> secret\n\nsee above", session.started, provenance.OWNER | {author})
    await desk.take(["I see."], session, said)
    assert await asks(desk, session)


async def test_an_imported_conversation_counts(desk: Desk, session: Session):
    await desk.take(["Hello."], session, "hi")
    lines = [line async for line in transcripts.export(desk.store, "me", session.id)]
    imported = await transcripts.import_lines(desk.store, "me", lines)
    assert await asks(desk, imported)


async def test_a_retried_message_keeps_its_authors(desk: Desk, session: Session):
    said = spoken("> secret", session.started, provenance.STRANGER)
    await desk.take(["I see."], session, said)
    async with hold(desk.store, session.id, "a terminal") as held:
        undone = await transcripts.undo(desk.store, held.lease)
    assert not await asks(desk, session)
    await desk.take(["I see."], session, structs.replace(undone.messages[0], seq=0))
    assert await asks(desk, session)


# Summaries


async def compressed(desk: Desk, session: Session) -> Message:
    model = ScriptedModel(["They talked."], context=100_000)
    async with desk.turns(model) as turns:
        return await turns.compress(session.id, Place())


async def test_a_summary_has_the_authors_of_what_it_condenses(
    desk: Desk, session: Session, cwd: Path
):
    (cwd / "diary").write_text("secret")
    await desk.take([call("read_file", path="diary"), "It says secret."], session, "Read my diary.")
    await desk.take(["And more."] * 3, session, "Go on.")
    await desk.take(["And more."] * 3, session, "Go on.")
    summary = await compressed(desk, session)
    assert summary.provenance == provenance.OWNER | provenance.AGENT | {Author.TOOL}
    window = await transcripts.window(desk.store, session.id, 10_000)
    assert Role.TOOL not in [message.role for message in window]
    assert await asks(desk, session)


async def test_a_summary_of_a_summary_does_too(desk: Desk, session: Session):
    await desk.take(["I see."], session, spoken("> secret", session.started, provenance.STRANGER))
    for _ in range(2):
        for number in range(3):
            await desk.take([f"And {number}."], session, "Go on.")
        summary = await compressed(desk, session)
        assert Author.STRANGER in summary.provenance
    assert await asks(desk, session)


async def test_a_summary_of_what_only_the_owner_and_the_agent_said_does_not_count(
    desk: Desk, session: Session
):
    for _ in range(4):
        await desk.take(["And more."], session, "Go on.")
    assert (await compressed(desk, session)).kind is Kind.SUMMARY
    assert not await asks(desk, session)


async def test_what_no_longer_fits_counts(desk: Desk, session: Session, cwd: Path):
    (cwd / "diary").write_text("secret")
    await desk.take([call("read_file", path="diary"), "It says secret."], session, "Read my diary.")
    await talk(desk, session, 6)
    busy = ModelBusy(provider="It", reason="full")  # so there is no summary
    assert await asks(desk, session, before=[busy], context=CONTEXT)


# The system prompt


async def test_the_file_of_a_project_counts_and_so_does_what_was_said_with_it(
    desk: Desk, session: Session, cwd: Path
):
    (cwd / "AGENTS.md").write_text("Our secret is tulip.")
    assert await asks(desk, session)
    (cwd / "AGENTS.md").unlink()
    assert await asks(desk, session)


async def test_the_topic_of_a_chat_counts(desk: Desk, session: Session):
    group = Address(platform=Platform.TELEGRAM, chat_type=ChatType.GROUP, chat_id="1")
    direct = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="2")
    await sessions.rename(desk.store, session.id, "My roses")
    for chat, topic, counts in (
        (group, "", False),
        (group, "My roses", False),  # the title of the session
        (direct, "Only the owner can choose it", False),
        (group, "Fetch it", True),
    ):
        place = Place(context=Context(source=chat, topic=topic))
        assert await asks(desk, session, place) is counts


@pytest.mark.parametrize(
    ("by", "counts"), [(provenance.OWNER, False), (provenance.AGENT | provenance.FILE, True)]
)
async def test_a_note_counts_as_its_authors(
    desk: Desk, session: Session, by: Provenance, counts: bool
):
    await owners.add_note(desk.store, "me", "likes tea", by)
    assert await asks(desk, session) is counts


async def test_a_note_that_the_agent_keeps_inherits_what_it_has_read(
    desk: Desk, session: Session, cwd: Path
):
    (cwd / "diary").write_text("secret")
    place = Place(approve=Approver(always=Answer.ONCE))
    script = [call("read_file", 1, path="diary"), call("remember", 2, text="secret"), "Ok."]
    await desk.take(script, session, "Read my diary.", place)
    (note,) = await owners.list_notes(desk.store, "me")
    assert note.provenance == provenance.OWNER | provenance.AGENT | {Author.TOOL}
    fresh = await sessions.create(desk.store, "me", Platform.LOCAL)
    assert await asks(desk, fresh)


async def test_a_note_that_is_kept_without_asking_inherits_it_as_well(desk: Desk, session: Session):
    await desk.take(["I see."], session, spoken("> secret", session.started, provenance.STRANGER))
    async with desk.turns([call("remember", text="secret"), "Ok."]) as turns:
        await turns.take_synthetic_turn(session.id, Place(), "Note it.", only=("remember",))
    (note,) = await owners.list_notes(desk.store, "me")
    assert Author.STRANGER in note.provenance


# Going on elsewhere


async def test_a_turn_that_was_paused_counts_what_it_read_before(
    desk: Desk, session: Session, cwd: Path
):
    (cwd / "diary").write_text("secret")
    reading = call("read_file", path="diary")
    assert await asks(desk, session, before=[reading], is_paused=True)
