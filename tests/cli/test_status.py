"""`segue status`: a summary on one screen."""

from __future__ import annotations

import json

import segue.store
from segue.approvals import queries as approvals
from segue.core.address import HomeChannel, Platform
from segue.core.session import ME, Origin
from segue.handoffs import queries as handoffs
from segue.store import (
    Store,
    bindings,
    deliveries,
    gateways,
    inbox,
    leases,
    outbox,
    owners,
    sessions,
)
from segue.store.gateways import LinkState
from segue.store.outbox import Draft
from segue.web.open_page import address_of
from tests.harness.gateways import segue_says, serving
from tests.harness.terminal import Person
from tests.store.samples import DM

PAGE = "http://127.0.0.1:8790"


async def at_work(store: Store) -> None:
    """A gateway with two platforms, several sessions, a handoff and a failed message."""
    await owners.ensure(store, ME)
    platforms = [Platform.WEB, Platform.TELEGRAM]
    await gateways.announce(store, "the gateway of the test", platforms, seconds=600)
    await gateways.report(
        store, Platform.WEB, LinkState.CONNECTED, account="page", link=f"{PAGE}/#t={{code}}"
    )
    await gateways.report(store, Platform.TELEGRAM, LinkState.DOWN, detail="the server is asleep")
    await owners.set_home(store, ME, HomeChannel(address=DM, name="Home\x1b[2J"))
    for title in ("Older", "Boats", "Ships", "Kites"):
        await sessions.create(store, ME, Platform.LOCAL, title=title)
    ships = await sessions.find(store, ME, "Ships")
    await store.write(bindings.rebind, ships.id, address_of(ME, "0123"), Origin.HANDOFF)
    boats = await sessions.find(store, ME, "Boats")
    await handoffs.request(store, boats.id, Platform.TELEGRAM, home=DM)
    await outbox.enqueue(store, Draft(key="k", address=DM, body="hello"))
    (outgoing,) = await deliveries.claim(store, [Platform.TELEGRAM])
    assert await deliveries.uncertain(store, outgoing, "It may have arrived.")


async def test_the_status_fits_on_one_screen(person: Person):
    serving(person)
    async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
        await at_work(store)
        async with person.opens("status", columns=80, lines=24) as shown:
            assert await shown.end() == 0
            for output in (
                f"store     {person.environment['SEGUE_STORE']}",
                "model     scripted (Set by SEGUE_MODEL.)",
                f"page      {PAGE}, for this machine only; `segue pair` opens it",
                "sessions  4, the last:",
                "Ships (the web page, just now)",
                "handoffs  1 in progress",
                "problems  1 message could not be delivered; telegram is not connected",
                "the gateway of the test, running since",
                "connected as page since",
                "down since",
                "(the server is asleep); home channel telegram dm 42 (Home[2J)",
                "Boats to telegram, just now, pending",
                "uncertain: It may have arrived.",
            ):
                await shown.shows(output)
            assert "Older" not in shown.text, "only the last three"
            assert shown.screen[0].startswith("Segue "), "nothing had to scroll"
            assert b"\x1b[2J" not in shown.raw


async def test_the_json_output_has_the_same_content(person: Person):
    serving(person)
    async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
        await at_work(store)
        output = json.loads(segue_says(person, "status", "--json").stdout)
    assert output["model"] == {"name": "scripted", "why": "Set by SEGUE_MODEL."}
    assert (output["page"], output["running"]) == (PAGE, True)
    assert output["sessions"]["count"] == 4
    assert {session["title"] for session in output["sessions"]["last"]} == {
        "Boats",
        "Ships",
        "Kites",
    }
    (gateway,) = output["gateways"]
    states = {platform["platform"]: platform["state"] for platform in gateway["platforms"]}
    assert states == {"web": "connected", "telegram": "down"}
    assert [handoff["state"] for handoff in output["handoffs"]] == ["pending"]
    assert [lost["error"] for lost in output["not_delivered"]] == ["It may have arrived."]


