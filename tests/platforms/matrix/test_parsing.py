"""What events mean, without a server: events as Synapse delivered them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec
import pytest

from segue.core.address import ChatType
from segue.platforms.base import Inbound, InboundKind, Quote
from segue.platforms.matrix import events
from segue.platforms.matrix.client import FAILURES, _refused
from segue.platforms.matrix.events import EVENT, RoomEvent, is_id, state_event
from segue.platforms.matrix.events import ROOM as ROOM_SIGIL
from tests.rigs.matrix.specimens import ANNA, BOT, FILE, ID, MESSAGE, ROOM

ROOT = "$root"
EVE = "@eve:segue.test"
FALLBACK = {"is_falling_back": True, "m.in_reply_to": {"event_id": ROOT}}
THREAD = {"rel_type": "m.thread", "event_id": ROOT, **FALLBACK}


def event(given: dict[str, Any]) -> RoomEvent:
    return msgspec.json.decode(json.dumps(given), type=RoomEvent)


def parse(given: Any, about: Any = None, *, direct: bool = False) -> Inbound | None:
    members = {ANNA: "Anna", BOT: "Segue"} | ({} if direct else {EVE: "Eve"})
    room = events.Room(ROOM, direct=direct, name="Boats", members=members)
    names = ("Segue", BOT, "@bot", "bot")
    return events.parse(event(given), room, BOT, names, about and event(about))


def heard(given: Any, about: Any = None, *, direct: bool = False) -> Inbound:
    found = parse(given, about, direct=direct)
    assert found is not None
    return found


def message(body: str, relation: dict[str, Any] | None = None, **content: Any) -> dict[str, Any]:
    content = {"msgtype": "m.text", "body": body, "m.relates_to": relation or {}, **content}
    return {**MESSAGE, "content": content}


def test_a_message_names_its_room_and_sender():
    found = heard(MESSAGE)
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
    found = heard(message(body))
    assert (found.text, found.addressed) == (text, addressed)


def test_a_mention_and_a_direct_message_are_for_the_bot():
    mentions = {"m.mentions": {"user_ids": [BOT], "room": True}}
    assert heard(message("hello", **mentions)).addressed
    found = heard(MESSAGE, direct=True)
    assert (found.addressed, found.readers, found.address.chat_type) == (True, "", ChatType.DM)


def test_a_message_in_a_thread_has_its_address_and_no_quote():
    given = message("go on", THREAD)
    assert event(given).target == ""
    found = heard(given)
    assert (found.address.thread_id, found.quote) == (ROOT, None)


@pytest.mark.parametrize("fallback", ["", "> <@bot:segue.test> Shall I?\n> Now?\n\n"])
def test_a_reply_has_its_quote_and_not_the_words_of_the_other(fallback: str):
    given = message(f"{fallback}yes", {"m.in_reply_to": {"event_id": "$other"}})
    assert event(given).target == "$other"
    found = heard(given, {**message("Shall I?"), "sender": BOT})
    assert (found.text, found.addressed, found.address.thread_id) == ("yes", True, None)
    assert found.quote == Quote(text="Shall I?", ours=True, message_id=ID)


def test_an_edit_by_the_author_is_in_the_thread_of_the_message():
    new = {"msgtype": "m.text", "body": "hello"}
    relation = {"rel_type": "m.replace", "event_id": ID}
    edit = {**message("* hello", relation, **{"m.new_content": new}), "event_id": "$2"}
    found = heard(edit, message("helo", THREAD))
    assert (found.kind, found.text, found.message_id) == (InboundKind.EDIT, "hello", ID)
    assert (found.address.thread_id, found.update_id) == (ROOT, "$2")
    assert parse({**edit, "sender": EVE}, message("helo")) is None


def test_a_reaction_to_a_message_of_the_bot_is_in_its_thread():
    relation = {"rel_type": "m.annotation", "event_id": ID, "key": "👍"}
    reaction = {**MESSAGE, "type": "m.reaction", "content": {"m.relates_to": relation}}
    found = heard(reaction, {**message("Well?", THREAD), "sender": BOT})
    assert (found.kind, found.text, found.message_id) == (InboundKind.REACTION, "👍", ID)
    assert found.address.thread_id == ROOT
    assert parse(reaction, message("Well?")) is None


def test_a_reaction_in_an_encrypted_room_may_be_the_servers():
    relation = {"rel_type": "m.annotation", "event_id": ID, "key": "👍"}
    reaction = event({**MESSAGE, "type": "m.reaction", "content": {"m.relates_to": relation}})
    question = event({**message("Well?"), "sender": BOT})
    for encrypted in (False, True):
        room = events.Room(ROOM, direct=True, encrypted=encrypted)
        found = events.parse(reaction, room, BOT, ("Segue",), question)
        assert found is not None
        assert found.forgeable == encrypted


def test_a_file_has_a_caption_only_if_it_has_a_name_too():
    [file] = heard(FILE).attachments
    assert (heard(FILE).text, file.name, file.media_type) == ("Look.", "a.png", "image/png")
    unnamed = {**FILE["content"], "body": "b.png", "filename": None}
    found = heard({**FILE, "content": unnamed})
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


def test_a_busy_server_names_a_time():
    answer = b'{"errcode":"M_LIMIT_EXCEEDED","error":"Too Many","retry_after_ms":1500}'
    assert _refused(429, answer).after == 1.5
    assert FAILURES.reason(_refused(413, b'{"errcode":"M_TOO_LARGE"}')).endswith("for the server")


# State, which decides who may read a room

GOOD = "m.megolm.v1.aes-sha2"


def state(kind: str, key: Any, content: Any, **more: Any) -> events.Room:
    """A direct message after this state event."""
    given = {"type": kind, "state_key": key, "sender": ANNA, "content": content, **more}
    room = events.Room(ROOM, direct=True, members={ANNA: "Anna", BOT: "Segue"})
    found = state_event(json.dumps(given).encode())
    assert found is not None
    room.apply(found)
    return room


def test_an_encryption_event_of_any_shape_means_that_the_room_is_encrypted():
    keys: list[Any] = ["", 5, [], "other"]
    mores: list[dict[str, Any]] = [{}, {"unsigned": 5}, {"sender": []}, {"event_id": {}}]
    contents: list[Any] = [{}, [], None, 5, {"algorithm": 5}, {"algorithm": GOOD, "body": 1}]
    shapes = list(itertools.product(keys, mores, contents))
    assert [
        (key, more, content)
        for key, more, content in shapes
        if not state("m.room.encryption", key, content, **more).encrypted
    ] == []


@pytest.mark.parametrize(
    ("content", "algorithm"),
    [({}, ""), ({"algorithm": 5}, ""), ({"algorithm": GOOD, "url": 1}, GOOD)],
)
def test_the_algorithm_of_a_room_is_read_whatever_is_beside_it(content: Any, algorithm: str):
    assert state("m.room.encryption", "", content).algorithm == algorithm


@pytest.mark.parametrize("content", [{}, None, {"membership": 5}, {"membership": "elsewhere"}])
def test_a_user_whose_membership_cannot_be_read_gets_no_keys_and_the_room_is_not_private(
    content: Any,
):
    room = state("m.room.member", EVE, content)
    assert EVE not in room.members
    assert events.inbound(InboundKind.JOINED, event(MESSAGE), room).readers
    room = state("m.room.member", EVE, {"membership": "leave", "displayname": 5})
    assert events.inbound(InboundKind.JOINED, event(MESSAGE), room).readers == ""


@pytest.mark.parametrize("kind", ["m.room.name", "m.room.topic", "m.room.tombstone"])
def test_a_state_event_with_another_key_is_not_the_rooms(kind: str):
    room = state(kind, "other", {"name": "x", "topic": "x", "replacement_room": "!x:x"})
    assert (room.name, room.topic, room.replacement) == ("", "", "")


def test_an_id_has_its_sigil_and_255_bytes_at_most():
    assert is_id("$1", EVENT)
    assert is_id(f"!{'x' * 254}", ROOM_SIGIL)
    assert is_id("!ünïcode:segue.test", ROOM_SIGIL)
    for bad in ("", "$", "1", "!1", f"${'x' * 255}", f"${'é' * 128}", "$a\nb", "$\ud800", "$\0"):
        assert not is_id(bad, EVENT)
