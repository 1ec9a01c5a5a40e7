"""The message of the leaving terminal, whose advice works literally."""

from __future__ import annotations

import shlex

import pytest

from segue.core.address import HomeChannel, Platform
from segue.core.errors import SessionNotFound
from segue.core.session import Session
from segue.handoffs import Completed, HandoffRequest, handed_over, way_back
from segue.handoffs import queries as handoffs
from segue.handoffs.request import ask
from segue.store import Store, owners, sessions
from tests.handoffs.conftest import TELEGRAM, Gateway
from tests.store.samples import DM


async def moved(store: Store, gateway: Gateway, session: Session) -> Completed:
    await ask(store, session.id, HandoffRequest(TELEGRAM))
    done = await handoffs.complete(gateway.store, await gateway.claim(), address=DM)
    assert done is not None
    return Completed(done.handoff)


async def test_the_farewell_says_where_the_session_is_and_how_to_resume_it(
    store: Store, gateway: Gateway, session: Session
):
    await sessions.rename(store, session.id, "my project")
    assert await handed_over(store, await moved(store, gateway, session)) == (
        "“my project” continues on telegram dm 42 (Me and my agent).\n"
        "No thread could be opened there, so it continues in the chat itself.\n"
        "To come back: segue resume 'my project'"
    )


async def test_a_home_channel_without_a_name_is_its_address(
    store: Store, gateway: Gateway, session: Session
):
    await owners.set_home(store, "me", HomeChannel(address=DM))
    said = await handed_over(store, await moved(store, gateway, session))
    assert said.startswith(f"{session.label} continues on telegram dm 42.\n")
    assert said.endswith(f"segue resume {session.id}")


async def test_a_session_that_was_deleted_meanwhile_is_not_found(
    store: Store, gateway: Gateway, session: Session
):
    done = await moved(store, gateway, session)
    await sessions.delete(store, session.id)
    with pytest.raises(SessionNotFound):
        await handed_over(store, done)


@pytest.mark.parametrize(
    "title", ["my project", "plain", 'it\'s $(rm -rf) `here` "now"', "naïve 日本", "a #7", "-n"]
)
async def test_the_advised_command_finds_the_session(store: Store, session: Session, title: str):
    named = await sessions.rename(store, session.id, title)
    program, command, name = shlex.split(await way_back(store, named))
    assert (program, command) == ("segue", "resume")
    assert not name.startswith("-")
    assert (await sessions.find(store, "me", name)).id == session.id


async def test_a_session_without_a_title_is_resumed_by_its_id(store: Store, session: Session):
    assert await way_back(store, session) == f"segue resume {session.id}"


async def test_a_title_that_finds_another_session_is_not_advised(store: Store, session: Session):
    named = await sessions.rename(store, session.id, "my project")
    newer = await sessions.create(store, "me", Platform.LOCAL, title="my project")
    assert newer.title == "my project #2"
    assert await way_back(store, named) == f"segue resume {session.id}"
    assert await way_back(store, newer) == "segue resume 'my project #2'"


async def test_a_session_titled_latest_is_resumed_by_its_id(store: Store, session: Session):
    named = await sessions.rename(store, session.id, "latest")
    await sessions.create(store, "me", Platform.LOCAL)
    assert await way_back(store, named) == f"segue resume {session.id}"
