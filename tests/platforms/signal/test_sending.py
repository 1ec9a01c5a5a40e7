"""What the adapter sends to Signal, and what it says when that fails."""

from __future__ import annotations

import json

import pytest

from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.platforms import markup
from segue.platforms.base import Upload
from segue.platforms.errors import Refused
from segue.platforms.signal.adapter import SignalAdapter
from segue.platforms.signal.client import SignalClient
from segue.testing.contract.rig import failure, part
from segue.testing.http import Request, Response, serving
from tests.fakes.signal import NUMBER, Failure, Settings
from tests.rigs.signal.contract import AnnaOnSignal, Shape


async def test_markdown_becomes_text_with_ranges_in_utf16_units(rig: AnnaOnSignal):
    source = "👍 **bold _both_** ~~gone~~ `code`\n\n```py\nx = 1\n```\n> [a\ufdd0](https://b.c)"
    async with rig.talking() as (_, _, home):
        [rendered] = markup.parts(source, rig.adapter.capabilities)
        await rig.adapter.send(home, rendered, key="1")
        shown = await rig.newest()
    assert shown.text == "👍 bold both gone code\n\nx = 1\n\n> a (https://b.c)"
    units = shown.text.encode("utf-16-le")
    styled = {
        (it.style, units[2 * it.start : 2 * (it.start + it.length)].decode("utf-16-le"))
        for it in shown.styles
    }
    assert styled == {
        ("BOLD", "bold both"), ("ITALIC", "both"), ("STRIKETHROUGH", "gone"),
        ("MONOSPACE", "code"), ("MONOSPACE", "x = 1"),
    }  # fmt: skip


async def test_a_file_arrives_with_its_name_and_its_text(rig: AnnaOnSignal):
    async with rig.talking(Shape.GROUP) as (_, _, home):
        file = Upload("my, notes;ü.txt", "text/plain; charset=utf-8", b"notes")
        await rig.adapter.send_file(home, file, part("Here."), key="1")
        shown = await rig.newest()
        assert shown.file is not None
        assert (shown.text, shown.file.name) == ("Here.", "my, notes;ü.txt")
        assert await rig.driver.content(shown.file.id) == b"notes"


async def test_every_edit_names_the_version_before_it(rig: AnnaOnSignal):
    async with rig.talking() as (_, _, home):
        receipt = await rig.adapter.send(home, part("1"), key="1")
        for text in ("2", "3", "4"):
            await rig.adapter.edit(home, receipt, part(text))
        assert (await rig.newest()).earlier == ("1", "2", "3")
        later = rig.another()
        await later.connect()
        failed = await failure(later.edit(home, receipt, part("5")))
        assert not failed.retry, "the gateway sends it as a new message"
        await later.close()


async def test_an_edit_after_a_refused_one_names_the_same_version(rig: AnnaOnSignal):
    async with rig.talking() as (_, _, home):
        receipt = await rig.adapter.send(home, part("1"), key="1")
        await rig.driver.change(home.chat_id, failure=Failure.RATE_LIMIT)
        assert (await failure(rig.adapter.edit(home, receipt, part("2")))).retry
        await rig.driver.change(home.chat_id)
        await rig.adapter.edit(home, receipt, part("2"))
        assert (await rig.newest()).earlier == ("1",)


@pytest.mark.parametrize(
    ("refusal", "challenge", "reason", "after"),
    [
        (Failure.IDENTITY, "", f"signal-cli -a \\{NUMBER} trust -v SAFETY_NUMBER USER", None),
        (Failure.UNREGISTERED, "", "not on Signal any more", None),
        (Failure.PRE_KEY, "", "keys of that user", None),
        (Failure.RATE_LIMIT, "", "fewer messages", 9.0),
        (Failure.RATE_LIMIT, "T0", "submitRateLimitChallenge --challenge T0 --captcha", 9.0),
    ],
)
async def test_a_refusal_says_what_to_do(
    rig: AnnaOnSignal, refusal: Failure, challenge: str, reason: str, after: float | None
):
    async with rig.talking() as (_, _, home):
        await rig.driver.change(home.chat_id, failure=refusal, challenge=challenge, seconds=9)
        with pytest.raises(DeliveryFailed, match=reason) as failed:
            await rig.adapter.send(home, part("hello"), key="1")
        assert (failed.value.after, failed.value.retry) == (after, after is not None)


