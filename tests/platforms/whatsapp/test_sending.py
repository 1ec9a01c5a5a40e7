"""What is sent, in the shape that WhatsApp takes, and what its errors mean."""

from __future__ import annotations

import re

import pytest

from segue.core.address import Platform
from segue.core.errors import BadAdapter, ConnectFailed
from segue.platforms.base import Button, InboundKind, Upload
from segue.platforms.errors import Refused
from segue.platforms.whatsapp.client import FAILURES, WhatsAppClient
from segue.platforms.whatsapp.parser import address
from segue.testing import http
from segue.testing.contract.rig import failure, listening, part
from segue.testing.http import Request, Response
from segue.testing.whatsapp import PHONE, Settings
from tests.platforms.whatsapp.rig import WhatsAppRig

DAY = 24 * 60 * 60


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def anna_writes(rig: WhatsAppRig) -> str:
    """Anna writes something, and the adapter hears it. Return her number."""
    at = await rig.place("dm")
    await rig.say(at, "hello")
    async with listening(rig.adapter) as ear:
        await ear.next()
    return at.chat


# Choices


async def test_more_than_three_choices_are_a_list_and_long_labels_are_explained(rig: WhatsAppRig):
    to = address(await anna_writes(rig))
    long = "Bring back the plan for the garden"
    buttons = [Button(long, "long"), *(Button(f"No {n}", f"n:{n}") for n in range(12))]
    await rig.adapter.send(to, part("Which?"), key="1", buttons=buttons)
    [seen] = await rig.seen("Which?")
    assert len(seen.labels) == 10
    assert seen.labels[:2] == ("Bring back the plan for…", "No 0")
    [call] = await rig.driver.calls("send")
    sections = str(call.parameters["interactive"])
    assert f"'description': '{long}'" in sections
    async with listening(rig.adapter) as ear:
        await ear.next()  # hello, which was not recorded
        await rig.press(seen.id, "No 0")
        assert (await ear.next()).text == "n:0"


async def test_labels_that_are_the_same_when_cut_are_a_list(rig: WhatsAppRig):
    to = address(await anna_writes(rig))
    buttons = [Button(f"Take the conversation {name}", name) for name in ("one", "two")]
    await rig.adapter.send(to, part("Which?"), key="1", buttons=buttons)
    [call] = await rig.driver.calls("send")
    assert "'type': 'list'" in str(call.parameters["interactive"])


async def test_a_long_question_is_followed_by_its_buttons(rig: WhatsAppRig):
    to = address(await anna_writes(rig))
    text = "word " * 400
    await rig.adapter.send(to, part(text), key="1", buttons=[Button("Yes", "y")])
    [long], [choice] = await rig.seen(text), await rig.seen("Choose:")
    assert (long.labels, choice.labels) == ((), ("Yes",))


# Files


@pytest.mark.parametrize(
    ("media_type", "kind", "sent_as"),
    [
        ("image/png", "image", "image/png"),
        ("text/x-python", "document", "text/plain"),
        ("application/json", "document", "text/plain"),
        ("application/pdf", "document", "application/pdf"),
        ("audio/mpeg", "audio", "audio/mpeg"),
    ],
)
async def test_a_file_is_sent_as_what_whatsapp_takes(
    rig: WhatsAppRig, media_type: str, kind: str, sent_as: str
):
    to = address(await anna_writes(rig))
    await rig.adapter.send_file(to, Upload("a file", media_type, b"x"), part("Look."), key="1")
    messages = [it for it in (await rig.driver.look()).messages if it.author == PHONE]
    [file] = [it for it in messages if it.files]
    assert (file.kind, file.files[0].media_type) == (kind, sent_as)
    assert "Look." in [it.text for it in messages]


async def test_a_file_of_another_type_is_refused_with_its_type(rig: WhatsAppRig):
    to = address(await anna_writes(rig))
    zipped = Upload("a.zip", "application/zip", b"x")
    failed = await failure(rig.adapter.send_file(to, zipped, part("Look."), key="1"))
    assert "application/zip" in failed.reason
    assert (failed.retry, failed.arrived) == (False, False)


async def test_the_token_is_sent_to_no_other_server():
    async def answer(request: Request) -> Response:
        return Response(body=b'{"id": "1", "url": "https://files.example/1"}')

    async with http.serving(answer) as url:
        client = WhatsAppClient(PHONE, "token", "secret", url, 5.0)
        with pytest.raises(Refused, match="not on WhatsApp"):
            await client.fetch("1", 10)
        await client.close()


