"""What the webhook delivers, in which order, and what becomes of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from segue.core.errors import ConnectFailed
from segue.platforms.base import InboundKind, Quote
from segue.platforms.whatsapp.updates import last_message, parse
from segue.testing.contract.rig import reading
from tests.fakes.whatsapp import PHONE, Settings
from tests.rigs.whatsapp.contract import AnnaOnWhatsApp
from tests.rigs.whatsapp.specimens import ANNA, OURS, message, payload


def updates(*messages: Any, phone: str = PHONE, **more: Any) -> list[Any]:
    found = parse(json.dumps(payload(*messages, **more)).encode(), phone)
    return [it and it.inbound for it in found]


def found(kind: str, content: Any, **more: Any) -> Any:
    """The Inbound of one message, or None."""
    return next(iter(updates(message(kind, content, **more))), None)


async def test_an_adapter_without_an_app_secret_does_not_connect(rig: AnnaOnWhatsApp):
    with pytest.raises(ConnectFailed, match="app secret"):
        await rig.made(app_secret="").connect()


async def test_updates_that_overtake_each_other_are_put_in_order(rig: AnnaOnWhatsApp):
    anna = await rig.driver.user("Anna")
    await rig.driver.settings(Settings(parallel=8, batch=2))
    rig.adapter.deliveries.seconds = 0.3
    await rig.driver.hold()
    for number in range(6):
        await rig.driver.say(anna, str(number), at=1_790_000_000 + number)
    await rig.driver.release(backwards=True)
    async with reading(rig.adapter) as reader:
        assert [(await reader.next()).text for _ in range(6)] == [*"012345"]
        last = asyncio.ensure_future(reader.next())
        shown = await rig.driver.until(lambda shown: shown.unconfirmed == 0)
        last.cancel()
        await asyncio.wait([last])
    assert shown.answers["200"] < 6, "a request can have several updates"


# Parsing


PLACE = {"latitude": 1.5, "longitude": 2, "name": "Harbour\n", "address": "Quay 1"}
EVE = {"name": {"formatted_name": "Eve"}, "phones": [{"phone": "+1 23"}, {"phone": "12"}]}


@pytest.mark.parametrize(
    ("kind", "content", "words"),
    [
        ("location", PLACE, "[A place: Harbour, Quay 1, at latitude 1.5, longitude 2.0]"),
        ("contacts", [EVE], "[A contact: Eve, +1 23, 12]"),
        ("reaction", {"message_id": "wamid.X", "emoji": "👍"}, "[A reaction: 👍]"),
        ("unsupported", {}, "[A message of a kind that the platform does not pass on]"),
        ("button", {"payload": "p", "text": "Stop"}, "Stop"),
    ],
)
def test_what_is_no_text_is_put_in_words(kind: str, content: Any, words: str):
    assert found(kind, content).text == words


@pytest.mark.parametrize(
    ("kind", "content", "name", "media_type"),
    [
        ("audio", {"mime_type": "audio/ogg; codecs=opus", "voice": True}, "voice.ogg", "audio/ogg"),
        ("image", {"mime_type": "image/png"}, "photo.png", "image/png"),
        ("document", {"mime_type": "text/x", "filename": "a.pdf"}, "a.pdf", "text/x"),
    ],
)
def test_a_file_has_a_name_and_a_type(kind: str, content: Any, name: str, media_type: str):
    inbound = found(kind, {"id": "7", "caption": "Look.", **content})
    [file] = inbound.attachments
    assert (file.id, file.name, file.media_type) == ("7", name, media_type)
    assert inbound.text == "Look."


def test_a_chosen_row_is_a_press_and_a_reply_has_its_quote():
    row = {"type": "list_reply", "list_reply": {"id": "a:1", "title": "One"}}
    press = found("interactive", row, context=OURS)
    assert (press.kind, press.text, press.message_id) == (InboundKind.BUTTON, "a:1", OURS["id"])
    assert found("text", {"body": "yes"}, context=OURS).quote == Quote(
        ours=True, message_id=OURS["id"]
    )
    mine = found("text", {"body": "yes"}, context={"from": ANNA, "id": "wamid.X"})
    assert mine.quote == Quote(author="Anna", message_id="wamid.X")
    many = found("text", {"body": "/approve"}, context={"frequently_forwarded": True})
    assert (many.typed, many.forwarded_from) == ("", "")


def test_messages_of_groups_and_of_other_numbers_and_those_without_content_are_left_out():
    hello = message("text", {"body": "hello"})
    assert updates({**hello, "group_id": "G1"}) == []
    assert updates({**hello, "group_id": ""}) == []
    assert updates(hello, phone="7") == []
    assert found("system", {"body": "changed number"}) is None
    assert found("reaction", {"message_id": "wamid.X"}) is None, "it was taken back"


def test_a_bad_message_does_not_take_the_good_ones_with_it():
    bad, good = updates({"id": 7}, message("text", {"body": "good"}))
    assert (bad, good.text) == (None, "good")


def test_the_id_of_an_update_has_the_time_of_the_message():
    inbound = found("text", {"body": "hello"})
    assert last_message(inbound.update_id) == (1_790_000_000, "wamid.HBgL")
    assert last_message("") == last_message("x y") == (0, "")


def test_a_status_has_the_key_of_the_message_and_opens_no_window():
    head = {"id": "wamid.X", "status": "sent", "timestamp": "1790000000", "recipient_id": ANNA}
    [inbound] = updates(statuses=[{**head, "biz_opaque_callback_data": "key/0"}, head])
    assert (inbound.kind, inbound.message_id) == (InboundKind.DELIVERED, "wamid.X")
    assert (inbound.text, last_message(inbound.update_id)) == ("key/0", (0, ""))
