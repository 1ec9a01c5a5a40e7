"""The built-in page: its browsers, conversations and messages, and messages that were missed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import segue.store
from segue.core.address import Address, ChatType, Platform, Sender
from segue.core.errors import OwnerNotFound, PairingRefused
from segue.core.session import Origin, Session
from segue.store import Store, Topic, Tx, bindings, database, owners, page_sessions, pages, pairings
from segue.store.pages import Page, PageAction, PageAuthor, PageLocation
from segue.store.pairings import CODE_SECONDS, MAX_OPEN, Credential
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import ODD
from tests.store.test_upgrade import Earlier, knows

BROWSER = Sender(platform=Platform.WEB, user_id="b1", name="Firefox on Linux")
OTHER = Sender(platform=Platform.WEB, user_id="b2")
WELL = (("Yes", "y"), ("No", "n"))


@pytest.fixture
def page(store: Store, runner: asyncio.Runner) -> Page:
    return runner.run(pages.begin(store, "me", "Sums", key="1"))


async def texts(store: Store, page: Page, after: int = 0) -> list[str]:
    return [message.text for message in await pages.messages(store, page.id) if message.rev > after]


# Browsers

ORIGIN = "http://127.0.0.1:8790"


async def admit(store: Store, token: str, sender: Sender = BROWSER, secret: str = "00") -> None:
    key, _ = pairings.link_keys(token)
    await pairings.admit(store, key, sender, secret, ORIGIN)


async def test_the_first_browser_that_uses_the_link_is_paired(store: Store):
    token = await pairings.link(store, "me")
    key, secret = pairings.link_keys(token)
    assert await pairings.credential(store, key, ORIGIN) == Credential(
        secret=secret, owner="me", is_link=True
    )
    await admit(store, token, secret="1234")
    assert await pairings.credential(store, key, ORIGIN) is None
    browser = Credential(secret="1234", owner="me", is_link=False)
    assert await pairings.credential(store, "b1", ORIGIN) == browser
    owner = await owners.who(store, Platform.WEB, "b1")
    assert owner is not None
    assert owner.id == "me"
    with pytest.raises(PairingRefused):
        await admit(store, token, OTHER)
    assert await owners.who(store, Platform.WEB, "b2") is None


async def test_a_browser_is_known_only_at_the_origin_where_it_was_paired(store: Store):
    await admit(store, await pairings.link(store, "me"))
    for origin in ("http://127.0.0.1:8791", "http://192.168.1.2:8790", "", f"{ORIGIN}/"):
        assert await pairings.credential(store, "b1", origin) is None
    assert await pairings.credential(store, "b1", ORIGIN)


async def test_a_link_is_valid_at_one_gateway_only(store: Store, open_store: OpenStore):
    gateway = await open_store()
    token = await pairings.link(store, "me", process=await gateway.read(lambda tx: tx.process))
    key, _ = pairings.link_keys(token)
    assert await pairings.credential(store, key, ORIGIN) is None
    with pytest.raises(PairingRefused):
        await admit(store, token)
    assert await pairings.credential(gateway, key, ORIGIN)
    await admit(gateway, token)
    assert await pairings.credential(store, "b1", ORIGIN)


async def test_of_many_browsers_that_use_a_link_at_once_one_is_paired(store: Store):
    token = await pairings.link(store, "me")
    senders = [Sender(platform=Platform.WEB, user_id=f"{n}") for n in range(6)]
    outcomes = await asyncio.gather(
        *(admit(store, token, sender) for sender in senders), return_exceptions=True
    )
    assert sum(outcome is None for outcome in outcomes) == 1
    assert sum(isinstance(outcome, PairingRefused) for outcome in outcomes) == 5


async def test_an_expired_link_admits_no_browser(store: Store, clock: FakeClock):
    token, short = await pairings.link(store, "me"), await pairings.link(store, "me", seconds=5)
    clock.advance(5)
    assert await pairings.credential(store, pairings.link_keys(short)[0], ORIGIN) is None
    with pytest.raises(PairingRefused):
        await admit(store, short)
    clock.advance(CODE_SECONDS - 5)
    with pytest.raises(PairingRefused):
        await admit(store, token)


async def test_the_token_of_a_link_is_not_stored(store: Store):
    token = await pairings.link(store, "me")

    def kept(tx: Tx) -> list[str]:
        return [repr(row) for row in tx.rows("SELECT * FROM page_links")]

    [row] = await store.write(kept)
    assert token not in row
    assert len(token) >= 22  # 128 bits and more


@pytest.mark.parametrize("key", ["", "x", ODD, "' OR 1=1 --", "x" * 10_000])
async def test_an_unknown_key_is_refused(store: Store, key: str):
    await admit(store, await pairings.link(store, "me"))
    assert await pairings.credential(store, key, ORIGIN) is None
    with pytest.raises(PairingRefused):
        await pairings.admit(store, key, OTHER, "00", ORIGIN)


async def test_the_oldest_links_of_an_owner_are_void_when_there_are_too_many(store: Store):
    tokens = [await pairings.link(store, "me") for _ in range(MAX_OPEN + 1)]
    with pytest.raises(PairingRefused):
        await admit(store, tokens[0])
    await admit(store, tokens[1])


async def test_unlinking_a_browser_removes_its_owner_and_wakes_listeners(
    store: Store, open_store: OpenStore
):
    await admit(store, await pairings.link(store, "me"))
    cli = await open_store()
    async with store.listen(Topic.OWNERS) as wake:
        await wake.wait(0)  # the initial wake-up
        assert not await owners.unlink(cli, Platform.WEB, "b2")
        assert await owners.unlink(cli, Platform.WEB, "b1")
        assert await wake.wait(10)
    assert await pairings.credential(store, "b1", ORIGIN) is None
    assert await owners.who(store, Platform.WEB, "b1") is None


async def test_the_browsers_of_a_port_can_be_unpaired(store: Store):
    await admit(store, await pairings.link(store, "me"))
    for port in (879, 790, 18790):
        assert await pairings.forget_browsers(store, port) == 0
    assert await pairings.credential(store, "b1", ORIGIN)
    assert await pairings.forget_browsers(store, 8790) == 1
    assert await pairings.credential(store, "b1", ORIGIN) is None
    assert await owners.identities(store, "me") == ()


async def test_an_unknown_owner_gets_no_link(store: Store):
    with pytest.raises(OwnerNotFound):
        await pairings.link(store, "nobody")


async def test_the_last_location_of_the_page_is_stored_per_machine(store: Store):
    assert await pages.location(store, "desk") is None
    for port, addresses in ((8790, ("127.0.0.1",)), (8791, ("127.0.0.1", "10.0.0.2"))):
        place = PageLocation(port=port, addresses=addresses)
        await pages.record_location(store, "desk", place)
        assert await pages.location(store, "desk") == place
    assert await pages.location(store, "shelf") is None


# Conversations


async def test_one_key_starts_one_conversation(store: Store, open_store: OpenStore):
    openings = [store, await open_store()]
    begun = await asyncio.gather(*(pages.begin(o, "me", "A", key="1") for o in openings * 5))
    assert len(set(begun)) == 1
    other = await pages.begin(store, "me", "A", key="2")
    assert other != begun[0]


async def test_a_conversation_belongs_to_one_owner(store: Store, page: Page):
    await owners.ensure(store, "you")
    theirs = await pages.begin(store, "you", "Theirs", key="2")
    assert page.owner == "me"
    assert await pages.get(store, theirs.id) == theirs
    assert await pages.get(store, "no such") is None
    with pytest.raises(OwnerNotFound):
        await pages.begin(store, "nobody", "A", key="3")


async def test_a_conversation_has_the_session_that_is_bound_there(
    store: Store, page: Page, session: Session
):
    at = Address(platform=Platform.WEB, chat_type=ChatType.DM, chat_id="me", thread_id=page.id)
    await bindings.rebind(store, session.id, at, Origin.RESUME)
    there = await pages.get(store, page.id)
    assert there is not None
    assert there.session == session.id


async def test_unstorable_characters_are_replaced(store: Store):
    page = await pages.begin(store, "me", ODD, key=ODD)
    assert "\0" not in page.title
    shown = await pages.show(store, page.id, ODD, ODD, ((ODD, ODD),))
    assert (await pages.show(store, page.id, ODD, "another")) == shown
    said = await pages.say(store, page.id, "k", "b1", ODD)
    assert said.text == shown.text == page.title
    assert await pages.message(store, said.no) == said


# Messages


async def test_one_key_shows_one_message(store: Store, page: Page, open_store: OpenStore):
    openings = [store, await open_store()]
    shown = [await pages.show(o, page.id, "1", "Once.", WELL) for o in openings * 2]
    assert len(set(shown)) == 1
    assert (shown[0].author, shown[0].buttons) == (PageAuthor.AGENT, WELL)
    await pages.show(store, page.id, "2", "Once.")
    assert await texts(store, page) == ["Once.", "Once."]


async def test_messages_that_are_new_or_edited_since_a_revision_are_returned_once(
    store: Store, page: Page
):
    first = await pages.show(store, page.id, "1", "first")
    second = await pages.show(store, page.id, "2", "second")
    assert await texts(store, page, first.rev) == ["second"]
    edited = await pages.edit(store, first.no, "FIRST")
    assert edited is not None
    assert await texts(store, page, second.rev) == ["FIRST"]
    assert await texts(store, page, edited.rev) == []
    assert await texts(store, page) == ["FIRST", "second"]
    there = await pages.get(store, page.id)
    assert there is not None
    assert there.rev == edited.rev


async def test_an_edit_changes_text_and_buttons(store: Store, page: Page):
    shown = await pages.show(store, page.id, "1", "Well?", WELL)
    edited = await pages.edit(store, shown.no, "Fine.")
    assert edited is not None
    assert (edited.no, edited.text, edited.buttons, edited.at) == (
        shown.no, "Fine.", (), shown.at,
    )  # fmt: skip
    assert edited.rev > shown.rev
    assert await pages.edit(store, shown.no + 1, "None.") is None


async def test_every_change_has_a_unique_revision(store: Store, page: Page, open_store: OpenStore):
    openings = [store, await open_store()]
    shown = await asyncio.gather(
        *(pages.show(openings[n % 2], page.id, f"{n}", f"{n}") for n in range(20))
    )
    assert sorted(message.rev for message in shown) == list(range(1, 21))


# What users do


async def test_a_message_is_shown_once_and_received_once(
    store: Store, page: Page, open_store: OpenStore
):
    openings = [store, await open_store()]
    said = [await pages.say(o, page.id, "k", "b1", "hello") for o in openings * 2]
    assert len(set(said)) == 1
    assert (said[0].author, said[0].text) == (PageAuthor.PERSON, "hello")
    [update] = await pages.unconfirmed_updates(store)
    assert (update.page, update.browser, update.act, update.text, update.message) == (
        page.id, "b1", PageAction.SAY, "hello", said[0].no,
    )  # fmt: skip
    await pages.confirm_update(store, update.no)
    await pages.say(store, page.id, "k", "b1", "hello")
    assert await pages.unconfirmed_updates(store) == ()


async def test_a_key_is_scoped_to_its_conversation(store: Store, page: Page):
    other = await pages.begin(store, "me", "Other", key="2")
    await pages.say(store, page.id, "k", "b1", "here")
    await pages.say(store, other.id, "k", "b1", "there")
    assert await texts(store, other) == ["there"]


async def test_a_button_can_be_pressed_once_and_only_in_its_conversation(store: Store, page: Page):
    shown = await pages.show(store, page.id, "1", "Well?", WELL)
    other = await pages.begin(store, "me", "Other", key="2")
    assert not await pages.press(store, page.id, "k1", "b1", shown.no, "maybe")
    assert not await pages.press(store, page.id, "k2", "b1", shown.no, "Yes")
    assert not await pages.press(store, page.id, "k3", "b1", shown.no + 1, "y")
    assert not await pages.press(store, other.id, "k4", "b1", shown.no, "y")
    assert await pages.unconfirmed_updates(store) == ()
    assert await pages.press(store, page.id, "k5", "b1", shown.no, "y")
    assert await pages.press(store, page.id, "k5", "b1", shown.no, "y")  # the same frame again
    assert not await pages.press(store, page.id, "k6", "b2", shown.no, "n")
    [update] = await pages.unconfirmed_updates(store)
    assert (update.act, update.text, update.message) == (PageAction.PRESS, "y", shown.no)
    [now] = await pages.messages(store, page.id)
    assert (now.no, now.buttons) == (shown.no, ())
    assert now.rev > shown.rev


async def test_of_concurrent_presses_one_is_received(
    store: Store, page: Page, open_store: OpenStore
):
    openings = [store, await open_store()]
    shown = await pages.show(store, page.id, "1", "Well?", WELL)
    pressed = await asyncio.gather(
        *(
            pages.press(openings[n % 2], page.id, f"k{n}", "b1", shown.no, "yn"[n % 2])
            for n in range(6)
        )
    )
    assert sum(pressed) == 1
    assert len(await pages.unconfirmed_updates(store)) == 1


async def test_only_unconfirmed_updates_are_received_again(store: Store, page: Page):
    for n in range(5):
        await pages.say(store, page.id, f"k{n}", "b1", f"{n}")
    waiting = await pages.unconfirmed_updates(store)
    assert [update.text for update in waiting] == ["0", "1", "2", "3", "4"]
    assert [update.text for update in await pages.unconfirmed_updates(store, limit=2)] == ["0", "1"]
    # Confirming one does not confirm those before it, which may be younger.
    for n in (0, 2):
        await pages.confirm_update(store, waiting[n].no)
    assert [update.text for update in await pages.unconfirmed_updates(store)] == ["1", "3", "4"]


async def test_a_listener_is_woken_by_a_message_on_the_page(
    store: Store, page: Page, open_store: OpenStore
):
    gateway = await open_store()
    async with gateway.listen(Topic.PAGES) as wake:
        await pages.say(store, page.id, "k", "b1", "hello")
        assert await wake.wait(10)
        assert len(await pages.unconfirmed_updates(gateway)) == 1


async def test_the_pages_of_an_owner_are_deleted_with_the_owner(store: Store):
    await owners.ensure(store, "you")
    page = await pages.begin(store, "you", "Theirs", key="1")
    await pages.say(store, page.id, "k", "b1", "hello")

    def delete(tx: Tx) -> None:
        tx.change("DELETE FROM owners WHERE id = 'you'")

    await store.write(delete)
    assert await pages.get(store, page.id) is None
    assert await pages.unconfirmed_updates(store) == ()


# Earlier versions


@pytest.fixture
def before_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Earlier:
    return knows(3, tmp_path, monkeypatch)


async def test_an_older_store_is_upgraded_with_the_page(
    url: str, clock: FakeClock, before_the_page: Earlier
):
    async with await segue.store.open(url, clock=clock) as old:
        await owners.ensure(old, "me", "Me")
        code = await pairings.begin(old, "me")
    before_the_page.over()
    assert before_the_page.version < database.LATEST
    async with await segue.store.open(url, clock=clock) as new:
        assert await page_sessions.list_entries(new, "me", limit=9) == ()
        assert await pages.unconfirmed_updates(new) == ()
        await admit(new, await pairings.link(new, "me"))
        page = await pages.begin(new, "me", "Sums", key="1")
        await pages.say(new, page.id, "k", "b1", "hello")
        telegram = Sender(platform=Platform.TELEGRAM, user_id="42")
        assert (await pairings.redeem(new, code, telegram)).id == "me"
    async with await segue.store.open(url, clock=clock) as again:
        assert await texts(again, page) == ["hello"]
        assert len(await pages.unconfirmed_updates(again)) == 1


async def test_browsers_that_were_paired_by_cookie_must_be_paired_again(
    url: str, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def pair(tx: Tx) -> None:
        tx.change("INSERT INTO browsers (id, digest, made, seen) VALUES ('b1', 'x', 1, 1)")

    earlier = knows(5, tmp_path, monkeypatch)
    telegram = Sender(platform=Platform.TELEGRAM, user_id="42")
    async with await segue.store.open(url, clock=clock) as old:
        await owners.ensure(old, "me", "Me")
        await old.write(pair)
        for sender in (BROWSER, telegram):
            await owners.link(old, sender, "me")
    earlier.over()
    async with await segue.store.open(url, clock=clock) as new:
        assert [i.sender.user_id for i in await owners.identities(new, "me")] == ["42"]
        assert await pairings.credential(new, "b1", ORIGIN) is None
