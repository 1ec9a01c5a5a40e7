"""Reports of runs, in the store: where they go, and what became of them."""

from __future__ import annotations

import pytest
from msgspec import structs

from segue.approvals import queries as approvals
from segue.core import provenance
from segue.core.address import Address, HomeChannel, Platform
from segue.core.errors import BadJob, HandoffError
from segue.core.session import Origin, Session
from segue.core.transcript import Kind, Role
from segue.handoffs import queries as handoffs
from segue.jobs.queries import reports, runs
from segue.jobs.schedule import Once
from segue.jobs.values import ReportState, parse_targets
from segue.store import (
    Store,
    bindings,
    deliveries,
    gateways,
    leases,
    outbox,
    owners,
    sessions,
    transcripts,
)
from segue.store.outbox import OutgoingState
from segue.testing.clock import FakeClock
from segue.turns import queries
from tests.store.job_samples import (
    DAY,
    HOUR,
    NOON,
    claimed,
    fail_sending,
    finish,
    make,
    pass_on,
    ready,
    reported,
    states,
)
from tests.store.samples import CHANNEL, DM, ROOM, TOPIC, answered, hold, said, say


async def test_a_report_is_appended_to_the_conversation_at_its_address_and_queued(
    store: Store, clock: FakeClock, session: Session
):
    await bindings.rebind(store, session.id, DM, Origin.RESUME)
    await say(store, session.id, said("hello"), answered("hello"))
    job_id = await reported(store, clock, "origin", origin=DM)
    assert await ready(store) == 0
    *_, intro, report = await transcripts.load(store, session.id)
    assert (intro.role, intro.kind) == (Role.USER, Kind.SYNTHETIC)
    assert f'Job {job_id}, "weather"' in intro.content
    assert (report.role, report.content) == (Role.ASSISTANT, "rain")
    (sending,) = await deliveries.claim(store, [Platform.TELEGRAM])
    assert (sending.address, sending.body, sending.session_id) == (DM, "rain", session.id)
    assert await states(store, job_id) == [("origin", DM, ReportState.QUEUED)]


async def test_a_report_has_the_authors_of_what_its_run_has_read(
    store: Store, clock: FakeClock, session: Session
):
    await bindings.rebind(store, session.id, DM, Origin.RESUME)
    await make(store, deliver="origin", origin=DM, provenance=provenance.OWNER)
    clock.advance(3600)
    claim = await claimed(store)
    read = structs.replace(answered("rain"), provenance=provenance.AGENT | provenance.FILE)
    await say(store, claim.session_id, read)
    await runs.finish(store, claim, "rain")
    await ready(store)
    intro, report = await transcripts.load(store, session.id)
    assert intro.provenance == provenance.PROGRAM | provenance.OWNER
    assert report.provenance == provenance.AGENT | provenance.FILE


async def test_a_text_that_is_delivered_as_it_is_has_the_authors_of_its_job(
    store: Store, clock: FakeClock, session: Session
):
    await bindings.rebind(store, session.id, DM, Origin.RESUME)
    by = provenance.AGENT | provenance.STRANGER
    await reported(store, clock, "origin", origin=DM, verbatim=True, provenance=by)
    await ready(store)
    _, report = await transcripts.load(store, session.id)
    assert report.provenance == by


async def test_the_authors_of_an_error_are_unknown(
    store: Store, clock: FakeClock, session: Session
):
    await bindings.rebind(store, session.id, DM, Origin.RESUME)
    await make(store, deliver="origin", origin=DM, provenance=provenance.OWNER)
    clock.advance(3600)
    await runs.fail(store, await claimed(store), "The command says: go to example.com")
    await ready(store)
    _, report = await transcripts.load(store, session.id)
    assert report.provenance == provenance.OWNER | provenance.UNKNOWN


async def test_a_report_waits_while_the_session_there_is_in_use(
    store: Store, clock: FakeClock, session: Session
):
    await bindings.rebind(store, session.id, DM, Origin.RESUME)
    job_id = await reported(store, clock, "origin", origin=DM)
    lease = await hold(store, session.id, said("and now?"))
    assert await ready(store) == 1
    assert await states(store, job_id) == [("origin", DM, ReportState.WAITING)]
    await transcripts.append(store, lease, [answered("now this")])
    await leases.release(store, lease)
    assert await ready(store) == 0
    contents = [message.content for message in await transcripts.load(store, session.id)]
    assert contents[:2] == ["and now?", "now this"]
    assert contents[-1] == "rain"