async def test_the_status_of_a_new_installation_says_what_to_do(person: Person):
    del person.environment["SEGUE_MODEL"]
    person.environment["SEGUE_MODELS"] = str(person.cwd / "no-models")
    output = segue_says(person, "status")
    assert output.returncode == 0, output.stderr
    assert "type `segue model pull` for a small model that needs no key" in output.stdout
    assert "page      not running; type `segue gateway start`" in output.stdout
    assert "sessions  0\n" in output.stdout
    assert "No gateway is running." in output.stdout
    as_json = json.loads(segue_says(person, "status", "--json").stdout)
    assert (as_json["model"], as_json["page"], as_json["running"]) == (None, None, False)
    assert "No model is available yet" in as_json["problem"]


async def test_failed_messages_and_handoffs_are_listed_with_their_reason(person: Person):
    serving(person)
    async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
        await owners.ensure(store, ME)
        no = await inbox.record(store, "bot", "1", DM, "{}")
        assert no is not None
        await inbox.set_aside(store, no, "ValueError: no such escape")
        session = await sessions.create(store, ME, Platform.LOCAL, title="Boats")
        await handoffs.request(store, session.id, Platform.TELEGRAM, home=DM)
        (handoff,) = await handoffs.in_flight(store)
        await handoffs.cancel(store, handoff.id, "ZeroDivisionError: our fault")
        shown = segue_says(person, "status").stdout
        output = json.loads(segue_says(person, "status", "--json").stdout)
    assert "problems  1 message could not be answered" in shown
    assert "Not answered\n  telegram dm 42, just now: ValueError: no such escape" in shown
    assert "Boats to telegram, just now, failed: ZeroDivisionError: our fault" in shown
    assert "handoffs  none in progress" in shown
    (aside,) = output["not_answered"]
    assert (aside["address"], aside["error"]) == (DM.key, "ValueError: no such escape")
    assert [h["error"] for h in output["handoffs"]] == ["ZeroDivisionError: our fault"]


async def test_a_question_that_waits_is_listed_also_without_a_gateway(person: Person):
    serving(person)
    async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
        await owners.ensure(store, ME)
        session = await sessions.create(store, ME, Platform.TELEGRAM, title="Boats")
        lease = await leases.acquire(store, session.id, "a gateway")
        asked = await approvals.ask(store, lease, "1", "f", "shell date", DM, seconds=600)
        await leases.release(store, lease)
        shown = segue_says(person, "status").stdout
        output = json.loads(segue_says(person, "status", "--json").stdout)
        await sessions.void_approvals(store, session.id)
        later = segue_says(person, "status").stdout
    waits = f"question {asked.id} waits for your answer on telegram dm 42: shell date"
    assert f"questions  {waits}\n" in shown
    assert "No gateway is running." in shown
    (question,) = output["questions"]
    assert (question["address"], question["what"]) == (DM.key, "shell date")
    assert "questions" not in later


async def test_a_handoff_that_was_not_confirmed_is_listed_with_what_to_look_for(person: Person):
    serving(person)
    async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
        await owners.ensure(store, ME)
        session = await sessions.create(store, ME, Platform.LOCAL, title="Boats")
        await handoffs.request(store, session.id, Platform.TELEGRAM, home=DM)
        claim = await handoffs.claim_next(store, [Platform.TELEGRAM])
        assert claim is not None
        await outbox.enqueue(store, Draft(key=claim.recap_key, address=DM, body="hello"))
        (outgoing,) = await deliveries.claim(store, [Platform.TELEGRAM])
        await deliveries.uncertain(store, outgoing, "500")
        await handoffs.complete(store, claim, address=DM)
        shown = segue_says(person, "status").stdout
        output = json.loads(segue_says(person, "status", "--json").stdout)
    assert "Boats to telegram, just now, completed: telegram did not confirm" in shown
    assert [(h["state"], h["confirmed"]) for h in output["handoffs"]] == [("completed", False)]
