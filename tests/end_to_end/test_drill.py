"""One gateway serves every platform, and one session visits them all."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

import pytest

from segue import config
from segue.core.address import Platform
from segue.core.session import ME
from segue.core.transcript import Kind, Role
from segue.handoffs.values import Handoff, State
from segue.store import sessions, transcripts
from segue.store.gateways import LinkState
from tests import rigs
from tests.end_to_end.conftest import write
from tests.fakes.matrix import MatrixPeer
from tests.fakes.matrix import peer as peer
from tests.harness.household import Household
from tests.rigs import PlatformRig
from tests.rigs.matrix import MatrixRig
from tests.rigs.telegram import TelegramRig
from tests.web.browser import Browser
from tests.web.conftest import Site

STOPS = tuple(rig for rig in rigs.ALL if rig.built_in)
WEB = "\n[web]\nport = 0\nlan = false\n"


@contextlib.asynccontextmanager
async def stops(
    home: Household, kinds: Sequence[type[PlatformRig]]
) -> AsyncGenerator[list[Household]]:
    """The same household with a phone on each of these platforms, and a home channel there."""
    async with contextlib.AsyncExitStack() as stack:
        found = [home]
        for kind in kinds:
            if kind is not type(home.rig):
                rig = await stack.enter_async_context(kind.opened())
                anna, eve = await rig.user("Anna"), await rig.user("Eve")
                found.append(replace(home, rig=rig, anna=anna, eve=eve))
        home.set_constants(
            {name: value for it in found for name, value in it.rig.constants.items()}
        )
        write(home, "".join(stop.rig.settings() for stop in found) + WEB)
        for stop in found:
            rig = stop.rig
            await stop.at_home(rig.forum if rig.forum.threads else rig.dm)
        yield found
        for stop in found:
            assert (await stop.rig.look()).faults == ()


async def arrival(home: Household, at: Platform) -> Handoff:
    """Wait until the session has arrived there."""
    while True:
        newest = await home.handoff(*State)
        if newest.platform is at:
            newest = await home.handoff(State.COMPLETED, State.FAILED)
            assert newest.state is State.COMPLETED, newest.error
            return newest


@contextlib.asynccontextmanager
async def page(home: Household) -> AsyncGenerator[Browser]:
    """A browser that was paired by a link."""
    health = await home.health(Platform.WEB)
    assert health is not None
    assert health.link is not None
    settings = config.load(home.person.environment)
    site = Site(settings, home.store, url=health.link.partition("/#")[0])
    async with site.browser() as browser:
        yield browser


async def tour(home: Household, kinds: Sequence[type[PlatformRig]]) -> None:
    """From the desk to each platform, to the page and back, with one message at each place."""
    said = ["hello from the desk"]
    async with stops(home, kinds) as places, home.gateway():
        for platform in (Platform.WEB, *(stop.rig.platform for stop in places)):
            await home.until_link(LinkState.CONNECTED, platform)
        async with home.desk(*said) as desk:
            await desk.hand_off(home.rig.platform)
        following = [*(stop.rig.platform for stop in places[1:]), Platform.WEB]
        for stop, then in zip(places, following, strict=True):
            at = (await arrival(home, stop.rig.platform)).thread
            assert at is not None
            said.append(f"hello from {stop.rig.name}")
            await stop.writes(said[-1], at.thread_id)
            await stop.sees(f") {said[-1]}", at.thread_id)
            await stop.writes(f"/move {then}", at.thread_id)
        session = (await arrival(home, Platform.WEB)).session_id
        async with page(home) as browser:
            await browser.ask("open", chat=session)
            said.append("hello from the page")
            await browser.ask("say", chat=session, text=said[-1])
            await browser.line(f") {said[-1]}")
        async with home.person.opens("resume", "sums") as back:
            await back.ready()
            said.append("home again")
            back.say(said[-1])
            await back.shows(f") {said[-1]}")
    (found,) = await sessions.list_sessions(home.store, ME)
    assert found.id == session
    lines = await transcripts.load(home.store, session)
    assert [m.content for m in lines if m.role is Role.USER and m.kind is Kind.SAID] == said
    answers = [m.content for m in lines if m.role is Role.ASSISTANT and m.kind is Kind.SAID]
    assert len(answers) == len(set(answers))


@pytest.mark.parametrize("home", [TelegramRig], indirect=True)
async def test_a_session_visits_every_platform_and_comes_home_with_one_transcript(home: Household):
    await tour(home, STOPS)


@pytest.mark.real
@pytest.mark.parametrize("home", [TelegramRig], indirect=True)
async def test_a_session_visits_all_seven_platforms_and_comes_home(
    home: Household, peer: MatrixPeer
):
    await tour(home, (*STOPS, MatrixRig))