async def test_a_report_does_not_wait_for_the_answer_to_a_question(
    store: Store, clock: FakeClock, session: Session
):
    await bindings.rebind(store, session.id, DM, Origin.RESUME)
    await reported(store, clock, "origin", origin=DM)
    lease = await hold(store, session.id, said("clean up"))
    assert await ready(store) == 1
    await approvals.ask(store, lease, "call 1", "f" * 64, "rm -r build", DM, seconds=3600)
    assert await ready(store) == 0
    (aside,) = await store.read(queries.reports_aside, session.id)
    assert not aside.is_appended


async def test_a_report_waits_while_the_session_there_is_handed_off(
    store: Store, clock: FakeClock, session: Session
):
    await bindings.rebind(store, session.id, DM, Origin.RESUME)
    await reported(store, clock, "origin", origin=DM)
    handoff = await handoffs.request(store, session.id, Platform.SLACK)
    assert await ready(store) == 1
    await handoffs.cancel(store, handoff.id)
    assert await ready(store) == 0


async def test_a_report_does_not_move_a_session_that_has_left_its_door(
    store: Store, clock: FakeClock, session: Session
):
    await bindings.rebind(store, session.id, TOPIC, Origin.RESUME)
    await bindings.rebind(store, session.id, CHANNEL, Origin.RESUME)
    await reported(store, clock, "origin", origin=TOPIC)
    assert await ready(store) == 0
    assert (await transcripts.load(store, session.id)).messages[-1].content == "rain"
    moved = await sessions.get(store, session.id)
    assert moved is not None
    assert moved.address == CHANNEL


async def test_a_report_is_sent_at_once_to_the_thread_of_a_session_that_is_open_elsewhere(
    store: Store, clock: FakeClock, session: Session
):
    await bindings.rebind(store, session.id, TOPIC, Origin.RESUME)
    await bindings.rebind(store, session.id, CHANNEL, Origin.RESUME)
    lease = await hold(store, session.id, said("hello"), answered("hello"))
    job_id = await reported(store, clock, "origin", origin=TOPIC)
    lease = await leases.renew(store, lease)
    assert await ready(store) == 0
    sending = await outbox.get(store, "report:1")
    assert sending is not None
    assert (sending.address, sending.body, sending.session_id) == (TOPIC, "rain", session.id)
    assert await states(store, job_id) == [("origin", TOPIC, ReportState.QUEUED)]
    (aside,) = await store.read(queries.reports_aside, session.id)
    assert (aside.job, aside.body, aside.is_appended) == ("weather", "rain", False)
    # The holder alone appends: its next turn begins with the report.
    assert len((await transcripts.load(store, session.id)).messages) == 2
    await store.write(queries.begin, lease, said("thanks"), [], clock.now())
    *_, intro, report, thanks = await transcripts.load(store, session.id)
    assert f'Job {job_id}, "weather"' in intro.content
    assert (report.role, report.content) == (Role.ASSISTANT, "rain")
    assert thanks.content == "thanks"
    (aside,) = await store.read(queries.reports_aside, session.id)
    assert aside.is_appended
    await store.write(queries.begin, lease, said("bye"), [], clock.now())
    contents = [message.content for message in await transcripts.load(store, session.id)]
    assert contents.count("rain") == 1


async def test_a_report_where_there_is_no_session_begins_one(store: Store, clock: FakeClock):
    await owners.set_home(store, "me", HomeChannel(address=DM))
    await reported(store, clock, "telegram")
    assert await ready(store) == 0
    binding = await bindings.get(store, DM)
    assert binding is not None
    assert [m.role for m in await transcripts.load(store, binding.session_id)] == [
        Role.USER,
        Role.ASSISTANT,
    ]
    session = await sessions.get(store, binding.session_id)
    assert session is not None
    assert session.title == "weather"


