"""What is sent, in the shape that WhatsApp takes, and what its errors mean."""

from __future__ import annotations

import pytest

from segue.core.address import Address
from segue.platforms.base import Button, InboundKind, Upload
from segue.platforms.errors import Refused
from segue.platforms.whatsapp import client
from segue.platforms.whatsapp.client import FAILURES, WhatsAppClient
from segue.platforms.whatsapp.updates import address, last_message
from segue.testing import http
from segue.testing.contract.rig import failure, part, reading
from segue.testing.http import Request, Response
from tests.fakes.whatsapp import PHONE, Settings
from tests.rigs.whatsapp.contract import AnnaOnWhatsApp

DAY = 24 * 60 * 60


async def anna_writes(rig: AnnaOnWhatsApp) -> tuple[Address, int]:
    """Anna writes something, and the adapter hears it. Return where, and when."""
    at = await rig.place("dm")
    await rig.say(at, "hello")
    async with reading(rig.adapter) as reader:
        return address(at.chat), last_message((await reader.next()).update_id)[0]


# Choices


async def test_more_than_three_choices_are_a_list_and_long_labels_are_explained(
    rig: AnnaOnWhatsApp,
):
    to, _ = await anna_writes(rig)
    long = "Bring back the plan for the garden"
    buttons = [Button(long, "long"), *(Button(f"No {n}", f"n:{n}") for n in range(12))]
    await rig.adapter.send(to, part("Which?"), key="1", buttons=buttons)
    [seen] = await rig.seen("Which?")
    assert len(seen.labels) == 10
    assert seen.labels[:2] == ("Bring back the plan for…", "No 0")
    [call] = await rig.driver.calls("send")
    assert f"'description': '{long}'" in str(call.parameters)
    async with reading(rig.adapter) as reader:
        await reader.next()  # hello, which was not recorded
        await rig.press(seen.id, "No 0")
        assert (await reader.next()).text == "n:0"


@pytest.mark.parametrize(("words", "kind"), [("Take it", "button"), ("Take this talk", "list")])
def test_labels_that_are_the_same_when_cut_are_a_list(words: str, kind: str):
    buttons = [Button(f"{words} to {name}", name) for name in ("here", "there")]
    assert client.choices("Which?", buttons)["type"] == kind


async def test_a_text_that_is_too_long_for_its_buttons_is_not_sent(rig: AnnaOnWhatsApp):
    """It would be two messages, and only one of them has a receipt."""
    to, _ = await anna_writes(rig)
    buttons = [Button("Yes", "y")]
    failed = await failure(rig.adapter.send(to, part("x" * 1025), key="1", buttons=buttons))
    assert (failed.retry, failed.arrived) == (False, False)
    assert "1,024" in failed.reason
    assert not await rig.driver.calls("send")


# Files


@pytest.mark.parametrize(
    ("given", "kind", "sent"),
    [
        ("image/png", "image", "image/png"),
        ("text/x-python", "document", "text/plain"),
        ("application/json", "document", "text/plain"),
        ("application/pdf", "document", "application/pdf"),
        ("audio/mpeg", "audio", "audio/mpeg"),
    ],
)
async def test_a_file_is_sent_as_a_known_type(
    rig: AnnaOnWhatsApp, given: str, kind: str, sent: str
):
    to, _ = await anna_writes(rig)
    await rig.adapter.send_file(to, Upload("a file", given, b"x"), part("Look."), key="1")
    shown = await rig.driver.look()
    [file] = [it for it in shown.messages if it.files]
    assert (file.kind, file.files[0].media_type) == (kind, sent)
    assert "Look." in shown.texts


def test_a_file_of_another_type_is_refused_with_its_type():
    with pytest.raises(Refused, match="application/zip"):
        client.file_kind(Upload("a.zip", "application/zip", b"x"))


async def test_the_token_is_sent_to_no_other_server():
    async def answer(request: Request) -> Response:
        return Response(body=b'{"id": "1", "url": "https://files.example/1"}')

    async with http.serving(answer) as url:
        client = WhatsAppClient(PHONE, "token", "secret", url, 5.0)
        with pytest.raises(Refused, match="not on WhatsApp"):
            await client.fetch("1", 10)
        await client.close()


# The window


async def test_outside_of_the_window_nothing_is_sent_and_the_reason_is_given(rig: AnnaOnWhatsApp):
    to, written = await anna_writes(rig)
    rig.adapter.clock = lambda: written + DAY
    await rig.adapter.send(to, part("In time."), key="1")
    rig.adapter.clock = lambda: written + DAY + 1
    file = Upload("a.txt", "text/plain", b"x")
    for late in (
        rig.adapter.send(to, part("Too late."), key="2"),
        rig.adapter.send_file(to, file, part("Too late."), key="3"),
        rig.adapter.create_handoff_thread(to, "Sums", key="4"),
    ):
        failed = await failure(late)
        assert (failed.retry, failed.arrived) == (False, False)
        assert "more than 24 hours ago" in failed.reason
        assert "platforms.whatsapp.template" in failed.reason
    assert [it.method for it in await rig.driver.calls() if it.method != "get_number"] == ["send"]


