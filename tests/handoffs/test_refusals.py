"""Reasons to refuse a handoff at once, in an order in which each advice can be followed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from segue.core.address import TARGETS, HomeChannel, Platform
from segue.core.errors import (
    HandoffError,
    NoGateway,
    SessionHeld,
    SessionMoved,
    SessionNotFound,
    StoreUncertain,
)
from segue.core.session import Origin, Session
from segue.handoffs import HandoffRequest, platform_named
from segue.handoffs import queries as handoffs
from segue.handoffs.request import ask
from segue.handoffs.values import State
from segue.platforms import registry
from segue.store import Store, bindings, gateways, leases, owners, sessions
from segue.testing.clock import FakeClock
from tests.handoffs.conftest import TELEGRAM, Faulty, Gateway, state
from tests.store.conftest import OpenStore
from tests.store.samples import CHANNEL, DM, TOPIC, hold, said, say

UNKNOWN_PLATFORM = "There is no platform "
NO_HOME_CHANNEL = "No home channel on telegram yet. "


async def refused(store: Store, session: Session, platform: str = "telegram") -> Exception:
    """The error with which the request is refused."""
    with pytest.raises(Exception, match=r"\.$") as raised:
        await ask(store, session.id, HandoffRequest(platform_named(platform)))
    assert await handoffs.history(store, session.id) == ()
    return raised.value


@pytest.mark.parametrize(("typed", "meant"), [("telegarm", "telegram"), ("wbe", "web")])
async def test_a_misspelt_platform_gets_a_suggestion_and_the_list(
    store: Store, session: Session, typed: str, meant: str
):
    why = await refused(store, session, typed)
    assert isinstance(why, HandoffError)
    others = ", ".join(target for target in TARGETS if target != meant)
    assert str(why) == (
        f"There is no platform {typed!r} to hand off to. Try {meant}, or else one of {others}."
    )


async def test_an_unknown_platform_gets_the_list(store: Store, session: Session):
    why = await refused(store, session, "the moon")
    assert isinstance(why, HandoffError)
    assert str(why).startswith(UNKNOWN_PLATFORM)
    assert str(why).endswith(f" Try one of {registry.listed()}.")


@pytest.mark.parametrize("name", ["local", "Local", ""])
async def test_the_terminal_itself_is_not_a_target(store: Store, session: Session, name: str):
    assert str(await refused(store, session, name)).startswith(UNKNOWN_PLATFORM)
    assert Platform.LOCAL not in TARGETS


async def test_control_characters_in_a_platform_name_are_removed(store: Store, session: Session):
    why = await refused(store, session, "tele\x1b[2Jgram\n" + "x" * 1000)
    assert "\x1b" not in str(why)
    assert len(str(why)) < 200


@pytest.mark.usefixtures("gateway")
@pytest.mark.parametrize("name", ["telegram", " Telegram ", "TELEGRAM\n"])
async def test_case_and_spaces_in_a_platform_name_do_not_matter(
    store: Store, session: Session, name: str
):
    assert platform_named(name) is TELEGRAM


@pytest.mark.usefixtures("home")
async def test_without_a_gateway_the_handoff_is_refused_at_once(store: Store, session: Session):
    why = await refused(store, session)
    assert isinstance(why, NoGateway)
    assert "`segue gateway start`" in str(why)


async def test_a_withdrawn_gateway_does_not_count(store: Store, session: Session, gateway: Gateway):
    await gateways.withdraw(gateway.store)
    assert isinstance(await refused(store, session), NoGateway)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_dead_gateway_does_not_count(store: Store, session: Session, gateway: Gateway):
    await gateway.store.close()
    assert isinstance(await refused(store, session), NoGateway)


async def test_a_silent_gateway_does_not_count(
    store: Store, session: Session, gateway: Gateway, clock: FakeClock
):
    clock.advance(15)
    assert isinstance(await refused(store, session), NoGateway)


@pytest.mark.usefixtures("gateway")
async def test_a_gateway_that_serves_only_other_platforms_does_not_count(
    store: Store, session: Session
):
    why = await refused(store, session, "matrix")
    assert isinstance(why, HandoffError)
    assert str(why) == "The running gateway does not serve matrix. Type `segue setup matrix`."
    page = await refused(store, session, "web")
    assert isinstance(page, HandoffError)
    assert str(page).startswith("The running gateway does not serve the web page.")
    assert "`segue config set web.enabled true`" in str(page)


async def test_any_of_several_gateways_can_serve_the_platform(
    store: Store, session: Session, gateway: Gateway, open_store: OpenStore
):
    other = Gateway(await open_store())
    await other.announce(Platform.SLACK)
    await owners.set_home(store, "me", HomeChannel(address=CHANNEL))
    assert (await ask(store, session.id, HandoffRequest(Platform.SLACK))).platform is Platform.SLACK


async def test_without_a_home_channel_the_error_says_how_to_set_one(
    store: Store, session: Session, gateway: Gateway
):
    await owners.clear_home(store, "me", TELEGRAM)
    await owners.set_home(store, "me", HomeChannel(address=CHANNEL))
    why = await refused(store, session)
    assert isinstance(why, HandoffError)
    assert str(why).startswith(NO_HOME_CHANNEL)
    assert "/sethome" in str(why)


@pytest.mark.usefixtures("gateway")
async def test_the_home_channel_of_another_owner_does_not_count(store: Store):
    await owners.ensure(store, "you")
    theirs = await sessions.create(store, "you", Platform.LOCAL)
    assert str(await refused(store, theirs)).startswith(NO_HOME_CHANNEL)


@pytest.mark.usefixtures("gateway")
async def test_a_second_request_is_refused_while_the_first_is_in_flight(
    store: Store, session: Session
):
    first = await ask(store, session.id, HandoffRequest(TELEGRAM))
    with pytest.raises(HandoffError, match="telegram"):
        await ask(store, session.id, HandoffRequest(TELEGRAM))
    assert await handoffs.history(store, session.id) == (first,)


@pytest.mark.usefixtures("gateway")
async def test_of_two_concurrent_requests_one_is_refused(
    store: Store, session: Session, open_store: OpenStore
):
    other = await open_store()
    asked = await asyncio.gather(
        ask(store, session.id, HandoffRequest(TELEGRAM)),
        ask(other, session.id, HandoffRequest(TELEGRAM)),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in asked) == ["Handoff", "HandoffError"]
    assert len(await handoffs.pending(store)) == 1


async def test_following_every_advice_leads_to_success(
    store: Store, session: Session, open_store: OpenStore
):
    assert str(await refused(store, session, "telegarm")).startswith(UNKNOWN_PLATFORM)
    assert isinstance(await refused(store, session), NoGateway)
    gateway = await open_store()
    await gateways.announce(gateway, "gateway", [])
    assert "does not serve telegram" in str(await refused(store, session))
    await gateways.withdraw(gateway)  # `segue gateway stop`, as advised
    await gateways.announce(gateway, "gateway", [TELEGRAM])
    assert str(await refused(store, session)).startswith(NO_HOME_CHANNEL)
    await owners.set_home(gateway, "me", HomeChannel(address=DM))
    assert (await ask(store, session.id, HandoffRequest(TELEGRAM))).state is State.PENDING


async def test_a_request_has_the_target_and_the_message(
    store: Store, session: Session, gateway: Gateway
):
    await say(store, session.id, said("Hello"))
    lease = await hold(store, session.id)
    asked = await ask(
        store, session.id, HandoffRequest(TELEGRAM, message="Go on there."), lease=lease
    )
    assert await handoffs.pending(gateway.store) == (asked,)
    assert (asked.home, asked.message) == (DM, "Go on there.")


async def test_a_request_expires_after_a_few_seconds_even_if_the_terminal_is_dead(
    store: Store, session: Session, gateway: Gateway, clock: FakeClock
):
    asked = await ask(store, session.id, HandoffRequest(TELEGRAM))
    clock.advance(6)
    assert await handoffs.claim(gateway.store, asked.id) is None
    assert await handoffs.claim_next(gateway.store, [TELEGRAM]) is None
    assert (await state(store, session.id)).state is State.FAILED


@pytest.mark.usefixtures("gateway")
async def test_only_the_holder_of_the_session_can_request_a_handoff(
    store: Store, session: Session, open_store: OpenStore
):
    lease = await hold(store, session.id)
    other = await open_store()
    with pytest.raises(SessionHeld, match="a terminal on desk"):
        await ask(other, session.id, HandoffRequest(TELEGRAM))
    await leases.acquire(other, session.id, "a terminal on sofa", take_over=True)
    with pytest.raises(SessionMoved, match="a terminal on sofa"):
        await ask(store, session.id, HandoffRequest(TELEGRAM), lease=lease)
    assert await handoffs.history(store, session.id) == ()


@pytest.mark.usefixtures("gateway")
async def test_a_deleted_session_cannot_be_handed_off(store: Store, session: Session):
    await sessions.delete(store, session.id)
    with pytest.raises(SessionNotFound):
        await ask(store, session.id, HandoffRequest(TELEGRAM))


@pytest.mark.usefixtures("gateway")
async def test_a_request_whose_commit_is_uncertain_is_made_once(store: Store, session: Session):
    engine = Faulty(store._engine)
    engine.kept = [StoreUncertain(path="the store")]
    asked = await ask(Store(engine), session.id, HandoffRequest(TELEGRAM))
    assert engine.kept == []
    assert await handoffs.history(store, session.id) == (asked,)


# Another chat than the home channel


async def test_a_named_chat_is_used_instead_of_the_home_channel(
    store: Store, session: Session, gateway: Gateway
):
    there = await sessions.create(store, "me", TELEGRAM)
    chat = replace(DM, chat_id="77")
    await bindings.rebind(store, there.id, chat, Origin.MESSAGE)
    asked = await ask(store, session.id, HandoffRequest(TELEGRAM, chat_id="77"))
    assert asked.home == chat


async def test_a_chat_id_selects_the_chat_and_not_its_threads(
    store: Store, session: Session, gateway: Gateway
):
    for address in (TOPIC, replace(TOPIC, thread_id=None)):
        there = await sessions.create(store, "me", TELEGRAM)
        await bindings.rebind(store, there.id, address, Origin.MESSAGE)
    asked = await ask(store, session.id, HandoffRequest(TELEGRAM, chat_id=TOPIC.chat_id))
    assert asked.home == replace(TOPIC, thread_id=None)


async def test_the_home_channel_can_be_named_too(store: Store, session: Session, gateway: Gateway):
    asked = await ask(store, session.id, HandoffRequest(TELEGRAM, chat_id=DM.chat_id))
    assert asked.home == DM


async def test_a_chat_without_an_owner_or_of_another_owner_is_refused(
    store: Store, session: Session, gateway: Gateway
):
    await owners.ensure(store, "you")
    yours = await sessions.create(store, "you", TELEGRAM)
    await bindings.rebind(store, yours.id, replace(DM, chat_id="78"), Origin.MESSAGE)
    elsewhere = await sessions.create(store, "me", Platform.SLACK)
    await bindings.rebind(store, elsewhere.id, replace(CHANNEL, chat_id="79"), Origin.MESSAGE)
    for chat in ("78", "79", "80", ""):
        with pytest.raises(HandoffError, match="is not one of your chats"):
            await ask(store, session.id, HandoffRequest(TELEGRAM, chat_id=chat))
    assert await handoffs.history(store, session.id) == ()


async def test_a_named_chat_needs_no_home_channel(store: Store, session: Session):
    await gateways.announce(store, "gateway", [TELEGRAM])
    there = await sessions.create(store, "me", TELEGRAM)
    await bindings.rebind(store, there.id, DM, Origin.MESSAGE)
    assert (await ask(store, session.id, HandoffRequest(TELEGRAM, chat_id=DM.chat_id))).home == DM