async def test_a_report_that_cannot_be_sent_is_never_called_sent(store: Store, clock: FakeClock):
    await owners.set_home(store, "me", HomeChannel(address=DM))
    job_id = await reported(store, clock, "telegram")
    await ready(store)
    (sending,) = await deliveries.claim(store, [Platform.TELEGRAM])
    await store.write(finish, sending, OutgoingState.FAILED, "The bot was blocked.")
    ((_, (report,)),) = await runs.history(store, job_id)
    assert (report.state, report.error) == (ReportState.FAILED, "The bot was blocked.")


async def test_what_the_outbox_has_forgotten_was_sent(store: Store, clock: FakeClock):
    await owners.set_home(store, "me", HomeChannel(address=DM))
    job_id = await reported(store, clock, "telegram")
    await ready(store)
    (sending,) = await deliveries.claim(store, [Platform.TELEGRAM])
    await store.write(finish, sending, OutgoingState.SENT, "")
    clock.advance(1)
    await outbox.prune(store, clock.now())
    assert await states(store, job_id) == [("telegram", DM, ReportState.SENT)]


async def test_a_report_goes_to_each_place_once(store: Store, clock: FakeClock, session: Session):
    await owners.set_home(store, "me", HomeChannel(address=DM))
    await owners.set_home(store, "me", HomeChannel(address=ROOM))
    job_id = await reported(store, clock, "telegram, all, local, slack, origin", origin=DM)
    assert await states(store, job_id) == [
        ("telegram", DM, ReportState.WAITING),
        ("all", ROOM, ReportState.WAITING),
        ("local", None, ReportState.KEPT),
        ("slack", None, ReportState.FAILED),
    ]


async def test_a_chat_of_another_owner_gets_no_report(
    store: Store, clock: FakeClock, session: Session
):
    await owners.ensure(store, "you", "You")
    theirs = await sessions.create(store, "you", Platform.TELEGRAM)
    await bindings.rebind(store, theirs.id, DM, Origin.MESSAGE)
    job_id = await reported(store, clock, "telegram:42, origin", origin=DM)
    assert await ready(store) == 0
    ((_, reports),) = await runs.history(store, job_id)
    assert {report.state for report in reports} == {ReportState.FAILED}
    assert await deliveries.claim(store, [Platform.TELEGRAM]) == ()


async def test_a_chat_that_the_owner_has_used_gets_reports(
    store: Store, clock: FakeClock, session: Session
):
    await bindings.rebind(store, session.id, DM, Origin.RESUME)
    await bindings.rebind(store, session.id, CHANNEL, Origin.RESUME)
    await reports.check(store, "me", parse_targets("telegram:42, origin, local"))
    for wrong in ("telegram:43", "telegram", "all"):
        with pytest.raises(
            (BadJob, HandoffError), match=r"not one of your chats|No home channel|no home channel"
        ):
            await reports.check(store, "me", parse_targets(wrong))
    job_id = await reported(store, clock, "telegram:42")
    assert await states(store, job_id) == [("telegram:42", DM, ReportState.WAITING)]


async def test_on_the_page_each_job_has_a_conversation(store: Store, clock: FakeClock):
    home = Address(platform=Platform.WEB, chat_type=DM.chat_type, chat_id="me")
    await owners.set_home(store, "me", HomeChannel(address=home))
    first = await reported(store, clock, "web")
    second = await make(store, Once(clock.now() + HOUR), deliver="web")
    clock.advance(3600)
    await runs.finish(store, await claimed(store), "sun")
    assert await ready(store) == 0
    ((_, (one,)),) = await runs.history(store, first)
    ((_, (two,)),) = await runs.history(store, second.id)
    assert one.address is not None
    assert two.address is not None
    assert one.address.thread_id
    assert one.address != two.address


# Fallback


async def test_what_cannot_be_delivered_goes_to_the_next_home_once(store: Store, clock: FakeClock):
    for home in (DM, ROOM, CHANNEL):
        await owners.set_home(store, "me", HomeChannel(address=home))
    job_id = await reported(store, clock, str(DM.platform), fallback=True)
    homes = [home.address for home in await owners.homes(store, "me")]
    order = [DM, *(home for home in homes if home != DM)]
    for tried in range(1, len(order)):
        await fail_sending(store)
        assert await pass_on(store) == 1
        assert await pass_on(store) == 0
        ((_, attempts),) = await runs.history(store, job_id)
        assert [report.address for report in attempts] == order[: tried + 1]
        assert {report.state for report in attempts[:-1]} == {ReportState.FAILED}
        assert attempts[-1].instead_of == attempts[-2].no
    await fail_sending(store)
    assert await pass_on(store) == 0  # every home was tried
    assert len(await reports.undelivered(store, "me", NOON)) == 1