# The window


async def test_outside_of_the_window_nothing_is_sent_and_the_reason_says_what_to_do(
    rig: WhatsAppRig,
):
    clock = Clock()
    rig.adapter = adapter = rig.another()
    adapter.clock = clock
    await adapter.connect()
    to = address(await anna_writes(rig))
    [(written, _)] = adapter._last.values()
    clock.now = written + DAY
    await adapter.send(to, part("In time."), key="1")
    clock.now += 1
    failed = await failure(adapter.send(to, part("Too late."), key="2"))
    assert (failed.retry, failed.arrived) == (False, False)
    assert "more than 24 hours ago" in failed.reason
    assert "platforms.whatsapp.template" in failed.reason
    assert [len(await rig.driver.calls("send"))] == [1]
    # After a restart, the gateway says what was recorded last.
    restarted = rig.made()
    restarted.clock = clock
    await restarted.connect()
    restarted.remember({to: ""})  # nothing was recorded, so WhatsApp decides
    await restarted.send(to, part("Perhaps."), key="2")
    restarted.remember({to: f"{written} wamid.HBgL"})
    assert "24 hours" in (await failure(restarted.send(to, part("Too late."), key="3"))).reason
    await restarted.close()


async def test_outside_of_the_window_a_template_carries_the_text_on_one_line(rig: WhatsAppRig):
    clock = Clock()
    rig.adapter = adapter = rig.another(template="segue_message/en")
    adapter.clock = clock
    await adapter.connect()
    to = address(await anna_writes(rig))
    clock.now = 4e9
    await rig.driver.wrote(to.chat_id, DAY + 1)
    await adapter.send(to, part("two\nlines\tand      spaces"), key="1")
    assert await rig.seen("two lines and spaces")
    await adapter.send(to, part("x" * 4000), key="2")
    assert await rig.seen("x" * 899 + "…")


async def test_a_window_that_whatsapp_closed_is_closed_for_the_next_message_too(rig: WhatsAppRig):
    anna = await anna_writes(rig)
    to = address(anna)
    await rig.driver.wrote(anna, DAY + 1)
    receipt = await rig.adapter.send(to, part("Hello?"), key="1")
    async with listening(rig.adapter) as ear:
        await ear.next()  # hello, which was not recorded
        failed = await ear.next()
    assert (failed.kind, failed.message_id) == (InboundKind.UNDELIVERED, receipt)
    assert "more than 24 hours ago" in failed.text
    await failure(rig.adapter.send(to, part("Hello?"), key="2"))
    assert len(await rig.driver.calls("send")) == 1


# Errors


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (368, "restricted the account"),
        (131031, "restricted the account"),
        (131042, "way to be paid"),
        (131048, "blocked or reported"),
        (133010, "register it"),
        (131030, "test number"),
    ],
)
async def test_an_error_says_what_a_person_can_do(rig: WhatsAppRig, code: int, words: str):
    to = address(await anna_writes(rig))
    await rig.driver.settings(Settings(policy=code))
    failed = await failure(rig.adapter.send(to, part("Hello."), key="1"))
    assert words in failed.reason
    assert "https://" in failed.reason
    assert not failed.retry


async def test_a_busy_platform_is_asked_again(rig: WhatsAppRig):
    to = address(await anna_writes(rig))
    await rig.driver.settings(Settings(chat_seconds=3600.0))
    await rig.adapter.send(to, part("One."), key="1")
    failed = await failure(rig.adapter.send(to, part("Two."), key="2"))
    assert (failed.retry, failed.arrived, failed.after) == (True, False, None)


async def test_a_revoked_token_is_noticed_without_a_message(
    rig: WhatsAppRig, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("segue.platforms.hub.CHECK_SECONDS", 0.01)
    await rig.driver.settings(Settings(revoked=True))
    with pytest.raises(ConnectFailed, match="access token"):
        async with listening(rig.adapter) as ear:
            await ear.next()


def test_a_code_is_not_found_in_the_words_of_another_error():
    refused = Refused(400, "at most 100 or 10 of them", code="#131009")
    assert FAILURES.reason(refused) == "at most 100 or 10 of them"


@pytest.mark.parametrize("port", ["x", "0", "65536"])
def test_a_port_that_is_none_is_refused(rig: WhatsAppRig, port: str):
    with pytest.raises(BadAdapter, match=re.escape(f"platforms.{Platform.WHATSAPP}.port")):
        rig.made(port=port)
