"""Tokens and cookies: who gets in, how often one may try, and who is out again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from http.cookies import SimpleCookie

import pytest
from websockets.exceptions import ConnectionClosed

import segue.store
from segue.core.address import Platform, Sender
from segue.core.errors import PairingRefused
from segue.core.transcript import Message, Role, spoken
from segue.store import Tx
from segue.store.pairings import SECONDS
from segue.web.guard import TRIES, WINDOW
from tests.web.browser import WITHIN, Browser
from tests.web.conftest import Site
from tests.web.door import Door

# Tokens


async def test_a_token_lets_one_browser_in_once(door: Door):
    token = await door.store.pages.link("me")
    assert (await door.exchange(token)).status == 204
    again = await door.exchange(token)
    assert (again.status, again.all("Set-Cookie")) == (403, [])
    assert len(await door.store.owners.identities("me")) == 1


async def test_of_many_who_bring_a_token_at_once_one_gets_in(door: Door):
    token = await door.store.pages.link("me")
    answers = await asyncio.gather(*(door.exchange(token) for _ in range(TRIES)))
    assert sorted(answer.status for answer in answers) == [204] + [403] * (TRIES - 1)
    assert len(await door.store.owners.identities("me")) == 1


async def test_a_token_whose_time_is_over_lets_nobody_in(door: Door):
    token = await door.store.pages.link("me")
    door.clock.advance(SECONDS)
    assert (await door.exchange(token)).status == 403
    assert await door.store.owners.identities("me") == ()


@pytest.mark.parametrize("wrong", ["", "x", "é", "'; --", "x" * 8000, "%00", '{"t": 1}'])
async def test_a_wrong_token_lets_nobody_in_and_the_right_one_stays_good(door: Door, wrong: str):
    token = await door.store.pages.link("me")
    for tried in (wrong, token[:-1], f"{token}x", token.swapcase(), f'"{token}"'):
        assert (await door.exchange(tried)).status == 403
    assert (await door.exchange(token)).status == 204


async def test_two_tokens_in_one_request_are_none(door: Door):
    token = await door.store.pages.link("me")
    assert (await door.exchange(token, [("X-Segue-Token", token)])).status == 403
    assert (await door.exchange("wrong", [("X-Segue-Token", token)])).status == 403
    assert (await door.exchange(token)).status == 204


async def test_a_pairing_code_for_a_chat_is_no_token(door: Door):
    code = await door.store.pairings.begin("me")
    assert (await door.exchange(code)).status == 403
    token = await door.store.pages.link("me")
    stranger = Sender(platform=Platform.TELEGRAM, user_id="42")
    with pytest.raises(PairingRefused):
        await door.store.pairings.redeem(token, stranger)


async def test_a_token_in_a_query_or_a_cookie_is_not_accepted(door: Door):
    token = await door.store.pages.link("me")
    assert (await door.ask(f"/exchange?t={token}")).status == 403
    assert (await door.ask(f"/exchange?X-Segue-Token={token}")).status == 403
    assert (await door.ask("/exchange", [("Cookie", f"t={token}; segue={token}")])).status == 403
    assert (await door.ask("/exchange", [("Authorization", f"Bearer {token}")])).status == 403
    shown = await door.ask(f"/?t={token}")
    assert not shown.all("Set-Cookie")
    assert token.encode() not in shown.body
    origin = ("Origin", f"http://{door.host}")
    assert await door.upgrade([origin, ("Cookie", f"segue={token}")]) == 401
    assert await door.store.owners.identities("me") == ()


async def test_guessing_ends_soon_and_then_the_right_one_has_to_wait_as_well(door: Door):
    token = await door.store.pages.link("me", seconds=10 * WINDOW)
    for n in range(TRIES):
        assert (await door.exchange(f"wrong {n}")).status == 403
    for tried in ("wrong", token):
        answer = await door.exchange(tried)
        assert (answer.status, answer.all("Set-Cookie")) == (429, [])
    door.clock.advance(WINDOW - 0.01)
    assert (await door.exchange(token)).status == 429
    door.clock.advance(0.01)
    assert (await door.exchange(token)).status == 204


async def test_those_who_are_refused_do_not_make_the_others_wait_longer(door: Door):
    """Who goes on trying for ever is let try again no later than who does not."""
    for _ in range(TRIES):
        await door.exchange("wrong")
    door.clock.advance(WINDOW / 2)
    for _ in range(3 * TRIES):
        assert (await door.exchange("wrong")).status == 429
    door.clock.advance(WINDOW / 2)
    assert (await door.exchange(await door.store.pages.link("me"))).status == 204


async def test_right_tokens_are_no_guesses(door: Door):
    for _ in range(2 * TRIES):
        await door.cookie()
    for _ in range(TRIES):
        assert (await door.exchange("wrong")).status == 403
    assert (await door.exchange("wrong")).status == 429


# The cookie


async def test_the_cookie_is_for_this_server_and_no_script(door: Door):
    token = await door.store.pages.link("me")
    [(name, morsel)] = SimpleCookie((await door.exchange(token)).one("Set-Cookie")).items()
    assert name == "segue"
    assert len(morsel.value) >= 43
    assert token not in morsel.value
    assert (morsel["httponly"], morsel["samesite"], morsel["path"]) == (True, "Strict", "/")
    assert (morsel["domain"], int(morsel["max-age"]) > 0) == ("", True)


async def test_neither_tokens_nor_cookies_are_kept_but_as_a_digest(door: Door, tmp_path):
    tokens = [await door.store.pages.link("me") for _ in range(2)]
    answer = await door.exchange(tokens[0])
    secret = answer.one("Set-Cookie").partition(";")[0].partition("=")[2]
    await door.server.stop()
    await door.store.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for path in files:
        for kept in (*tokens, secret):
            assert kept.encode() not in path.read_bytes()


async def test_no_two_browsers_have_the_same_cookie(door: Door):
    assert len({await door.cookie() for _ in range(20)}) == 20


# What is told in logs


class Everything(logging.Handler):
    """Keeps all that is logged."""

    def __init__(self) -> None:
        super().__init__(level=0)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(f"{record.name} {self.format(record)} {record.__dict__!r}")


@pytest.fixture
def log() -> Generator[Everything]:
    """Every logger there is tells everything."""
    kept = Everything()
    root = logging.getLogger()
    names = (*logging.root.manager.loggerDict, "segue.web.wire", "websockets.server")
    loggers = [root, *map(logging.getLogger, names)]
    levels = [(logger, logger.level) for logger in loggers]
    root.addHandler(kept)
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
    yield kept
    root.removeHandler(kept)
    for logger, level in levels:
        logger.setLevel(level)


async def test_neither_tokens_nor_cookies_are_ever_logged(door: Door, log: Everything):
    token = await door.store.pages.link("me")
    host = f"Host: {door.host}\r\n".encode()
    await door.ask(f"/?t={token}")
    await door.ask(f"/exchange?t={token}")
    await door.ask(f"/{token}", method=token.replace("_", "-"))
    await door.ask("/", host=token)
    await door.send(f"GET /?t={token} X HTTP/1.1\r\n".encode() + host + b"\r\n")
    await door.send(b"GET / HTTP/1.1\r\n" + host + f"{token}\r\n\r\n".encode())
    await door.send(b"GET / HTTP/1.1\r\n" + host + f"X {token}: x\r\n\r\n".encode())
    answer = await door.exchange(token)
    cookie = answer.one("Set-Cookie").partition(";")[0]
    await door.exchange(token)
    await door.upgrade([("Origin", f"http://{door.host}"), ("Cookie", f"{cookie}; x={token}")])
    async with door.browser(cookie) as browser:
        await browser.until("hello")
    logging.getLogger("segue.web.wire").debug("it does listen")
    ours = [told for told in log.told if not told.startswith(("websockets.client", "asyncio"))]
    assert any("it does listen" in told for told in ours)
    assert any("token that is not valid" in told for told in ours)
    for told in ours:
        assert token not in told
        assert cookie.partition("=")[2] not in told


async def test_a_gateway_that_serves_the_page_logs_no_token(site: Site, log: Everything):
    async with site.gateway():
        cookie = await site.cookie()
        async with site.browser(cookie) as browser:
            await browser.until("hello")
    assert any("web is connected" in told for told in log.told)
    ours = [told for told in log.told if told.startswith("segue")]
    assert not [told for told in ours if cookie.partition("=")[2] in told]


# Another owner


async def asked(browser: Browser, do: str, **fields: object) -> str:
    """Why it was refused."""
    key = await browser.ask(do, **fields)
    refused = await browser.until("refused")
    assert refused["key"] == (key or None)
    return refused["reason"]


async def test_anothers_conversation_cannot_be_opened_read_said_or_pressed_in(door: Door):
    pages = door.store.pages
    page = await pages.begin("me", "Mine", key="mine")
    shown = await pages.show(page.id, "1", "secret words", (("Allow", "a:1:once"),))
    async with door.browser(await door.cookie("you")) as browser:
        assert (await browser.until("hello"))["chats"] == []
        not_here = "That conversation is not here."
        assert await asked(browser, "open", chat=page.id, after=0) == not_here
        assert await asked(browser, "earlier", chat=page.id, before=9) == not_here
        assert await asked(browser, "say", chat=page.id, text="hello") == not_here
        press = {"message": shown.no, "data": "a:1:once"}
        assert await asked(browser, "press", chat=page.id, **press) == not_here
        assert await asked(browser, "open", chat="no such", after=0) == not_here
        own = await browser.new()
        assert await asked(browser, "press", chat=own, **press) == "That button is gone."
        # Nor is anything of it told by itself.
        door.server.changed(page.id, shown.no)
        door.server.working(page.id, 5.0)
        door.server.listed("me")
        await browser.ask("health")
        await browser.until("health")
        assert await asked(browser, "open", chat="no such") == not_here
    assert "secret" not in repr(browser.told)
    assert "Mine" not in repr(browser.told)
    assert await pages.unheard() == ()
    assert [m.text for m in await pages.changes(page.id, 0)] == ["secret words"]


async def test_a_key_of_anothers_leads_to_nothing_of_theirs(door: Door):
    async with (
        door.browser(await door.cookie("me")) as mine,
        door.browser(await door.cookie("you")) as other,
    ):
        key = await mine.ask("new")
        chat = (await mine.until("taken", key=key))["chat"]
        await other.ask("new", key=key)
        theirs = (await other.until("taken", key=key))["chat"]
        assert chat != theirs
        key = await mine.ask("say", chat=chat, text="mine")
        await mine.until("taken", key=key)
        await other.ask("say", chat=theirs, key=key, text="theirs")
        await other.until("taken", key=key)
    assert [m.text for m in await door.store.pages.changes(theirs, 0)] == ["theirs"]


async def test_the_health_of_anothers_sessions_is_not_told(door: Door):
    store = door.store
    session = await store.sessions.create("me", Platform.LOCAL, title="My secret plan")
    lease = await store.leases.acquire(session.id, "a terminal")
    spoke = [spoken("hello", session.started), Message(Role.ASSISTANT, "hi", session.started)]
    await store.transcripts.append(lease, spoke)
    await store.gateways.announce("gateway", [Platform.WEB])
    await store.request_handoff(session.id, Platform.WEB, lease=lease)
    async with (
        door.browser(await door.cookie("me")) as mine,
        door.browser(await door.cookie("you")) as other,
    ):
        for browser in (mine, other):
            await browser.ask("health")
            await browser.until("health")
    assert "My secret plan" in repr(mine.told)
    assert "secret" not in repr(other.told)
    assert session.id not in repr(other.told)


# Revoked


async def said(browser: Browser, chat: str) -> None:
    await browser.ask("say", chat=chat, text="still here")
    await browser.until("taken")


async def test_a_revoked_browser_is_refused_at_once(door: Door):
    cookie, other = await door.cookie(), await door.cookie()
    origin = ("Origin", f"http://{door.host}")
    browser = await door.store.pages.browser(cookie.partition("=")[2])
    assert browser is not None
    await door.store.owners.unlink(Platform.WEB, browser)
    assert await door.upgrade([origin, ("Cookie", cookie)]) == 401
    assert await door.upgrade([origin, ("Cookie", other)]) == 101
    (left,) = await door.store.owners.identities("me")
    assert left.sender.user_id == await door.store.pages.browser(other.partition("=")[2])


async def test_a_page_that_is_open_ends_when_its_browser_is_revoked(door: Door, tmp_path):
    """Also by another process, and without having asked for anything."""
    async with door.browser(await door.cookie()) as browser:
        chat = await browser.new()
        async with await segue.store.open(f"sqlite://{tmp_path}/segue.db", clock=door.clock) as cli:
            [identity] = await cli.owners.identities("me")
            await cli.owners.unlink(Platform.WEB, identity.sender.user_id)
        async with asyncio.timeout(WITHIN):
            with pytest.raises(ConnectionClosed) as closed:
                await browser.until("never")
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "revoked")
        shown = await door.store.pages.show(chat, "1", "too late")
        door.server.changed(chat, shown.no)
    assert "too late" not in repr(browser.told)


async def test_what_a_revoked_browser_asks_for_is_not_done(door: Door):
    """Even when nobody has told the server of it yet."""

    def quietly(tx: Tx) -> None:
        assert tx.change("DELETE FROM identities") == 1

    async with door.browser(await door.cookie()) as browser:
        chat = await browser.new()
        await door.store.write(quietly)
        with pytest.raises(ConnectionClosed):
            await said(browser, chat)
    assert await door.store.pages.unheard() == ()


async def test_a_browser_that_became_anothers_is_not_the_first_ones_any_more(door: Door):
    async with door.browser(await door.cookie()) as browser:
        chat = await browser.new()
        [identity] = await door.store.owners.identities("me")
        await door.store.owners.unlink(Platform.WEB, identity.sender.user_id)
        await door.store.owners.link(identity.sender, "you")
        with pytest.raises(ConnectionClosed):
            await said(browser, chat)
    assert await door.store.pages.unheard() == ()
