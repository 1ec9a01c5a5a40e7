"""Links and keys: who is paired, what others can do with them, and how access ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Generator

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed

import segue.store
from segue.core.address import Platform, Sender
from segue.core.errors import PairingRefused
from segue.core.transcript import Message, Role, spoken
from segue.handoffs import queries as handoffs
from segue.store import Tx, gateways, leases, owners, pages, pairings, sessions, transcripts
from segue.store.pairings import ProofExchange
from tests.web.bare_server import Door, page_server
from tests.web.browser import WITHIN, Browser
from tests.web.conftest import Site
from tests.web.handshake import Key, ask, link_key, opened, prove

# Links


async def test_a_link_pairs_one_browser_once(door: Door):
    token = await pairings.link(door.store, "me")
    assert await door.pair(token)
    assert await door.pair(token) is None
    assert len(await owners.identities(door.store, "me")) == 1


async def test_of_many_browsers_that_open_a_link_at_once_one_is_paired(door: Door):
    token = await pairings.link(door.store, "me")
    keys = await asyncio.gather(*(door.pair(token) for _ in range(10)))
    assert len([key for key in keys if key]) == 1
    assert len(await owners.identities(door.store, "me")) == 1


@pytest.mark.parametrize("wrong", ["", "x", "é", "'; --", "x" * 8000, "%00", '{"t": 1}'])
async def test_a_wrong_token_admits_no_browser_and_the_right_one_stays_valid(
    door: Door, wrong: str
):
    token = await pairings.link(door.store, "me")
    for tried in (wrong, token[:-1], f"{token}x", token.swapcase(), f'"{token}"'):
        assert await door.pair(tried) is None
    assert await door.pair(token)


async def test_a_pairing_code_for_a_chat_is_not_a_token(door: Door):
    code = await pairings.begin(door.store, "me")
    assert await door.pair(code) is None
    token = await pairings.link(door.store, "me")
    stranger = Sender(platform=Platform.TELEGRAM, user_id="42")
    with pytest.raises(PairingRefused):
        await pairings.redeem(door.store, token, stranger)


async def test_wrong_tokens_do_not_delay_the_right_one(door: Door):
    """A token has 128 bits, so guessing needs no lockout, which others could trigger."""
    token = await pairings.link(door.store, "me")
    for n in range(5):
        tried = await asyncio.gather(*(door.pair(f"wrong {n} {m}") for m in range(20)))
        assert not any(tried)
    assert await door.pair(token)


async def test_a_link_is_void_when_its_gateway_is_gone(door: Door, tmp_path):
    """An impostor on the port of a stopped gateway may have seen it."""
    token = await pairings.link(door.store, "me")
    async with await segue.store.open(f"sqlite://{tmp_path}/segue.db", clock=door.clock) as again:
        server = page_server(again)
        await server.start(0)
        assert await Door(server, again, door.clock).pair(token) is None
        await server.stop()
    assert await door.pair(token)


# A browser that is already paired


async def opens(door: Door, key: Key, link: Key) -> bool:
    """Whether the browser with that key is admitted when it opens that link."""
    async with opened(door.server.url) as wire:
        assert await prove(wire, door.server.url, key, link)
        with contextlib.suppress(ConnectionClosed):
            return msgspec.json.decode(await wire.recv())["is"] == "hello"
    return False


async def test_a_paired_browser_that_opens_links_stays_one_browser_and_uses_them_up(door: Door):
    key = await door.key()
    paired = await owners.identities(door.store, "me")
    for _ in range(3):
        token = await pairings.link(door.store, "me")
        assert not await pairings.is_link_used(door.store, token)
        assert await opens(door, key, link_key(token))
        assert await pairings.is_link_used(door.store, token)
        assert await opens(door, key, link_key(token)), "it needs no link"
        assert await door.pair(token) is None
    assert await owners.identities(door.store, "me") == paired


async def test_a_paired_browser_never_uses_another_owners_link(door: Door):
    key = await door.key("me")
    token = await pairings.link(door.store, "you")
    assert await opens(door, key, link_key(token))
    assert await owners.identities(door.store, "you") == ()
    assert await door.pair(token), "it is still good for a browser of its owner"
    assert [i.sender.user_id for i in await owners.identities(door.store, "me")] == [key.id]


async def test_a_link_is_used_up_only_by_a_browser_that_has_it(door: Door):
    """Its id is sent before the server has proven itself, so others may know it."""
    key = await door.key()
    token = await pairings.link(door.store, "me")
    assert not await opens(door, key, Key(link_key(token).id, key.secret))
    assert await door.pair(token)


async def test_the_key_of_a_browser_is_not_a_link(door: Door):
    key, other = await door.key(), await door.key()
    assert await opens(door, key, other)
    assert await door.knows(other)


# Proofs


async def greeted(door: Door, key: Key) -> ProofExchange:
    """The proof that the server offers for that key."""
    nonce = secrets.token_hex(32)
    async with opened(door.server.url) as wire:
        told = await ask(wire, {"do": "greet", "key": key.id, "nonce": nonce})
    url = door.server.url
    exchange = ProofExchange(origin=url, browser_nonce=nonce, server_nonce=told["nonce"])
    assert told["proof"] == exchange.server_proof(key.secret)
    return exchange


async def refused(door: Door, *frames: dict[str, str] | str | bytes) -> list[str]:
    """The frames that it sends before it closes without admitting the browser."""
    told: list[str] = []
    async with opened(door.server.url) as wire:
        for frame in frames:
            raw = msgspec.json.encode(frame).decode() if isinstance(frame, dict) else frame
            await wire.send(raw)
        with contextlib.suppress(ConnectionClosed):
            while True:
                told.append(msgspec.json.decode(await wire.recv())["is"])
        assert wire.close_code in {1008, 1009}
    return told


async def test_the_server_proves_itself_first_with_a_fresh_proof(door: Door):
    key = await door.key()
    first, second = await greeted(door, key), await greeted(door, key)
    assert first.server_nonce != second.server_nonce


async def test_a_proof_is_valid_once(door: Door):
    key = await door.key()
    async with opened(door.server.url) as wire:
        exchange = await prove(wire, door.server.url, key)
        assert exchange
        assert msgspec.json.decode(await wire.recv())["is"] == "hello"
    greeting = {"do": "greet", "key": key.id, "nonce": exchange.browser_nonce}
    proof = {"do": "prove", "proof": exchange.browser_proof(key.secret)}
    assert await refused(door, greeting, proof) == ["proof"]


async def test_the_proof_of_the_server_is_not_accepted_from_a_browser(door: Door):
    key = await door.key()
    nonce = secrets.token_hex(32)
    async with opened(door.server.url) as wire:
        told = await ask(wire, {"do": "greet", "key": key.id, "nonce": nonce})
        with pytest.raises(ConnectionClosed):
            await ask(wire, {"do": "prove", "proof": told["proof"]})


async def test_a_proof_for_one_port_is_invalid_at_another(door: Door):
    """An impostor on the former port cannot relay messages to the gateway."""
    key = await door.key()
    moved = page_server(door.store)
    await moved.start(0)
    try:
        there = Door(moved, door.store, door.clock)
        assert not await there.knows(key)
        # By a link, which is valid at both.
        link = link_key(await pairings.link(door.store, "me"))
        exchange = await greeted(there, link)
        assert ProofExchange(
            origin=door.server.url,
            browser_nonce=exchange.browser_nonce,
            server_nonce=exchange.server_nonce,
        ).server_proof(link.secret) != exchange.server_proof(link.secret)
    finally:
        await moved.stop()


GOOD = "0" * 64


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "null",
        "{",
        b"",
        b'{"do":"greet","key":"x","nonce":"' + GOOD.encode() + b'"}',
        {"do": "health"},
        {"do": "new", "key": "12345678"},
        {"do": "prove", "proof": GOOD},
        {"do": "greet", "key": "x"},
        {"do": "greet", "key": "x", "nonce": ""},
        {"do": "greet", "key": "x", "nonce": GOOD + "\n"},
        {"do": "greet", "key": "x", "nonce": GOOD[:-1] + "G"},
        {"do": "greet", "key": "x" * 101, "nonce": GOOD},
        {"do": "greet", "key": "x", "nonce": GOOD, "more": "x"},
        {"do": "greet", "key": "x" * 2000, "nonce": GOOD},
    ],
    ids=repr,
)
async def test_a_page_without_proof_gets_no_response(
    door: Door, frame: dict[str, str] | str | bytes
):
    assert await refused(door, frame) == []


async def test_a_wrong_proof_ends_the_connection(door: Door):
    key = await door.key()
    greeting = {"do": "greet", "key": key.id, "nonce": GOOD}
    assert await refused(door, greeting, {"do": "prove", "proof": GOOD}) == ["proof"]
    assert await refused(door, greeting, greeting) == ["proof"]
    assert await refused(door, greeting, {"do": "health"}) == ["proof"]


async def test_a_page_can_try_only_a_few_keys(door: Door):
    key = await door.key()
    async with opened(door.server.url) as wire:
        for n in range(3):
            assert await prove(wire, door.server.url, Key(f"{n}", GOOD)) is None
        assert await prove(wire, door.server.url, key)
    greeting = {"do": "greet", "key": "x", "nonce": GOOD}
    assert await refused(door, *[greeting] * 5) == ["unknown"] * 4


async def test_a_page_that_proves_nothing_in_time_is_disconnected(
    door: Door, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("segue.web.page.PROVING", 0.05)
    assert await refused(door) == []


async def test_cookies_headers_and_queries_admit_no_browser(door: Door):
    key, token = await door.key(), await pairings.link(door.store, "me")
    before = await owners.identities(door.store, "me")
    for name, value in (
        ("Cookie", f"segue={key.secret}; t={token}"),
        ("Segue-Token", token),
        ("Authorization", f"Bearer {key.secret}"),
    ):
        for path in ("/", f"/?t={token}", "/exchange"):
            answer = await door.ask(path, [(name, value)])
            assert not answer.all("Set-Cookie")
            assert token.encode() not in answer.body
        async with opened(door.server.url, additional_headers={name: value}) as wire:
            told = await ask(wire, {"do": "greet", "key": "x", "nonce": GOOD})
            assert told == {"is": "unknown"}
    assert await owners.identities(door.store, "me") == before


async def test_tokens_are_not_stored(door: Door, tmp_path):
    tokens = [await pairings.link(door.store, "me") for _ in range(2)]
    assert await door.pair(tokens[0])
    await door.server.stop()
    await door.store.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for path in files:
        for token in tokens:
            assert token.encode() not in path.read_bytes()


async def test_no_two_browsers_have_the_same_key(door: Door):
    assert len({(await door.key()).secret for _ in range(20)}) == 20


# Logs


class Everything(logging.Handler):
    """Records all log lines."""

    def __init__(self) -> None:
        super().__init__(level=0)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(f"{record.name} {self.format(record)} {record.__dict__!r}")


@pytest.fixture
def log() -> Generator[Everything]:
    """Every logger logs everything."""
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


async def test_tokens_and_keys_are_never_logged(door: Door, log: Everything):
    token = await pairings.link(door.store, "me")
    host = f"Host: {door.host}\r\n".encode()
    await door.ask(f"/?t={token}")
    await door.ask(f"/{token}", method=token.replace("_", "-"))
    await door.ask("/", host=token)
    await door.send(f"GET /?t={token} X HTTP/1.1\r\n".encode() + host + b"\r\n")
    await door.send(b"GET / HTTP/1.1\r\n" + host + f"{token}\r\n\r\n".encode())
    await door.send(b"GET / HTTP/1.1\r\n" + host + f"X {token}: x\r\n\r\n".encode())
    await refused(door, {"do": "greet", "key": token, "nonce": token})
    key = await door.pair(token)
    assert key
    assert await door.pair(token) is None
    async with door.browser(key) as browser:
        await browser.until("hello")
    logging.getLogger("segue.web.wire").debug("it does listen")
    ours = [told for told in log.told if not told.startswith(("websockets.client", "asyncio"))]
    assert any("it does listen" in told for told in ours)
    assert any("nothing proven" in told for told in ours)
    for told in ours:
        assert token not in told
        assert key.secret not in told


async def test_a_gateway_that_serves_the_page_logs_no_key(site: Site, log: Everything):
    async with site.gateway():
        key = await site.key()
        async with site.browser(key) as browser:
            await browser.until("hello")
    assert any("connected platform=web" in told for told in log.told)
    ours = [told for told in log.told if told.startswith("segue")]
    assert not [told for told in ours if key.secret in told]


# Another owner


async def asked(browser: Browser, do: str, **fields: object) -> str:
    """The reason for the refusal."""
    key = await browser.ask(do, **fields)
    refused = await browser.until("refused")
    assert refused["key"] == (key or None)
    return refused["reason"]


async def test_the_conversation_of_another_owner_cannot_be_read_or_changed(door: Door):
    page = await pages.begin(door.store, "me", "Mine", key="mine")
    shown = await pages.show(door.store, page.id, "1", "secret words", (("Allow", "a:1:once"),))
    async with door.browser(await door.key("you")) as browser:
        assert (await browser.until("hello"))["chats"] == []
        not_here = "That conversation does not exist."
        assert await asked(browser, "open", chat=page.id) == not_here
        assert await asked(browser, "earlier", chat=page.id, before=9) == not_here
        assert await asked(browser, "say", chat=page.id, text="hello") == not_here
        press = {"message": shown.no, "data": "a:1:once"}
        assert await asked(browser, "press", chat=page.id, **press) == not_here
        assert await asked(browser, "open", chat="no such") == not_here
        own = await browser.new()
        assert await asked(browser, "press", chat=own, **press) == "That button no longer works."
        # Nor is anything of it sent unasked.
        door.page.changed(page.id, shown.no)
        door.page.preview(page.id, "secret words")
        await browser.ask("health")
        await browser.until("health")
        assert await asked(browser, "open", chat="no such") == not_here
    assert "secret" not in repr(browser.told)
    assert "Mine" not in repr(browser.told)
    assert await pages.unconfirmed_updates(door.store) == ()
    assert [m.text for m in await pages.messages(door.store, page.id)] == ["secret words"]


async def test_the_idempotency_key_of_another_owner_reveals_nothing(door: Door):
    async with (
        door.browser(await door.key("me")) as mine,
        door.browser(await door.key("you")) as other,
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
    assert [m.text for m in await pages.messages(door.store, theirs)] == ["theirs"]


async def test_the_health_of_another_owners_sessions_is_hidden(door: Door):
    store = door.store
    session = await sessions.create(store, "me", Platform.LOCAL, title="My secret plan")
    lease = await leases.acquire(store, session.id, "a terminal")
    spoke = [spoken("hello", session.started), Message(Role.ASSISTANT, "hi", session.started)]
    await transcripts.append(store, lease, spoke)
    await gateways.announce(store, "gateway", [Platform.WEB])
    await handoffs.request(store, session.id, Platform.WEB, lease=lease)
    async with (
        door.browser(await door.key("me")) as mine,
        door.browser(await door.key("you")) as other,
    ):
        for browser in (mine, other):
            await browser.ask("health")
            await browser.until("health")
    assert "My secret plan" in repr(mine.told)
    assert "secret" not in repr(other.told)
    assert session.id not in repr(other.told)


# Revoked browsers


async def said(browser: Browser, chat: str) -> None:
    await browser.ask("say", chat=chat, text="still here")
    await browser.until("taken")


async def test_a_revoked_browser_is_refused_at_once(door: Door):
    key, other = await door.key(), await door.key()
    await owners.unlink(door.store, Platform.WEB, key.id)
    assert not await door.knows(key)
    assert await door.knows(other)
    (left,) = await owners.identities(door.store, "me")
    assert left.sender.user_id == other.id


async def test_an_open_page_is_disconnected_when_its_browser_is_revoked(door: Door, tmp_path):
    """Also by another process, and without a request from the page."""
    async with door.browser(await door.key()) as browser:
        chat = await browser.new()
        async with await segue.store.open(f"sqlite://{tmp_path}/segue.db", clock=door.clock) as cli:
            [identity] = await owners.identities(cli, "me")
            await owners.unlink(cli, Platform.WEB, identity.sender.user_id)
        async with asyncio.timeout(WITHIN):
            with pytest.raises(ConnectionClosed) as closed:
                await browser.until("never")
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "revoked")
        shown = await pages.show(door.store, chat, "1", "too late")
        door.page.changed(chat, shown.no)
    assert "too late" not in repr(browser.told)


async def test_requests_of_a_revoked_browser_are_refused(door: Door):
    """Even before the server has been notified."""

    def quietly(tx: Tx) -> None:
        assert tx.change("DELETE FROM identities") == 1

    async with door.browser(await door.key()) as browser:
        chat = await browser.new()
        await door.store.write(quietly)
        with pytest.raises(ConnectionClosed):
            await said(browser, chat)
    assert await pages.unconfirmed_updates(door.store) == ()


async def test_a_browser_that_is_linked_to_another_owner_loses_access_to_the_first(door: Door):
    async with door.browser(await door.key()) as browser:
        chat = await browser.new()
        [identity] = await owners.identities(door.store, "me")
        await owners.unlink(door.store, Platform.WEB, identity.sender.user_id)
        await owners.link(door.store, identity.sender, "you")
        with pytest.raises(ConnectionClosed):
            await said(browser, chat)
    assert await pages.unconfirmed_updates(door.store) == ()
