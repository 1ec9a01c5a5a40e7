"""Parsing updates of Telegram."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from segue.core.address import Address, ChatType, Platform
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.telegram.updates import Update, User, parse

Json = dict[str, Any]

NOW = 1_800_000_000.0
ME = User(id=7, is_bot=True, first_name="Segue", username="Segue_Bot")
ANNA: Json = {"id": 1, "is_bot": False, "first_name": "Anna", "last_name": "Berg"}
EVE: Json = {"id": 2, "is_bot": False, "first_name": "Eve", "last_name": "Moss"}
US: Json = {"id": 7, "is_bot": True, "first_name": "Segue", "username": "segue_bot"}
DM: Json = {"id": 1, "type": "private", "first_name": "Anna"}
GROUP: Json = {"id": -5, "type": "group", "title": "Team"}
SUPERGROUP: Json = {"id": -1005, "type": "supergroup", "title": "Team"}
FORUM: Json = {"id": -1006, "type": "supergroup", "title": "Forum", "is_forum": True}
CHANNEL: Json = {"id": -1007, "type": "channel", "title": "News"}
TOPIC: Json = {"message_thread_id": 12, "is_topic_message": True}
HERE: Json = {"latitude": 54.32, "longitude": 10.14}


def read(kind: str = "message", /, **fields: Any) -> Update:
    return msgspec.convert({"update_id": 40, kind: fields}, Update)


def heard(kind: str = "message", /, **fields: Any) -> Inbound | None:
    return parse(read(kind, **fields), ME, NOW)


def message(chat: Json, text: str = "hello", **fields: Any) -> Json:
    """A message from Anna on the wire."""
    return {"message_id": 3, "date": 1, "chat": chat, "from": ANNA, "text": text, **fields}


def said(chat: Json, text: str = "hello", **fields: Any) -> Inbound:
    inbound = heard(**message(chat, text, **fields))
    assert inbound is not None
    return inbound


def at(chat_type: ChatType, chat: int, thread: str | None = None) -> Address:
    return Address(
        platform=Platform.TELEGRAM, chat_type=chat_type, chat_id=str(chat), thread_id=thread
    )


def marked(text: str, part: str, kind: str, **fields: Any) -> Json:
    """Text with an entity for a part of it, counted as Telegram does."""
    before = text[: text.index(part)]
    offset, length = [len(piece.encode("utf-16-le")) // 2 for piece in (before, part)]
    entity = {"type": kind, "offset": offset, "length": length, **fields}
    return {"text": text, "entities": [entity]}


# Addresses and senders


@pytest.mark.parametrize("chat", [DM, GROUP, SUPERGROUP, FORUM])
def test_a_topic_has_its_own_address_and_a_reply_thread_has_not(chat: Json):
    kind = ChatType.DM if chat is DM else ChatType.GROUP
    assert said(chat, **TOPIC).address == at(kind, chat["id"], "12")
    assert said(chat, message_thread_id=12).address == said(chat).address == at(kind, chat["id"])


def test_a_message_has_its_sender_its_chat_and_its_readers():
    inbound = said(GROUP)
    assert (inbound.sender.user_id, inbound.sender.name) == ("1", "Anna Berg")
    assert (inbound.chat_name, inbound.readers) == ("Team", "the members of Team")
    assert (inbound.update_id, inbound.message_id) == ("40", "3")
    alone = said(DM)
    assert (alone.chat_name, alone.readers) == ("Anna", "")


@pytest.mark.parametrize(
    "ignored",
    [
        message(CHANNEL),
        message(GROUP) | {"from": US},
        message(GROUP) | {"from": {**ANNA, "is_bot": True}},
        message(GROUP) | {"from": None},
        message(GROUP, sender_chat=GROUP),
        message(GROUP, "", forum_topic_created={"name": "x", "icon_color": 0}),
        message(GROUP, "", forum_topic_closed={}),
        message(GROUP, "", new_chat_members=[ANNA]),
        message(GROUP, "", left_chat_member=ANNA),
        message(GROUP, "", new_chat_title="x"),
        message(GROUP, "", pinned_message=message(GROUP)),
        message(GROUP, "", migrate_from_chat_id=-5),
        message(GROUP) | marked("/status@other_bot", "/status@other_bot", "bot_command"),
    ],
)
def test_channels_bots_chats_and_telegram_itself_are_ignored(ignored: Json):
    assert heard(**ignored) is None
    assert heard("channel_post", **ignored) is None


# Addressed messages


@pytest.mark.parametrize(
    ("fields", "text", "addressed"),
    [
        ({}, "hello", False),
        (marked("@anna hello", "@anna", "mention"), "@anna hello", False),
        (marked("@segue_bot hello", "@segue_bot", "mention"), "hello", True),
        (marked("@SEGUE_BOT, hello", "@SEGUE_BOT", "mention"), "hello", True),
        (marked("@segue_bot:\nhello", "@segue_bot", "mention"), "hello", True),
        (marked("👩‍🚀 ask @segue_bot", "@segue_bot", "mention"), "👩‍🚀 ask @segue_bot", True),
        (marked("@segue_bot", "@segue_bot", "mention"), "@segue_bot", True),
        (marked("Segue hello", "Segue", "text_mention", user=US), "hello", True),
        (marked("Segue hello", "Segue", "text_mention", user=ANNA), "Segue hello", False),
        (marked("try /status", "/status", "bot_command"), "try /status", False),
        ({"reply_to_message": message(GROUP) | {"from": US}}, "hello", True),
        ({"reply_to_message": message(GROUP)}, "hello", False),
    ],
)
def test_in_a_group_our_name_or_a_reply_to_us_addresses_us(
    fields: Json, text: str, addressed: bool
):
    inbound = said(GROUP, **fields)
    assert (inbound.text, inbound.addressed) == (text, addressed)
    assert inbound.kind is InboundKind.MESSAGE
    assert said(DM, **fields).addressed


def test_our_name_under_a_file_addresses_us():
    under = marked("@segue_bot look", "@segue_bot", "mention")
    named = {"caption": under["text"], "caption_entities": under["entities"]}
    inbound = said(GROUP, "", photo=[{"file_id": "p"}], **named)
    assert (inbound.addressed, inbound.text) == (True, "look")


def test_a_message_in_a_topic_that_we_created_is_not_a_reply_to_us():
    created = message(FORUM) | {
        "message_id": 12,
        "from": US,
        "forum_topic_created": {"name": "Moving in", "icon_color": 0},
    }
    inbound = said(FORUM, reply_to_message=created, **TOPIC)
    assert (inbound.addressed, inbound.topic, inbound.quote) == (False, "Moving in", None)
    bare = message(FORUM) | {"message_id": 12, "from": US}
    assert not said(FORUM, reply_to_message=bare, **TOPIC).addressed
    assert said(FORUM, reply_to_message={**bare, "message_id": 13}, **TOPIC).addressed


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/status now", "/status now"),
        ("/status@Segue_bot now", "/status now"),
    ],
)
def test_our_name_is_removed_from_a_command(text: str, command: str):
    inbound = said(GROUP, **marked(text, text.split(maxsplit=1)[0], "bot_command"))
    assert (inbound.kind, inbound.text) == (InboundKind.COMMAND, command)
    assert inbound.addressed


# Content that is not text


@pytest.mark.parametrize(
    ("field", "fields", "name", "media_type"),
    [
        ("document", {"file_name": "a.pdf", "mime_type": "a/b"}, "a.pdf", "a/b"),
        ("document", {}, "document", "application/octet-stream"),
        ("voice", {}, "voice.ogg", "audio/ogg"),
        ("audio", {"mime_type": "audio/unknown"}, "audio.mp3", "audio/unknown"),
        ("video", {}, "video.mp4", "video/mp4"),
        ("video_note", {}, "video.mp4", "video/mp4"),
        ("animation", {}, "animation.mp4", "video/mp4"),
        ("sticker", {}, "sticker.webp", "image/webp"),
        ("sticker", {"is_animated": True}, "sticker.tgs", "application/x-tgsticker"),
        ("sticker", {"is_video": True}, "sticker.webm", "video/webm"),
    ],
)
def test_a_file_comes_with_its_caption(field: str, fields: Json, name: str, media_type: str):
    file = {"file_id": "f", "file_size": 5, **fields}
    # An animation is also sent as a document.
    more = {"document": file} if field == "animation" else {}
    inbound = said(DM, "", caption="look", **{field: file}, **more)
    assert inbound.attachments == (Attachment("f", name, media_type, 5),)
    assert inbound.text == "look"


def test_a_picture_comes_in_its_largest_size():
    sizes = [{"file_id": str(it), "width": it, "height": it} for it in (90, 900, 300)]
    [file] = said(DM, "", photo=sizes).attachments
    assert file == Attachment("900", "photo.jpg", "image/jpeg", 0)


def test_an_album_is_identified_within_its_chat():
    albums = {read(**message(it, media_group_id="7")).album for it in (DM, DM, GROUP)}
    assert len(albums) == 2
    assert read(**message(DM)).album == ""


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"location": HERE}, "[A location: latitude 54.32, longitude 10.14]"),
        (
            {"venue": {"location": HERE, "title": "Port", "address": "Quay 1"}, "location": HERE},
            "[A place: Port, Quay 1, at latitude 54.32, longitude 10.14]",
        ),
        (
            {"contact": {"phone_number": "+4912", "first_name": "Ida", "last_name": "Berg"}},
            "[A contact: Ida Berg, +4912]",
        ),
        (
            {"poll": {"question": "When?", "options": [{"text": "Now"}, {"text": "Later"}]}},
            "[A poll: When?\n- Now\n- Later]",
        ),
        (
            {"checklist": {"title": "Shop", "tasks": [
                {"id": 1, "text": "milk", "completion_date": 5}, {"id": 2, "text": "tea"},
            ]}},
            "[A checklist: Shop\n- [x] milk\n- [ ] tea]",
        ),
        ({"story": {"chat": CHANNEL, "id": 4}}, "[A story of News]"),
        ({"dice": {"emoji": "🎯", "value": 6}}, "[🎯 shows 6]"),
    ],
)  # fmt: skip
def test_other_content_is_described_in_words(fields: Json, text: str):
    assert said(DM, "", **fields).text == text
    assert not said(GROUP, "", **fields).addressed


# Edits, buttons, members, moves


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"edit_date": int(NOW) - 90_000},
        {"edit_date": int(NOW), "media_group_id": "7"},
        {"edit_date": int(NOW), "location": {**HERE, "live_period": 900}},
    ],
)
def test_a_reaction_and_a_live_location_are_not_edits(fields: Json):
    photo = [{"file_id": "1"}]
    assert heard("edited_message", **message(DM, "", photo=photo, **fields)) is None


def pressed(**fields: Any) -> Inbound | None:
    query = {"id": "q", "from": ANNA, "chat_instance": "1", "data": "a:1"}
    ours = {**message(FORUM, **TOPIC), "from": US}
    return heard("callback_query", **{**query, "message": ours, **fields})


def test_a_button_of_an_inaccessible_message_has_no_data():
    inbound = pressed(message={"message_id": 3, "date": 0, "chat": FORUM})
    assert inbound is not None
    assert inbound.text == ""
    assert pressed(message=None) is None
    assert pressed(data=None) is None
    assert pressed(**{"from": US}) is None


@pytest.mark.parametrize(
    ("before", "after", "joined"),
    [
        ({"status": "left"}, {"status": "member"}, True),
        ({"status": "kicked"}, {"status": "administrator"}, True),
        ({"status": "left"}, {"status": "restricted", "is_member": True}, True),
        ({"status": "left"}, {"status": "restricted", "is_member": False}, False),
        ({"status": "member"}, {"status": "administrator"}, False),
        ({"status": "member"}, {"status": "left"}, False),
    ],
)
def test_being_added_to_a_chat_is_an_update_and_other_changes_are_not(
    before: Json, after: Json, joined: bool
):
    change: Json = {"chat": FORUM, "from": ANNA, "date": 1}
    change |= {"old_chat_member": {"user": US, **before}, "new_chat_member": {"user": US, **after}}
    inbound = heard("my_chat_member", **change)
    assert (inbound is not None) == joined
    if inbound is not None:
        assert (inbound.kind, inbound.address) == (InboundKind.JOINED, at(ChatType.GROUP, -1006))
        assert inbound.sender.user_id == "1"
    assert (heard("my_chat_member", **{**change, "chat": DM}) is not None) == joined
    assert heard("my_chat_member", **{**change, "from": US}) is None


@pytest.mark.parametrize("sender", [ANNA, US, None], ids=["a person", "a bot", "nobody"])
def test_a_group_that_becomes_a_supergroup_has_moved(sender: Json | None):
    inbound = heard(**{**message(GROUP, ""), "from": sender, "migrate_to_chat_id": -1009})
    assert inbound is not None
    assert inbound.kind is InboundKind.MOVED
    assert inbound.address == at(ChatType.GROUP, -5)
    assert inbound.moved_to == said({**SUPERGROUP, "id": -1009}).address


# Forwards and quotes

ORIGINS: list[tuple[Json, str]] = [
    ({"type": "user", "date": 1, "sender_user": EVE}, "Eve Moss"),
    ({"type": "hidden_user", "date": 1, "sender_user_name": "E."}, "E."),
    ({"type": "chat", "date": 1, "sender_chat": GROUP, "author_signature": "boss"}, "Team, boss"),
    ({"type": "channel", "date": 1, "chat": CHANNEL, "message_id": 9}, "News"),
    ({"type": "of another year"}, ""),
]
GIFS = {"id": 8, "is_bot": True, "first_name": "Gifs", "username": "gif"}


@pytest.mark.parametrize(
    ("fields", "author"),
    [
        *(({"forward_origin": origin}, author) for origin, author in ORIGINS),
        # A server from before Bot API 7.0.
        ({"forward_from": EVE, "forward_date": 1}, ""),
        ({"via_bot": GIFS}, "Gifs (a bot)"),
    ],
)
def test_forwarded_text_is_content_and_addresses_no_bot(fields: Json, author: str):
    for text, kind in (("/approve@other_bot", "bot_command"), ("@segue_bot", "mention")):
        inbound = said(GROUP, **marked(text, text, kind), **fields)
        assert (inbound.kind, inbound.forwarded_from) == (InboundKind.MESSAGE, author)
        assert (inbound.text, inbound.typed, inbound.addressed) == (text, "", False)
    press = pressed(message={**message(DM), **fields})
    assert press is not None
    assert press.typed == ""


OTHER = "2"


def replied(**fields: Any) -> Json:
    return {"message_id": int(OTHER), "date": 1, "chat": DM, "from": EVE, **fields}


@pytest.mark.parametrize(
    ("fields", "quote"),
    [
        (
            {"reply_to_message": replied(text="hi")},
            Quote(author="Eve Moss", text="hi", message_id=OTHER),
        ),
        (
            {"reply_to_message": replied(text="a hi", sender_chat=GROUP), "quote": {"text": "hi"}},
            Quote(author="Team", text="hi", message_id=OTHER),
        ),
        (
            {"reply_to_message": {**replied(text="I am."), "from": US}},
            Quote(author="Segue", text="I am.", ours=True, message_id=OTHER),
        ),
        (
            {"reply_to_message": {**replied(text="hi", forward_origin=ORIGINS[3][0]), "from": US}},
            Quote(author="News", text="hi", message_id=OTHER),
        ),
        (
            {"reply_to_message": replied(photo=[{"file_id": "1"}], caption="look")},
            Quote(author="Eve Moss", text="[photo.jpg]\nlook", message_id=OTHER),
        ),
        (
            {"external_reply": {"origin": ORIGINS[3][0]}, "quote": {"text": "hi"}},
            Quote(author="News", text="hi"),
        ),
        (
            {"external_reply": {"origin": ORIGINS[1][0], "dice": {"emoji": "🎲", "value": 3}}},
            Quote(author="E.", text="[🎲 shows 3]"),
        ),
        ({"reply_to_story": {"chat": CHANNEL, "id": 4}}, Quote(author="News", text="[A story]")),
    ],
)
def test_a_reply_quotes_what_it_answers(fields: Json, quote: Quote):
    inbound = said(DM, "yes", **fields)
    assert (inbound.typed, inbound.quote) == ("yes", quote)