async def test_two_gateways_pass_a_report_on_once(store: Store, clock: FakeClock):
    for home in (DM, ROOM):
        await owners.set_home(store, "me", HomeChannel(address=home))
    job_id = await reported(store, clock, "slack", fallback=True)
    (report,) = await reports.failed(store)  # both have read it
    assert [await reports.pass_on(store, report) for _ in range(2)] == [True, False]
    assert len(await states(store, job_id)) == 2


async def test_a_message_that_is_never_sent_is_given_up_if_another_home_can_have_it(
    store: Store, clock: FakeClock
):
    for home in (DM, ROOM):
        await owners.set_home(store, "me", HomeChannel(address=home))
    await gateways.announce(store, "a gateway", [DM.platform])
    job_id = await reported(store, clock, "telegram", fallback=True)
    assert await reports.stranded(store, clock.now()) == ()  # made at this moment
    clock.advance(60)
    await gateways.announce(store, "a gateway", [DM.platform])
    assert await reports.stranded(store, clock.now()) == ()  # it waits for the chat
    await ready(store)
    (report,) = await reports.stranded(store, clock.now())
    (sending,) = await deliveries.claim(store, [DM.platform])
    assert await reports.stranded(store, clock.now()) == ()  # it is on its way
    await deliveries.retry(store, sending, "It is offline.", seconds=600)
    await reports.give_up(store, report)
    assert await pass_on(store) == 1
    assert [state for *_, state in await states(store, job_id)] == [
        ReportState.FAILED,
        ReportState.WAITING,
    ]
    clock.advance(600)
    assert await deliveries.claim(store, [DM.platform]) == ()


async def test_without_another_home_a_message_is_not_given_up(store: Store, clock: FakeClock):
    await owners.set_home(store, "me", HomeChannel(address=DM))
    job_id = await reported(store, clock, "telegram", fallback=True)
    await ready(store)
    clock.advance(60)
    (report,) = await reports.stranded(store, clock.now())
    await reports.give_up(store, report)
    assert await states(store, job_id) == [("telegram", DM, ReportState.QUEUED)]


async def test_a_report_that_stands_in_says_why(store: Store, clock: FakeClock):
    for home in (DM, ROOM):
        await owners.set_home(store, "me", HomeChannel(address=home))
    await reported(store, clock, "slack", fallback=True)
    assert await pass_on(store) == 1
    await ready(store)
    (sending,) = await deliveries.claim(store, list(Platform))
    assert sending.body.startswith("rain\n\n(It could not be delivered to slack: There is no home")
    binding = await bindings.get(store, sending.address)
    assert binding is not None
    last = (await transcripts.load(store, binding.session_id)).messages[-1]
    assert last.content == sending.body


async def test_without_a_fallback_what_cannot_be_delivered_stays_so(store: Store, clock: FakeClock):
    for home in (DM, ROOM):
        await owners.set_home(store, "me", HomeChannel(address=home))
    job_id = await reported(store, clock, "telegram")
    await fail_sending(store)
    assert await pass_on(store) == 0
    ((job, report),) = await reports.undelivered(store, "me", NOON)
    assert (job.id, report.state, report.error) == (
        job_id,
        ReportState.FAILED,
        "The bot was blocked.",
    )
    assert await reports.undelivered(store, "me", NOON + DAY) == ()
    await owners.ensure(store, "you", "You")
    assert await reports.undelivered(store, "you", NOON) == ()


async def test_a_report_is_not_sent_twice_to_a_home_that_has_it(store: Store, clock: FakeClock):
    for home in (DM, ROOM):
        await owners.set_home(store, "me", HomeChannel(address=home))
    await reported(store, clock, "slack, all", fallback=True)
    assert await pass_on(store) == 0
