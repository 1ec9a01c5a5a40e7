"""What adapters of remote platforms share, with a list as the platform."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

import pytest

from segue.core.address import Address, ChatType, Platform, Sender
from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.platforms.adapter import MarkedText, RemoteAdapter
from segue.platforms.base import (
    Attachment,
    Button,
    Capabilities,
    Dialect,
    Finding,
    Inbound,
    InboundKind,
    Part,
    Receipt,
    Upload,
)
from segue.platforms.errors import FailureRule, Failures, Lost, Refused

HOME = Address(platform=Platform.SIGNAL, chat_type=ChatType.DM, chat_id="1")
SENDER = Sender(platform=Platform.SIGNAL, user_id="1")
FILE = Upload("a.txt", "text/plain", b"a")
LONG = Part("<b>long text</b>", "long text")
NO_ACCOUNT = Finding(False, "There is no account.", "Get one.", vital=True)


class Client:
    def __init__(self) -> None:
        self.sent: list[str] = []
        self.failing: Exception | None = None
        self.closed = False

    async def call(self, text: str) -> Receipt:
        await asyncio.sleep(0)
        if self.closed:
            raise Lost("it was closed", arrived=False)
        if self.failing is not None:
            raise self.failing
        if text.startswith("<b>bad"):
            raise Refused(400, "bad markup")
        self.sent.append(text)
        return Receipt(str(len(self.sent)))

    async def close(self) -> None:
        self.closed = True


class ListAdapter(RemoteAdapter[Client]):
    platform = Platform.SIGNAL
    capabilities = Capabilities(edits=True, length=20, dialect=Dialect.MATRIX)
    caption = 5
    no_account = NO_ACCOUNT

    def __init__(self, clients: Sequence[Client] = ()) -> None:
        no_threads = (FailureRule(says=("no threads",), status=(400,)),)
        super().__init__(
            Failures(
                self.platform,
                no_threads=no_threads,
                bad_markup="bad markup",
                unchanged="unchanged",
            )
        )
        self._clients = list(clients)

    def _make(self) -> Client:
        if not self._clients:
            raise self.failures.unreachable("there is no account")
        return self._clients.pop(0)

    async def _greet(self, client: Client) -> None:
        self.account = await client.call("hello")

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        yield None

    async def _send(
        self, to: Address, text: str, *, markup: bool, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        return await self.client.call(text)

    async def _edit(
        self, at: Address, receipt: Receipt, text: str, *, markup: bool, buttons: Sequence[Button]
    ) -> None:
        if text in self.client.sent:
            raise Refused(400, "unchanged")
        await self.client.call(text)

    async def _upload(
        self, to: Address, file: Upload, caption: str, *, markup: bool, key: str
    ) -> Receipt:
        return await self.client.call(f"{file.name}: {caption}")

    async def _open_thread(self, home: Address, title: str, *, key: str) -> Address:
        return replace(home, thread_id=await self.client.call(title))

    async def _checks(self, client: Client, home: Address | None) -> AsyncGenerator[Finding]:
        yield Finding(True, "Fine.")
        await client.call("check")
        yield Finding(True, "Very fine.")


async def connected() -> tuple[ListAdapter, Client]:
    client = Client()
    adapter = ListAdapter([client])
    await adapter.connect()
    client.sent.clear()
    return adapter, client


async def test_markup_that_is_rejected_is_sent_as_plain_text():
    adapter, client = await connected()
    await adapter.send(HOME, Part("<b>good</b>", "good"), key="1")
    receipt = await adapter.send(HOME, Part("<b>bad", "bad\ud800"), key="2")
    await adapter.edit(HOME, receipt, Part("<b>bad again", "bad again"))
    assert client.sent == ["<b>good</b>", "bad\ufffd", "bad again"]


async def test_a_platform_that_takes_both_gets_the_text_with_and_without_markup():
    adapter, client = await connected()
    adapter.takes_both = True
    await adapter.send(HOME, Part("<b>good</b>", "good\ud800"), key="1")
    [sent] = client.sent
    assert isinstance(sent, MarkedText)
    assert (sent, sent.plain) == ("<b>good</b>", "good\ufffd")


async def test_a_platform_without_markup_gets_plain_text():
    adapter, client = await connected()
    adapter.capabilities = Capabilities()
    await adapter.send(HOME, Part("<b>good</b>", "good"), key="1")
    assert client.sent == ["good"]


async def test_an_edit_that_changes_nothing_is_not_an_error():
    adapter, client = await connected()
    receipt = await adapter.send(HOME, LONG, key="1")
    await adapter.edit(HOME, receipt, LONG)
    assert len(client.sent) == 1


async def test_content_over_a_limit_is_not_sent():
    adapter, client = await connected()
    for doing in (
        adapter.send(HOME, Part("x", "x" * 21), key="1"),
        adapter.edit(HOME, Receipt("1"), Part("", "")),
        adapter.send_file(HOME, FILE, Part("x", "x" * 21), key="1"),
    ):
        with pytest.raises(DeliveryFailed) as caught:
            await doing
        assert (caught.value.retry, caught.value.arrived) == (False, False)
    assert client.sent == []


async def test_a_text_that_is_too_long_for_a_caption_follows_the_file():
    adapter, client = await connected()
    assert await adapter.send_file(HOME, FILE, Part("short", "short"), key="1") == "1"
    assert await adapter.send_file(HOME, FILE, LONG, key="2") == "3"
    assert client.sent == ["a.txt: short", "a.txt: ", "<b>long text</b>"]


async def test_a_file_whose_text_did_not_follow_is_not_sent_again():
    class Half(ListAdapter):
        async def _send(self, *_: object, **__: object) -> Receipt:
            raise Refused(429, "slow", after=3)

    adapter = Half([Client()])
    await adapter.connect()
    with pytest.raises(DeliveryFailed, match="without its text") as caught:
        await adapter.send_file(HOME, FILE, LONG, key="1")
    assert (caught.value.retry, caught.value.arrived) == (False, True)


async def test_an_unsupported_call_fails_permanently_or_does_nothing():
    adapter, _ = await connected()
    press = Inbound(kind=InboundKind.BUTTON, update_id="1", address=HOME, sender=SENDER)
    for doing in (
        adapter.typing(HOME),
        adapter.fetch(Attachment("1", "a", "b", 1)),
        adapter.preview(HOME, LONG, key="1"),
    ):
        with pytest.raises(DeliveryFailed) as caught:
            await doing
        assert (caught.value.retry, caught.value.arrived) == (False, False)
    adapter.acknowledge(press)
    await adapter.offer([])
    assert await RemoteAdapter._open_thread(adapter, HOME, "x", key="1") is None
    assert await adapter.find_chat("1") is None
    assert await RemoteAdapter._has_user(adapter, Client(), "1") is None
    assert (adapter.previews(HOME), adapter.how_to_address(HOME)) == (False, "")
    assert adapter.pairing_link("x") is None


# Threads and moved chats


async def test_a_thread_is_opened_with_a_title_that_fits_if_the_chat_has_threads():
    adapter, client = await connected()
    adapter.title_length = 5
    opened = await adapter.create_handoff_thread(HOME, "long title", key="1")
    assert (opened, client.sent) == (replace(HOME, thread_id="1"), ["long…"])
    client.failing = Refused(400, "it has no threads")
    assert await adapter.create_handoff_thread(HOME, "x", key="2") is None
    client.failing = Refused(403, "it has no threads")
    with pytest.raises(DeliveryFailed):
        await adapter.create_handoff_thread(HOME, "x", key="3")


async def test_messages_files_and_threads_follow_a_chat_that_moved():
    class Moving(ListAdapter):
        async def _send(self, to: Address, *_: object, **__: object) -> Receipt:
            return await self._at(to)

        async def _upload(self, to: Address, *_: object, **__: object) -> Receipt:
            return await self._at(to)

        async def _open_thread(self, home: Address, *_: object, **__: object) -> Address:
            await self._at(home)
            raise Refused(400, "it has no threads")

        async def _at(self, to: Address) -> Receipt:
            if to.chat_id == "1":
                raise Refused(400, "it moved", moved_to=2)
            return Receipt(to.chat_id)

    for number in range(3):
        adapter = Moving([Client()])
        await adapter.connect()
        doing = (
            adapter.send(HOME, Part("x", "x"), key="1"),
            adapter.send_file(HOME, FILE, Part("", ""), key="1"),
            adapter.create_handoff_thread(HOME, "x", key="1"),
        )
        found = [await it if n == number else it.close() for n, it in enumerate(doing)]
        assert found[number] in ("2", replace(HOME, chat_id="2"))


def test_in_a_group_a_mention_addresses_the_bot():
    adapter = ListAdapter()
    group = replace(HOME, chat_type=ChatType.GROUP)
    assert adapter.how_to_address(group) == ""
    adapter.mention = "@bot"
    assert "`@bot`" in adapter.how_to_address(group)
    assert adapter.how_to_address(HOME) == ""
    assert adapter.how_to_address(replace(group, thread_id="1")) == ""


# Connecting


async def test_a_call_without_a_connection_names_the_last_failure():
    adapter = ListAdapter()
    with pytest.raises(ConnectFailed, match="it is not connected"):
        await adapter.send(HOME, LONG, key="1")
    for doing in (adapter.connect(), adapter.send(HOME, LONG, key="1")):
        with pytest.raises(ConnectFailed, match="there is no account"):
            await doing


async def test_a_client_that_failed_to_connect_is_closed_and_an_open_one_is_kept():
    bad = Client()
    good = Client()
    bad.failing = Refused(500, "oops")
    adapter = ListAdapter([bad, good])
    with pytest.raises(ConnectFailed, match="oops"):
        await adapter.connect()
    assert bad.closed
    await adapter.connect()
    good.failing = Lost("gone", arrived=False)
    with pytest.raises(ConnectFailed, match="gone"):
        await adapter.connect()
    assert (good.closed, adapter.client) == (False, good)
    await adapter.close()
    await adapter.close()
    assert good.closed


@pytest.mark.parametrize("failing", [None, Refused(400, "too old"), Lost("gone", arrived=True)])
async def test_a_call_in_the_background_never_fails(failing: Exception | None):
    adapter, client = await connected()
    client.failing = failing
    adapter.connection.in_background(lambda client: client.call("later"))
    assert client.sent == []
    await adapter.close()
    adapter.connection.in_background(lambda client: client.call("too late"))
    await adapter.close()
    assert "too late" not in client.sent


# Checks


@pytest.mark.parametrize(
    ("failing", "texts"),
    [
        (None, ["Fine.", "Very fine."]),
        (Refused(401, "no"), ["Fine.", "There is no account."]),
        (Lost("it hangs", arrived=True), ["Fine.", "Signal cannot be asked: it hangs."]),
    ],
)
async def test_checks_use_a_separate_client(failing: Exception | None, texts: list[str]):
    client = Client()
    client.failing = failing
    found = await ListAdapter([client]).examine(None)
    assert [finding.text for finding in found] == texts
    assert client.closed
    assert await ListAdapter().examine(None) == [NO_ACCOUNT]
