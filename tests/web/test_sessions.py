"""The page lists the owner's sessions and shows each as its transcript, wherever it is."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from segue.approvals import queries as approvals
from segue.core.address import Address, ChatType, Platform
from segue.core.errors import SessionMoved, SessionNotFound
from segue.core.session import ME, Origin, Session
from segue.core.transcript import Message, Role, ToolCall, spoken
from segue.handoffs import Failed, HandoffRequest, Progress, Working, hand_off
from segue.handoffs import queries as handoffs
from segue.handoffs.values import Step
from segue.store import Store, bindings, leases, owners, page_sessions, pages, sessions, transcripts
from segue.store.leases import LEASE_SECONDS
from segue.turns import HeldLease, hold
from segue.web.open_page import LISTED, address_of
from tests.harness.house import Desk
from tests.web.bare_server import Door
from tests.web.browser import Browser
from tests.web.chromium.paused_model import HaltingModel
from tests.web.conftest import Site

TOPIC = Address(platform=Platform.TELEGRAM, chat_type=ChatType.GROUP, chat_id="-100", thread_id="7")
NOT_THERE = "That conversation does not exist."


async def session_with(store: Store, *texts: str, title: str, owner: str = ME) -> Session:
    """A session with these messages, which is nowhere open."""
    session = await sessions.create(store, owner, Platform.LOCAL, title=title)
    lease = await leases.acquire(store, session.id, "a terminal")
    roles = (Role.USER, Role.ASSISTANT)
    messages = [Message(roles[n % 2], text, session.started) for n, text in enumerate(texts)]
    await transcripts.append(store, lease, messages)
    await leases.release(store, lease)
    return session


@contextlib.asynccontextmanager
async def in_terminal(store: Store, session: Session) -> AsyncGenerator[HeldLease]:
    """Open the session in a terminal, as `segue resume` does."""
    here = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=session.id)
    async with hold(store, session.id, "a terminal", address=here, take_over=True) as held:
        yield held


def texts(shown: dict[str, Any]) -> list[str]:
    return [
        line["html"].strip().removeprefix("<p>").removesuffix("</p>") for line in shown["lines"]
    ]


async def opened(browser: Browser, chat: str) -> dict[str, Any]:
    """Open the conversation, and return everything that it shows."""
    await browser.ask("open", chat=chat)
    return await browser.until("shown", was=chat, fresh=True)


async def place(browser: Browser, where: str) -> dict[str, Any]:
    """Wait until the open session is on the page."""
    return await browser.until("shown", lambda t: t["entry"] and t["entry"]["where"] == where)


# The list


async def test_each_session_is_listed_once_with_its_place_state_and_last_message(door: Door):
    store = door.store
    aside = await session_with(store, "one", "**aside**", title="Aside")
    there = await session_with(store, "two", title="There")
    await bindings.rebind(store, there.id, TOPIC, Origin.HANDOFF)
    page = await pages.begin(store, ME, "Here", key="1")
    here = await session_with(store, "three", "here", title="Here")
    await bindings.rebind(store, here.id, address_of(ME, page.id), Origin.HANDOFF)
    closed = await session_with(store, "four", "closed", title="Closed")
    async with in_terminal(store, closed):
        pass
    work = await session_with(store, "five", title="Work")
    async with in_terminal(store, work), door.browser(await door.key()) as browser:
        listed = (await browser.until("hello"))["chats"]
    assert [(c["id"], c["where"], c["state"], c["last"]) for c in listed] == [
        (work.id, "in the terminal", "working", "five"),
        (closed.id, "in a closed terminal", "idle", "closed"),
        (here.id, "here", "idle", "here"),
        (there.id, "on Telegram", "idle", "two"),
        (aside.id, "not open", "idle", "aside"),
    ]


async def test_a_session_whose_terminal_was_killed_is_not_working(
    door: Door, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("segue.web.open_page.LOOK_SECONDS", 0.1)
    store = door.store
    session = await session_with(store, "one", title="Work")
    await leases.acquire(store, session.id, "a terminal")
    async with door.browser(await door.key()) as browser:
        (listed,) = (await browser.until("hello"))["chats"]
        assert listed["state"] == "working"
        door.clock.advance(LEASE_SECONDS)
        await browser.until("chats", lambda t: t["chats"][0]["state"] == "idle")


async def test_a_session_that_waits_for_an_approval_is_marked(door: Door):
    store = door.store
    session = await session_with(store, "make it", title="Make")
    await bindings.rebind(store, session.id, TOPIC, Origin.HANDOFF)
    async with door.browser(await door.key()) as browser:
        await browser.until("hello")
        async with hold(store, session.id, "a gateway") as held:
            await approvals.ask(store, held.lease, "1", "f", "make", TOPIC, seconds=60)
            await browser.until("chats", lambda t: t["chats"][0]["state"] == "asking")


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_cancelled_or_failed_handoff_leaves_no_entry_and_no_message(
    site: Site, cancelled: bool
):
    interrupt = asyncio.Event()
    async with (
        site.gateway(model=HaltingModel(["I am ⋯ here."])),
        site.browser() as browser,
        site.terminal(("a boat", "Yes."), title="Boats") as desk,
    ):
        seen: list[Progress] = []
        request = HandoffRequest(Platform.WEB)
        async for progress in hand_off(desk.store, desk.held, request, interrupt=interrupt):
            seen.append(progress)
            if isinstance(progress, Working) and progress.step is Step.REPLYING:
                if cancelled:
                    interrupt.set()
                else:
                    [claimed] = await handoffs.recent(site.store, 1)
                    assert await handoffs.fail(site.store, claimed, "It did not work.")
        assert isinstance(seen[-1], Failed)
        assert len(await site.store.read(lambda tx: tx.rows("SELECT id FROM pages"))) == 1
        shown = await opened(browser, desk.session.id)
        assert (len(shown["lines"]), shown["messages"], shown["moves"]) == (2, [], [])
        async with site.browser() as other:
            listed = (await other.until("hello"))["chats"]
        assert [chat["id"] for chat in listed] == [desk.session.id]


async def test_the_list_is_read_in_pages(door: Door):
    for n in range(LISTED + 5):
        await session_with(door.store, "hello", title=f"{n}")
    async with door.browser(await door.key()) as browser:
        hello = await browser.until("hello")
        assert (len(hello["chats"]), hello["more"]) == (LISTED, True)
        assert hello["chats"][0]["title"] == f"{LISTED + 4}"
        await browser.ask("more")
        listed = await browser.until("chats", more=False)
        assert len(listed["chats"]) == LISTED + 5


# A session that is elsewhere


async def test_the_page_follows_a_session_in_a_terminal_live(door: Door):
    store = door.store
    session = await session_with(store, "a boat", "Yes.", title="Boats")
    async with in_terminal(store, session) as held, door.browser(await door.key()) as browser:
        shown = await opened(browser, session.id)
        assert texts(shown) == ["a boat", "Yes."]
        assert shown["entry"]["where"] == "in the terminal"
        now = session.started
        await transcripts.append(store, held.lease, [spoken("look", now)])
        line = await browser.line("look", "user")
        assert line["seq"] == 3
        call = Message(Role.ASSISTANT, "", now, tool_calls=(ToolCall("1", "ls", "{}"),))
        result = Message(Role.TOOL, "boat.txt", now, tool_call_id="1")
        done = Message(Role.ASSISTANT, "A file.", now)
        await transcripts.append(store, held.lease, [call, result, done])
        shown = await browser.until("shown", lambda t: t["lines"])
        assert [line["role"] for line in shown["lines"]] == ["assistant", "tool", "assistant"]
        assert shown["entry"]["state"] == "idle"


async def test_the_first_messages_of_a_session_are_new_and_replace_nothing(door: Door):
    store = door.store
    session = await sessions.create(store, ME, Platform.LOCAL, title="Boats")
    async with door.browser(await door.key()) as browser, in_terminal(store, session) as held:
        assert (await opened(browser, session.id))["fresh"]
        await transcripts.append(store, held.lease, [spoken("hello", session.started)])
        shown = await browser.until("shown", lambda told: told["lines"])
        assert not shown["fresh"]


async def test_a_message_moves_a_free_session_to_the_page_with_its_whole_transcript(site: Site):
    session = await session_with(site.store, "my boat is red", "Good.", title="Boats")
    async with in_terminal(site.store, session):
        pass
    async with site.gateway(), site.browser() as browser:
        assert (await opened(browser, session.id))["entry"]["where"] == "in a closed terminal"
        await browser.ask("say", chat=session.id, text="what is red?")
        await browser.line("(2) what is red?")
        shown = await opened(browser, session.id)
        assert texts(shown) == ["my boat is red", "Good.", "what is red?", "(2) what is red?"]
        assert (shown["entry"]["where"], shown["messages"]) == ("here", [])
        assert [(move["text"], move["after"]) for move in shown["moves"]] == [
            ("Moved to the terminal", 2),
            ("Moved here", 2),
        ]
    assert len(await sessions.list_sessions(site.store, ME)) == 1


async def test_a_session_that_a_terminal_holds_is_not_taken_by_a_message(site: Site):
    session = await session_with(site.store, "a boat", "Yes.", title="Boats")
    page = await pages.begin(site.store, ME, "Boats", key="1")
    async with in_terminal(site.store, session) as held:
        await page_sessions.enter(site.store, ME, session.id, address_of(ME, page.id))
        assert await page_sessions.page_of(site.store, ME, session.id) == page.id
        await transcripts.append(site.store, held.lease, [spoken("mine", session.started)])
    there = await sessions.get(site.store, session.id)
    assert there is not None
    assert there.address is not None
    assert there.address.platform is Platform.LOCAL


async def test_the_button_takes_a_session_from_the_terminal(site: Site):
    session = await session_with(site.store, "a boat", "Yes.", title="Boats")
    async with site.gateway(), site.browser() as browser:
        async with in_terminal(site.store, session) as held:
            await opened(browser, session.id)
            key = await browser.ask("bring", chat=session.id)
            await browser.until("taken", key=key)
            shown = await place(browser, "here")
            with pytest.raises(SessionMoved):
                await transcripts.append(site.store, held.lease, [spoken("no", session.started)])
        assert shown["messages"] == []
        await browser.ask("say", chat=session.id, text="go on")
        await browser.line("(2) go on")


async def test_an_open_page_follows_its_session(site: Site):
    session = await session_with(site.store, "a boat", "Yes.", title="Boats")
    async with site.gateway(), site.browser() as browser:
        await opened(browser, session.id)
        await browser.ask("say", chat=session.id, text="here")
        await browser.line("(2) here")
        async with in_terminal(site.store, session) as held:
            left = await place(browser, "in the terminal")
            assert [move["text"] for move in left["moves"]] == ["Moved to the terminal"]
            done = await Desk(site.store, held, session).hand_off("web")
        back = await place(browser, "here")
        while not back["lines"]:  # the greeting may arrive separately from the move
            back = await browser.until("shown")
        assert back["chat"] == done.session_id == session.id
        lists = [told["chats"] for told in browser.told if told["is"] == "chats"]
        assert {len(sessions) for sessions in lists} == {1}


async def test_links_of_earlier_handoffs_open_the_session(site: Site):
    async with site.gateway(), site.browser() as browser:
        async with site.terminal(("a boat", "Yes."), title="Boats") as desk:
            first = await desk.hand_off("web")
        async with in_terminal(site.store, desk.session) as held:
            await Desk(site.store, held, desk.session).hand_off("web")
        assert first.thread is not None
        assert first.thread.thread_id is not None
        shown = await opened(browser, first.thread.thread_id)
        assert shown["chat"] == desk.session.id
        assert texts(shown)[:2] == ["a boat", "Yes."]


# Order


async def test_after_resume_on_the_page_a_reload_shows_the_transcript_in_order_and_one_arrival(
    site: Site,
):
    boats = await session_with(site.store, "a boat", "Yes.", title="Boats")
    async with in_terminal(site.store, boats):
        pass
    async with site.gateway(), site.browser() as browser:
        chat = await browser.new()
        await browser.ask("say", chat=chat, text="hello")
        await browser.line("(1) hello")
        await browser.ask("say", chat=chat, text="/resume Boats")
        came = await browser.until("shown", chat=boats.id)
        assert came["fresh"]
        await browser.ask("say", chat=boats.id, text="go on")
        await browser.line("(2) go on")
        async with site.browser() as other:
            shown = await opened(other, boats.id)
    assert texts(shown) == ["a boat", "Yes.", "go on", "(2) go on"]
    assert [move["text"] for move in shown["moves"]] == ["Moved to the terminal", "Moved here"]
    notices = [m["html"] for m in shown["messages"] if m["author"] == "agent"]
    assert len(notices) == 1
    assert "was here before" in notices[0]


async def test_a_new_session_is_shown_in_the_browser_that_requested_it(site: Site):
    async with site.gateway(), site.browser() as browser, site.browser() as other:
        chat = await browser.new()
        await browser.ask("say", chat=chat, text="hello")
        first = (await browser.until("shown", lambda t: "(1) hello" in texts(t)))["chat"]
        await opened(other, first)
        await browser.ask("say", chat=first, text="/new")
        fresh = await browser.until("shown", was=first, fresh=True)
        assert (fresh["chat"] != first, fresh["lines"]) == (True, [])
        # A page that only watched stays with the session.
        left = await other.until("shown", lambda t: t["entry"]["where"] != "here")
        assert (left["chat"], left["entry"]["where"]) == (first, "not open")


async def test_undo_removes_what_it_undid_and_retry_replaces_it(site: Site):
    async with site.gateway(), site.browser() as browser:
        chat = await browser.new()
        await browser.ask("say", chat=chat, text="one")
        session = (await browser.until("shown", seq=2))["chat"]
        await browser.ask("say", chat=session, text="two")
        await browser.until("shown", seq=4)
        await browser.ask("say", chat=session, text="/undo")
        undone = await browser.until("shown", fresh=True)
        assert texts(undone) == ["one", "(1) one"]
        await browser.ask("say", chat=session, text="/retry")
        await browser.until("shown", seq=6)
        async with site.browser() as other:
            assert texts(await opened(other, session)) == ["one", "(1) one"]


async def test_a_queued_message_is_at_the_end_and_a_command_keeps_its_place(site: Site):
    async with site.gateway(), site.browser() as browser:
        chat = await browser.new()
        await browser.ask("say", chat=chat, text="one")
        await browser.line("(1) one")
        await browser.ask("say", chat=chat, text="/title Boats")
        await browser.message("The title of this session is “Boats”.")
        await browser.ask("say", chat=chat, text="two")
        await browser.line("(2) two")
        async with site.browser() as other:
            shown = await opened(other, chat)
    assert texts(shown) == ["one", "(1) one", "two", "(2) two"]
    between = [(message["author"], message["after"]) for message in shown["messages"]]
    assert between == [("person", 2), ("agent", 2)]


async def test_earlier_messages_are_loaded_with_the_notices_between_them(door: Door):
    store = door.store
    session = await session_with(store, *map(str, range(100)), title="Long")
    page = await pages.begin(store, ME, "Long", key="1")
    async with door.browser(await door.key()) as browser:
        await bindings.rebind(store, session.id, address_of(ME, page.id), Origin.HANDOFF)
        await pages.show(store, page.id, "1", "A notice")
        shown = await opened(browser, session.id)
        assert (texts(shown)[-1], shown["more"], len(shown["messages"])) == ("99", True, 1)
        first = shown["lines"][0]["seq"]
        await browser.ask("earlier", chat=session.id, before=first)
        earlier = await browser.until("earlier")
        assert [line["seq"] for line in earlier["lines"]] == list(range(1, first))
        assert (earlier["more"], earlier["messages"]) == (False, [])


# Search, rename, delete, export


async def test_titles_and_messages_are_searched(door: Door):
    boats = await session_with(door.store, "the hull is red", "Good.", title="Boats")
    await session_with(door.store, "a 100% boat_like thing", title="Other")
    async with door.browser(await door.key()) as browser:
        for words, found in (
            ("boats", [boats.id]),
            ("hull", [boats.id]),
            ("100%", 1),
            ("oats_", 0),
        ):
            await browser.ask("search", words=words)
            hits = (await browser.until("found", words=words))["hits"]
            if isinstance(found, list):
                assert [hit["chat"] for hit in hits] == found
                assert hits[0]["title"] == "Boats"
            else:
                assert len(hits) == found


async def test_a_session_is_renamed_exported_and_deleted(door: Door):
    session = await session_with(door.store, "a boat", "Yes.", title="Boats")
    await session_with(door.store, "hello", title="Taken")
    async with door.browser(await door.key()) as browser:
        await opened(browser, session.id)
        key = await browser.ask("rename", chat=session.id, title="Taken")
        assert "Taken" in (await browser.until("refused", key=key))["reason"]
        await browser.ask("rename", chat=session.id, title="Ships")
        await browser.until("shown", lambda t: t["entry"]["title"] == "Ships")
        key = await browser.ask("export", chat=session.id)
        exported = await browser.until("exported", key=key)
        header, *lines = map(json.loads, exported["text"].splitlines())
        assert (exported["name"], header["title"]) == (f"{session.id}.jsonl", "Ships")
        assert [line["content"] for line in lines] == ["a boat", "Yes."]
        await browser.ask("delete", chat=session.id)
        await browser.until("gone", chat=session.id)
        listed = await browser.until("chats", lambda t: len(t["chats"]) == 1)
        assert listed["chats"][0]["title"] == "Taken"
    assert await sessions.get(door.store, session.id) is None


async def test_a_session_that_is_open_elsewhere_is_not_deleted(door: Door):
    session = await session_with(door.store, "a boat", title="Boats")
    async with in_terminal(door.store, session), door.browser(await door.key()) as browser:
        key = await browser.ask("delete", chat=session.id)
        assert "a terminal" in (await browser.until("refused", key=key))["reason"]
    assert await sessions.get(door.store, session.id) is not None


async def test_a_deleted_session_leaves_nothing_on_the_page(door: Door):
    store = door.store
    session = await session_with(store, "a boat", title="Boats")
    page = await pages.begin(store, ME, "Boats", key="1")
    await bindings.rebind(store, session.id, address_of(ME, page.id), Origin.HANDOFF)
    shown = await pages.show(store, page.id, "1", "secret")
    await sessions.delete(store, session.id)
    assert await pages.get(store, page.id) is None
    assert await pages.message(store, shown.no) is None


# Other owners


@pytest.mark.parametrize("by_page", [False, True])
async def test_the_session_of_another_owner_can_be_neither_seen_nor_changed(
    door: Door, by_page: bool
):
    store = door.store
    session = await session_with(store, "secret words", "Yes.", title="Mine")
    page = await pages.begin(store, ME, "Mine", key="1")
    await bindings.rebind(store, session.id, address_of(ME, page.id), Origin.HANDOFF)
    asked = await pages.show(store, page.id, "1", "secret?", (("Yes", "y"),))
    chat = page.id if by_page else session.id
    async with door.browser(await door.key("you")) as browser:
        assert (await browser.until("hello"))["chats"] == []
        for do, fields in (
            ("open", {}),
            ("earlier", {"before": 9}),
            ("say", {"text": "hello"}),
            ("press", {"message": asked.no, "data": "y"}),
            ("bring", {}),
            ("rename", {"title": "Theirs"}),
            ("delete", {}),
            ("export", {}),
        ):
            key = await browser.ask(do, chat=chat, **fields)
            refused = await browser.until("refused")
            assert (refused["reason"], refused["key"]) == (NOT_THERE, key or None)
        await browser.ask("search", words="secret")
        assert (await browser.until("found"))["hits"] == []
        door.page.changed(page.id, asked.no)
        door.page.preview(page.id, "secret words")
        await browser.ask("health")
        await browser.until("health")
    assert "secret words" not in repr(browser.told)
    assert "secret?" not in repr(browser.told)
    assert await pages.unconfirmed_updates(store) == ()
    assert (await sessions.get(store, session.id)) is not None


async def test_a_session_cannot_be_moved_to_the_page_of_another_owner(door: Door):
    store = door.store
    await owners.ensure(store, "you")
    session = await session_with(store, "mine", title="Mine")
    theirs = await pages.begin(store, "you", "Theirs", key="1")
    with pytest.raises(SessionNotFound):
        await page_sessions.enter(store, "you", session.id, address_of("you", theirs.id))
    there = await sessions.get(store, session.id)
    assert there is not None
    assert there.address is None