async def test_the_window_is_known_after_a_restart(rig: AnnaOnWhatsApp):
    to, written = await anna_writes(rig)
    restarted = rig.made()
    restarted.clock = lambda: written + DAY + 1
    await restarted.connect()
    restarted.remember({to: ""})  # nothing was recorded, so WhatsApp decides
    await restarted.send(to, part("Perhaps."), key="2")
    restarted.remember({to: f"{written} wamid.HBgL"})
    assert "24 hours" in (await failure(restarted.send(to, part("Too late."), key="3"))).reason
    await restarted.close()


async def test_outside_of_the_window_a_template_carries_the_text_on_one_line(rig: AnnaOnWhatsApp):
    rig.adapter = adapter = rig.another(template="segue_message/en")
    await adapter.connect()
    to, _ = await anna_writes(rig)
    adapter.clock = lambda: 4e9
    await rig.driver.wrote(to.chat_id, DAY + 1)
    assert await adapter.create_handoff_thread(to, "Sums", key="0") is None
    await adapter.send(to, part("two\nlines\tand      spaces"), key="1")
    assert await rig.seen("two lines and spaces")
    await adapter.send(to, part("x" * 4000), key="2")
    assert await rig.seen("x" * 899 + "…")


async def test_a_question_in_a_template_does_not_count_as_shown(rig: AnnaOnWhatsApp):
    """It has no buttons there, is on one line and may be cut."""
    rig.adapter = adapter = rig.another(template="segue_message/en")
    await adapter.connect()
    to, _ = await anna_writes(rig)
    adapter.clock = lambda: 4e9
    await rig.driver.wrote(to.chat_id, DAY + 1)
    choices = [Button("Allow", "a:1:once"), Button("Deny", "a:1:never")]
    failed = await failure(adapter.send(to, part("May I?\nrun"), key="1", buttons=choices))
    assert (failed.retry, failed.arrived) == (False, True)
    assert "without its buttons" in failed.reason
    assert await rig.seen("May I? run")


async def test_a_window_that_whatsapp_closed_is_closed_for_the_next_message_too(
    rig: AnnaOnWhatsApp,
):
    to, _ = await anna_writes(rig)
    await rig.driver.wrote(to.chat_id, DAY + 1)
    receipt = await rig.adapter.send(to, part("Hello?"), key="1")
    async with reading(rig.adapter) as reader:
        await reader.next()  # hello, which was not recorded
        failed = await reader.next()
    assert (failed.kind, failed.message_id) == (InboundKind.UNDELIVERED, receipt)
    assert "more than 24 hours ago" in failed.text
    assert failed.text.endswith("(#131047)")
    await failure(rig.adapter.send(to, part("Hello?"), key="2"))
    assert len(await rig.driver.calls("send")) == 1


# Errors


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (368, "restricted the account; see why at https:"),
        (131031, "restricted the account; see why at https:"),
        (131042, "a way to be paid; add one at https:"),
        (131048, "blocked or reported the bot; see https:"),
        (133010, "register it under API Setup at https:"),
        (131030, "add it under API Setup at https:"),
        (131056, ""),  # too many messages to one user: it is sent later
    ],
)
async def test_an_error_says_what_a_person_can_do(rig: AnnaOnWhatsApp, code: int, words: str):
    to, _ = await anna_writes(rig)
    await rig.driver.settings(Settings(policy=code))
    failed = await failure(rig.adapter.send(to, part("Hello."), key="1"))
    assert words in failed.reason
    assert (failed.retry, failed.arrived, failed.after) == (not words, False, None)


def test_a_code_is_not_found_in_the_words_of_another_error():
    refused = Refused(400, "at most 100 or 10 of them", code="#131009")
    assert FAILURES.reason(refused) == "at most 100 or 10 of them"


async def test_a_question_in_a_template_ends_with_how_to_answer_it(rig: AnnaOnWhatsApp):
    rig.adapter = adapter = rig.another(template="segue_message/en")
    await adapter.connect()
    to, _ = await anna_writes(rig)
    adapter.clock = lambda: 4e9
    await rig.driver.wrote(to.chat_id, DAY + 1)
    choices = [
        Button("Allow", "a:1:once", "/approve 1"),
        Button("Deny", "a:1:never", "/deny 1"),
    ]
    hint = " Answer /approve 1 (Allow) or /deny 1 (Deny)."
    for text, shown in (("May I?\nrun", "May I? run"), ("x" * 1000, "x" * (899 - len(hint)) + "…")):
        failed = await failure(adapter.send(to, part(text), key=text[:1], buttons=choices))
        assert failed.arrived
        assert await rig.seen(f"{shown}{hint}")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Allow", "Allow"),
        ("Allow in this session", "Allow in this…"),
        ("Donaudampfschifffahrtsgesellschaft", "Donaudampfschifffah…"),
    ],
)
def test_a_label_is_cut_between_words(text: str, shown: str):
    assert client.label(text, 20) == shown
