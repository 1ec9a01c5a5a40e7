"""Resuming a session whose turn is running elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import pytest

import segue.store
from segue.approvals import queries as approvals
from segue.core.address import Platform
from segue.core.errors import SessionMoved
from segue.core.session import ME, Lease, Origin, Session
from segue.core.transcript import Kind, Message, Role
from segue.store import Store, bindings, gateways, leases, owners, sessions, transcripts
from tests.harness.pty import Terminal
from tests.harness.terminal import Person
from tests.store.samples import AT, DM, answered, said


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that a gateway runs in a chat until the test ends it."""

    store: Store
    session: Session
    lease: Lease

    async def end(self, *more: Message) -> None:
        answer = answered("The ferry goes at nine.")
        await transcripts.append(self.store, self.lease, [answer, *more])
        await leases.release(self.store, self.lease)


@contextlib.asynccontextmanager
async def a_turn(person: Person, *, serving: bool = True) -> AsyncGenerator[Turn]:
    """A turn in the session Boats, on Telegram, by a gateway unless it is not `serving`."""
    async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
        await owners.ensure(store, ME)
        if serving:
            await gateways.announce(store, "gateway", [Platform.TELEGRAM], seconds=600)
        session = await sessions.create(store, ME, Platform.TELEGRAM, title="Boats")
        await bindings.rebind(store, session.id, DM, Origin.MESSAGE)
        lease = await leases.acquire(store, session.id, "the gateway", seconds=600)
        await transcripts.append(store, lease, [said("When does the ferry go?")])
        yield Turn(store, session, lease)


async def waiting(shown: Terminal) -> None:
    await shown.shows(f"The agent is answering on {DM}. Waiting for it… Ctrl-C to stop waiting.")


async def test_resume_waits_for_the_end_of_a_running_turn(person: Person):
    async with a_turn(person) as turn, person.opens("resume", "Boats") as shown:
        await waiting(shown)
        await turn.end()
        await shown.shows("The answer is complete.")
        await shown.shows("The ferry goes at nine.")
        await shown.see("Boats · scripted · here")
        await shown.ready()
        shown.say("thanks")
        await shown.shows("what I hear: thanks")


@pytest.mark.parametrize("within", [False, True])
async def test_a_resumed_session_shows_that_an_answer_did_not_arrive(person: Person, within: bool):
    notice = "[This did not arrive at Telegram: 'The ferry'. The reason: the bot was blocked]"
    async with a_turn(person) as turn:
        undelivered = Message(Role.SYSTEM, notice, AT, kind=Kind.SYNTHETIC)
        await turn.end(undelivered)
        async with person.opens(*([] if within else ["resume", "Boats"])) as shown:
            if within:
                await shown.ready()
                shown.say("/resume Boats")
            await shown.shows("The ferry goes at nine.")
            await shown.shows("This did not arrive at Telegram")


async def test_resume_within_a_conversation_waits_for_a_running_turn(person: Person):
    async with a_turn(person) as turn, person.opens() as shown:
        await shown.ready()
        shown.say("/resume Boats")
        await waiting(shown)
        await turn.end()
        await shown.shows("The ferry goes at nine.")
        await shown.see("Boats · scripted · here")


async def test_resume_names_the_question_that_the_turn_waits_for(person: Person):
    async with a_turn(person) as turn:
        asked = await approvals.ask(turn.store, turn.lease, "1", "f", "make", DM, seconds=600)
        async with person.opens("resume", "Boats") as shown:
            await waiting(shown)
            await shown.shows(f"It waits for your answer to question {asked.id} on {DM}: make")
            await turn.end()


async def test_a_user_who_stops_waiting_can_leave_the_session_there(person: Person):
    async with a_turn(person) as turn, person.opens("resume", "Boats") as shown:
        await waiting(shown)
        await shown.until(lambda: shown.status.startswith("Boats · scripted"), "the status")
        assert "working" not in shown.text, "it works elsewhere"
        shown.press("c-c")
        await shown.see("Take it over? [y]es, [n]o")
        shown.say("n")
        await shown.shows("“Boats” stays where it is. This is a new session.")
        await shown.until(lambda: shown.status == "new session · scripted", "the status")
        await shown.ready()
        await turn.end()


async def test_a_user_who_stops_waiting_can_still_take_it_over(person: Person):
    async with a_turn(person) as turn, person.opens("resume", "Boats") as shown:
        await waiting(shown)
        shown.press("c-c")
        await shown.see("Take it over? [y]es, [n]o")
        shown.say("y")
        await shown.shows("Took over the session from the gateway. Work there was interrupted.")
        await shown.see("Boats · scripted · here")
        with pytest.raises(SessionMoved):
            await turn.end()


async def test_with_now_the_turn_is_interrupted_and_the_user_is_notified(person: Person):
    async with a_turn(person) as turn, person.opens("resume", "--now", "Boats") as shown:
        await shown.shows("Took over the session from the gateway. Work there was interrupted.")
        await shown.see("Boats · scripted · here")
        assert "The agent is answering" not in shown.text
        with pytest.raises(SessionMoved):
            await turn.end()


async def test_now_prints_nothing_if_no_turn_is_running(person: Person):
    async with a_turn(person) as turn:
        await turn.end()
        async with person.opens("resume", "--now", "Boats") as shown:
            await shown.see("Boats · scripted · here")
            assert "interrupted" not in shown.text


async def test_resume_does_not_wait_for_another_terminal(person: Person):
    async with a_turn(person, serving=False), person.opens("resume", "Boats") as shown:
        await shown.shows("This session is open in the gateway.")
        await shown.see("Take it over? [y]es, [n]o")