@pytest.mark.parametrize(
    ("cause", "reason", "arrived"),
    [
        (Failure.IDENTITY, f"signal-cli -a {NUMBER} trust -v SAFETY_NUMBER USER", False),
        (Failure.PRE_KEY, "keys of that user", False),
        (Failure.RATE_LIMIT, "fewer messages", False),
        (Failure.NETWORK, "signal-cli cannot reach Signal", True),
    ],
)
async def test_what_an_owner_in_a_group_did_not_get_is_not_delivered(
    rig: AnnaOnSignal, cause: Failure, reason: str, arrived: bool
):
    """Nor is it sent again, because other members got it."""
    async with rig.in_group() as (home, eve):
        await rig.driver.change(home.chat_id, failure=cause, failing=[rig.anna], seconds=9)
        failed = await failure(rig.adapter.send(home, part("hello"), key="1"))
        assert (failed.retry, failed.arrived) == (False, arrived)
        assert reason in failed.reason
        assert "Other members got it" in failed.reason
        await rig.driver.change(home.chat_id, failure=cause, failing=[eve], seconds=9)
        assert await rig.adapter.send(home, part("hello"), key="2")


async def test_an_owner_in_a_group_who_left_signal_holds_nothing_up(rig: AnnaOnSignal):
    async with rig.in_group() as (home, _):
        await rig.driver.change(home.chat_id, failure=Failure.UNREGISTERED, failing=[rig.anna])
        assert await rig.adapter.send(home, part("hello"), key="1")


async def test_an_edit_that_an_owner_in_a_group_did_not_get_is_not_delivered(rig: AnnaOnSignal):
    async with rig.in_group() as (home, _):
        receipt = await rig.adapter.send(home, part("1"), key="1")
        await rig.driver.change(home.chat_id, failure=Failure.IDENTITY, failing=[rig.anna])
        assert not (await failure(rig.adapter.edit(home, receipt, part("2")))).retry
        await rig.driver.change(home.chat_id)
        failed = await failure(rig.adapter.edit(home, receipt, part("3")))
        assert "newest version is not known" in failed.reason


async def test_a_message_that_signal_cli_could_not_deliver_may_have_arrived(rig: AnnaOnSignal):
    async with rig.talking() as (_, _, home):
        await rig.driver.settings(Settings(network=False))
        failed = await failure(rig.adapter.send(home, part("hello"), key="1"))
    assert (failed.retry, failed.arrived) == (True, True)
    assert "signal-cli cannot reach Signal" in failed.reason


async def test_an_unlinked_account_is_named_when_sending_and_when_connecting(rig: AnnaOnSignal):
    async with rig.talking() as (_, _, home):
        await rig.driver.settings(Settings(revoked=True))
        for work in (rig.adapter.send(home, part("hello"), key="1"), rig.another().connect()):
            with pytest.raises(ConnectFailed, match=r"unlinked it.*segue setup signal"):
                await work


async def test_the_events_of_an_account_that_is_gone_cannot_be_heard(rig: AnnaOnSignal):
    client = SignalClient("+4915100000002", rig.url, 5.0)
    await client.events.open()
    with pytest.raises(Refused) as refused:
        await client.events.first()
    assert refused.value.status == 401
    await client.close()


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Failed: AuthorizationFailedException (401)", r"unlinked it.*segue setup signal"),
        ("Unexpected error", "Unexpected error"),
    ],
)
async def test_an_internal_error_is_told_from_a_device_that_was_unlinked(message: str, reason: str):
    async def answer(_: Request) -> Response:
        error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": message}}
        return Response(body=json.dumps(error).encode())

    async with serving(answer) as url:
        with pytest.raises(ConnectFailed, match=reason):
            await SignalAdapter(NUMBER, url).connect()


async def test_an_old_daemon_is_not_connected_to(rig: AnnaOnSignal):
    await rig.driver.settings(Settings(version="0.12.8"))
    with pytest.raises(ConnectFailed, match=r"signal-cli 0\.12\.8 is too old"):
        await rig.another().connect()
    for version in ("0.13.0-SNAPSHOT", "0.13", "0.14.4.1", "1.0"):
        await rig.driver.settings(Settings(version=version))
        await rig.adapter.connect()


async def test_a_group_that_the_account_left_takes_nothing(rig: AnnaOnSignal):
    async with rig.talking(Shape.GROUP) as (_, _, home):
        await rig.driver.change(home.chat_id, joined=False)
        failed = await failure(rig.adapter.send(home, part("hello"), key="1"))
    assert (failed.retry, failed.arrived) == (False, False)
    assert "not a member in group" in failed.reason
