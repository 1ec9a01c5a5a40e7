"""What events mean, without a server: events as Synapse delivered them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from segue.core.address import ChatType
from segue.platforms.base import Inbound, InboundKind, Quote
from segue.platforms.matrix import parser, wire
from segue.platforms.matrix.parser import Room
from tests.platforms.matrix.specimens import ANNA, BOT, FILE, ID, MESSAGE, ROOM

NAMES = ("Segue", BOT, "@bot", "bot")
ROOT = "$root"
THREAD = {
    "rel_type": "m.thread",
    "event_id": ROOT,
    "is_falling_back": True,
    "m.in_reply_to": {"event_id": ROOT},
}


def room(*, direct: bool = False) -> Room:
    members = {ANNA: "Anna", BOT: "Segue"} | ({} if direct else {"@eve:segue.test": "Eve"})
    return Room(ROOM, direct=direct, name="Boats", members=members)


def event(given: dict[str, Any]) -> wire.RoomEvent:
    return msgspec.json.decode(json.dumps(given), type=wire.RoomEvent)


def parse(
    given: dict[str, Any], about: dict[str, Any] | None = None, *, direct: bool = False
) -> Inbound | None:
    return parser.parse(
        event(given), room(direct=direct), BOT, NAMES, event(about) if about else None
    )


def message(body: str, **content: Any) -> dict[str, Any]:
    return {**MESSAGE, "content": {"msgtype": "m.text", "body": body, **content}}


def test_a_message_names_its_room_and_sender():
    found = parse(MESSAGE)
    assert found is not None
    assert (found.kind, found.text, found.message_id) == (InboundKind.MESSAGE, "hello", ID)
    assert (found.address.chat_id, found.address.chat_type) == (ROOM, ChatType.GROUP)
    assert (found.sender.user_id, found.sender.name) == (ANNA, "Anna")
    assert found.readers == "the 3 members of Boats"


@pytest.mark.parametrize(
    ("body", "text", "addressed"),
    [
        ("hello", "hello", False),
        ("Segue: /status", "/status", True),
        ("segue, hello", "hello", True),
        (f"{BOT} hello", "hello", True),
        ("Segues hello", "Segues hello", False),
        ("Segue", "Segue", True),
    ],
)
def test_a_message_in_a_room_is_for_the_bot_if_it_begins_with_its_name(
    body: str, text: str, addressed: bool
):
    found = parse(message(body))
    assert found is not None
    assert (found.text, found.addressed) == (text, addressed)


def test_a_mention_is_for_the_bot():
    found = parse(message("hello", **{"m.mentions": {"user_ids": [BOT]}}))
    assert found is not None
    assert found.addressed


def test_a_direct_message_is_always_for_the_bot():
    found = parse(MESSAGE, direct=True)
    assert found is not None
    assert (found.addressed, found.readers, found.address.chat_type) == (True, "", ChatType.DM)


def test_a_message_in_a_thread_has_its_address_and_no_quote():
    given = message("go on", **{"m.relates_to": THREAD})
    assert event(given).target == ""
    found = parse(given)
    assert found is not None
    assert (found.address.thread_id, found.quote) == (ROOT, None)


@pytest.mark.parametrize("fallback", ["", "> <@bot:segue.test> Shall I?\n> Now?\n\n"])
def test_a_reply_has_its_quote_and_not_the_words_of_the_other(fallback: str):
    relation = {"m.in_reply_to": {"event_id": "$other"}}
    given = message(f"{fallback}yes", **{"m.relates_to": relation})
    assert event(given).target == "$other"
    found = parse(given, {**message("Shall I?"), "sender": BOT})
    assert found is not None
    assert (found.text, found.addressed, found.address.thread_id) == ("yes", True, None)
    assert found.quote == Quote(text="Shall I?", ours=True)


def edit(by: str = ANNA) -> dict[str, Any]:
    relation = {"rel_type": "m.replace", "event_id": ID}
    new = {"msgtype": "m.text", "body": "hello"}
    changed = message("* hello", **{"m.relates_to": relation, "m.new_content": new})
    return {**changed, "event_id": "$2", "sender": by}


def test_an_edit_is_in_the_thread_of_the_message():
    found = parse(edit(), message("helo", **{"m.relates_to": THREAD}))
    assert found is not None
    assert (found.kind, found.text, found.message_id) == (InboundKind.EDIT, "hello", ID)
    assert found.address.thread_id == ROOT


def test_only_the_author_can_edit_a_message():
    assert parse(edit("@eve:segue.test"), message("helo")) is None


def reaction(label: str) -> dict[str, Any]:
    relation = {"rel_type": "m.annotation", "event_id": ID, "key": label}
    return {**MESSAGE, "type": "m.reaction", "content": {"m.relates_to": relation}}


def test_a_reaction_to_a_message_of_the_bot_is_in_its_thread():
    question = {**message("Well?", **{"m.relates_to": THREAD}), "sender": BOT}
    found = parse(reaction("👍"), question)
    assert found is not None
    assert (found.kind, found.text, found.message_id) == (InboundKind.REACTION, "👍", ID)
    assert found.address.thread_id == ROOT
    assert parse(reaction("👍"), message("Well?")) is None


def test_a_file_has_a_caption_only_if_it_has_a_name_too():
    found = parse(FILE)
    assert found is not None
    (file,) = found.attachments
    assert (found.text, file.name, file.media_type) == ("Look.", "a.png", "image/png")
    unnamed = {**FILE, "content": {**FILE["content"], "body": "b.png"}}
    del unnamed["content"]["filename"]
    found = parse(unnamed)
    assert found is not None
    assert (found.text, found.attachments[0].name) == ("", "b.png")


@pytest.mark.parametrize(
    "ignored",
    [
        message("I am a bot.", msgtype="m.notice"),
        message("asks", msgtype="m.key.verification.request"),
        {**MESSAGE, "content": {}},  # it was deleted
        {**MESSAGE, "type": "m.call.invite"},
    ],
)
def test_what_no_user_says_is_ignored(ignored: dict[str, Any]):
    assert parse(ignored) is None
