"""What updates of Telegram come to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from segue.core.address import Address, ChatType, Platform
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.telegram import polling
from segue.platforms.telegram.parser import parse
from segue.platforms.telegram.wire import Me

NOW = 1_800_000_000.0
ME = Me(id=7, username="Segue_Bot")
ANNA: dict[str, Any] = {
    "id": 1,
    "is_bot": False,
    "first_name": "Anna",
    "last_name": "Berg",
    "username": "anna",
}
US: dict[str, Any] = {"id": 7, "is_bot": True, "first_name": "Segue", "username": "segue_bot"}
DM = {"id": 1, "type": "private", "first_name": "Anna"}
GROUP = {"id": -5, "type": "group", "title": "Team"}
SUPERGROUP = {"id": -1005, "type": "supergroup", "title": "Team"}
FORUM = {"id": -1006, "type": "supergroup", "title": "Forum", "is_forum": True}
CHANNEL = {"id": -1007, "type": "channel", "title": "News"}


def heard(kind: str = "message", /, **fields: Any) -> Inbound | None:
    answer = {"ok": True, "result": [{"update_id": 40, kind: fields}]}
    [update] = polling.read(json.dumps(answer).encode(), None).updates
    return parse(update, ME, NOW)


def message(chat: dict[str, Any], text: str = "hello", **fields: Any) -> dict[str, Any]:
    """What a message of Anna's is on the wire."""
    return {"message_id": 3, "date": 1, "chat": chat, "from": ANNA, "text": text, **fields}


def said(chat: dict[str, Any], text: str = "hello", **fields: Any) -> Inbound:
    inbound = heard(**message(chat, text, **fields))
    assert inbound is not None
    return inbound


def at(chat_type: ChatType, chat: int, thread: str | None = None) -> Address:
    return Address(
        platform=Platform.TELEGRAM, chat_type=chat_type, chat_id=str(chat), thread_id=thread
    )


def marked(text: str, part: str, kind: str, **fields: Any) -> dict[str, Any]:
    """An entity for a part of a text, counted as Telegram does."""
    before = text[: text.index(part)]
    units = [len(piece.encode("utf-16-le")) // 2 for piece in (before, part)]
    return {"type": kind, "offset": units[0], "length": units[1], **fields}


# Where


def test_a_message_is_in_its_chat():
    assert said(DM).address == at(ChatType.DM, 1)
    assert said(GROUP).address == at(ChatType.GROUP, -5)
    assert said(SUPERGROUP).address == at(ChatType.GROUP, -1005)
    assert said(FORUM).address == at(ChatType.GROUP, -1006)


@pytest.mark.parametrize("chat", [DM, FORUM])
def test_a_message_in_a_topic_is_in_that_topic(chat: dict[str, Any]):
    inbound = said(chat, message_thread_id=12, is_topic_message=True)
    assert inbound.address.thread_id == "12"


@pytest.mark.parametrize("chat", [DM, SUPERGROUP, FORUM])
def test_answers_to_one_message_are_no_place_of_their_own(chat: dict[str, Any]):
    assert said(chat, message_thread_id=12).address.thread_id is None


def test_a_channel_is_not_heard():
    assert heard(**message(CHANNEL)) is None
    assert heard("channel_post", **message(CHANNEL)) is None


# Who


def test_a_message_says_who_wrote_it_and_who_reads_along():
    inbound = said(GROUP)
    assert (inbound.sender.user_id, inbound.sender.name) == ("1", "Anna Berg")
    assert (inbound.chat_name, inbound.readers) == ("Team", "the members of Team")
    assert (inbound.update_id, inbound.message_id) == ("40", "3")
    alone = said(DM)
    assert (alone.chat_name, alone.readers) == ("Anna", "")


def test_bots_and_those_who_speak_as_a_chat_are_not_heard():
    for bot in (US, {**ANNA, "is_bot": True}):
        assert heard(**(message(GROUP) | {"from": bot})) is None
    assert heard(**message(GROUP, sender_chat=GROUP)) is None
    nobody = message(GROUP)
    del nobody["from"]
    assert heard(**nobody) is None


# To whom


def test_in_a_direct_message_all_is_meant_for_us():
    assert said(DM).addressed


def test_in_a_group_what_people_say_to_each_other_is_not_meant_for_us():
    assert not said(GROUP).addressed
    other = said(GROUP, "@anna hello", entities=[marked("@anna hello", "@anna", "mention")])
    assert (other.addressed, other.text) == (False, "@anna hello")


@pytest.mark.parametrize("text", ["@segue_bot hello", "@SEGUE_BOT, hello", "@segue_bot:\nhello"])
def test_our_name_at_the_beginning_is_not_a_part_of_the_text(text: str):
    name = text[: len("@segue_bot")]
    inbound = said(GROUP, text, entities=[marked(text, name, "mention")])
    assert (inbound.addressed, inbound.text, inbound.kind) == (True, "hello", InboundKind.MESSAGE)


def test_our_name_within_a_text_stays_there():
    text = "👩‍🚀 ask @segue_bot then"
    inbound = said(GROUP, text, entities=[marked(text, "@segue_bot", "mention")])
    assert (inbound.addressed, inbound.text) == (True, text)


def test_a_name_without_an_at_sign_is_ours_by_its_id():
    text = "Segue hello"
    mention = marked(text, "Segue", "text_mention", user=US)
    assert said(GROUP, text, entities=[mention]).text == "hello"
    other = marked(text, "Segue", "text_mention", user=ANNA)
    assert not said(GROUP, text, entities=[other]).addressed


def test_our_name_alone_is_all_that_was_said():
    text = "@segue_bot"
    assert said(GROUP, text, entities=[marked(text, text, "mention")]).text == text


def test_an_answer_to_a_message_of_ours_is_meant_for_us():
    ours = {"message_id": 2, "date": 1, "chat": GROUP, "from": US}
    assert said(GROUP, reply_to_message=ours).addressed
    assert not said(GROUP, reply_to_message={**ours, "from": ANNA}).addressed


def test_what_is_said_in_a_topic_that_we_created_does_not_answer_us():
    created = {
        "message_id": 12, "date": 1, "chat": FORUM, "from": US,
        "forum_topic_created": {"name": "Moving in", "icon_color": 0},
    }  # fmt: skip
    topic: dict[str, Any] = {"message_thread_id": 12, "is_topic_message": True}
    inbound = said(FORUM, reply_to_message=created, **topic)
    assert (inbound.addressed, inbound.topic) == (False, "Moving in")
    bare = {name: created[name] for name in ("message_id", "date", "chat", "from")}
    assert not said(FORUM, reply_to_message=bare, **topic).addressed
    assert said(FORUM, reply_to_message={**bare, "message_id": 13}, **topic).addressed


# Commands


@pytest.mark.parametrize(
    ("text", "command"), [("/status now", "/status now"), ("/status@Segue_bot now", "/status now")]
)
def test_a_command_comes_without_our_name(text: str, command: str):
    entity = marked(text, text.split(maxsplit=1)[0], "bot_command")
    inbound = said(GROUP, text, entities=[entity])
    assert (inbound.kind, inbound.text) == (InboundKind.COMMAND, command)
    assert inbound.addressed


def test_a_command_for_another_bot_is_not_heard():
    text = "/status@other_bot"
    assert heard(**message(GROUP, text, entities=[marked(text, text, "bot_command")])) is None


def test_a_command_later_in_a_text_is_none():
    text = "try /status"
    inbound = said(GROUP, text, entities=[marked(text, "/status", "bot_command")])
    assert (inbound.kind, inbound.addressed) == (InboundKind.MESSAGE, False)


def test_the_code_of_a_link_comes_as_the_gate_expects_it():
    text = "/start ABCD-EFGH"
    inbound = said(DM, text, entities=[marked(text, "/start", "bot_command")])
    assert (inbound.kind, inbound.text) == (InboundKind.COMMAND, text)


# Files


@pytest.mark.parametrize(
    ("fields", "attachment"),
    [
        (
            {"photo": [
                {"file_id": "small", "width": 90, "height": 90, "file_size": 9},
                {"file_id": "large", "width": 900, "height": 900, "file_size": 99},
                {"file_id": "middle", "width": 300, "height": 300},
            ]},
            Attachment("large", "photo.jpg", "image/jpeg", 99),
        ),
        (
            {"document": {"file_id": "d", "file_name": "a.pdf", "mime_type": "application/pdf"}},
            Attachment("d", "a.pdf", "application/pdf", 0),
        ),
        (
            {"document": {"file_id": "d"}},
            Attachment("d", "document", "application/octet-stream", 0),
        ),
        ({"voice": {"file_id": "v", "file_size": 5}}, Attachment("v", "voice.ogg", "audio/ogg", 5)),
        (
            {"audio": {"file_id": "a", "mime_type": "audio/flac"}},
            Attachment("a", "audio.mp3", "audio/flac", 0),
        ),
        ({"video": {"file_id": "f"}}, Attachment("f", "video.mp4", "video/mp4", 0)),
        ({"video_note": {"file_id": "n"}}, Attachment("n", "video.mp4", "video/mp4", 0)),
        (
            {"animation": {"file_id": "g"}, "document": {"file_id": "g"}},
            Attachment("g", "animation.mp4", "video/mp4", 0),
        ),
        ({"sticker": {"file_id": "s"}}, Attachment("s", "sticker.webp", "image/webp", 0)),
        (
            {"sticker": {"file_id": "s", "is_animated": True}},
            Attachment("s", "sticker.tgs", "application/x-tgsticker", 0),
        ),
        (
            {"sticker": {"file_id": "s", "is_video": True}},
            Attachment("s", "sticker.webm", "video/webm", 0),
        ),
    ],
)  # fmt: skip
def test_a_file_comes_with_what_is_said_of_it(fields: dict[str, Any], attachment: Attachment):
    inbound = said(DM, "", caption="look", **fields)
    assert (inbound.attachments, inbound.text) == ((attachment,), "look")


def test_our_name_under_a_file_is_a_name():
    entity = marked("@segue_bot look", "@segue_bot", "mention")
    fields = {
        "caption": "@segue_bot look",
        "caption_entities": [entity],
        "photo": [{"file_id": "p"}],
    }
    inbound = said(GROUP, "", **fields)
    assert (inbound.addressed, inbound.text) == (True, "look")


# What else can be sent

HERE = {"latitude": 54.32, "longitude": 10.14}


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
        ({"dice": {"emoji": "🎯", "value": 6}}, "[🎯 shows 6]"),
    ],
)
def test_what_is_shared_comes_in_words(fields: dict[str, Any], text: str):
    assert said(DM, "", **fields).text == text
    assert not said(GROUP, "", **fields).addressed


def test_whoever_shares_where_they_are_is_heard_once_however_far_they_go():
    moving = message(DM, "", location={**HERE, "live_period": 900})
    assert heard(**moving) is not None
    assert heard("edited_message", **{**moving, "edit_date": int(NOW)}) is None


# The rest


@pytest.mark.parametrize(
    "service",
    [
        {"forum_topic_created": {"name": "x", "icon_color": 0}},
        {"forum_topic_closed": {}},
        {"new_chat_members": [ANNA]},
        {"left_chat_member": ANNA},
        {"new_chat_title": "x"},
        {"pinned_message": message(GROUP)},
        {"migrate_from_chat_id": -5},
    ],
)
def test_what_telegram_itself_writes_is_not_heard(service: dict[str, Any]):
    assert heard(**message(GROUP, "", **service)) is None


@pytest.mark.parametrize("sender", [ANNA, US, None], ids=["a person", "a bot", "nobody"])
def test_a_group_that_becomes_a_supergroup_has_moved_whoever_did_that(
    sender: dict[str, Any] | None,
):
    fields = {**message(GROUP, ""), "from": sender, "migrate_to_chat_id": -1009}
    inbound = heard(**fields)
    assert inbound is not None
    assert inbound.kind is InboundKind.MOVED
    assert (inbound.address, inbound.moved_to) == (
        at(ChatType.GROUP, -5),
        said({**SUPERGROUP, "id": -1009}).address,
    )


def test_an_edit_says_what_the_message_says_now():
    inbound = heard("edited_message", **message(DM, "better", edit_date=int(NOW) - 60))
    assert inbound is not None
    assert (inbound.kind, inbound.text) == (InboundKind.EDIT, "better")


@pytest.mark.parametrize(
    "fields",
    [{}, {"edit_date": int(NOW) - 90_000}, {"edit_date": int(NOW), "media_group_id": "7"}],
)
def test_a_reaction_is_no_edit(fields: dict[str, Any]):
    photo = [{"file_id": "1"}]
    assert heard("edited_message", **message(DM, "", photo=photo, **fields)) is None


def pressed(**fields: Any) -> Inbound | None:
    ours = {**message(FORUM), "from": US, "message_thread_id": 12, "is_topic_message": True}
    query = {"id": "q", "from": ANNA, "chat_instance": "1", "message": ours, "data": "a:1"}
    return heard("callback_query", **{**query, **fields})


def test_a_pressed_button_says_which():
    inbound = pressed()
    assert inbound is not None
    assert (inbound.kind, inbound.text, inbound.message_id) == (InboundKind.BUTTON, "a:1", "3")
    assert inbound.address == at(ChatType.GROUP, -1006, "12")
    assert inbound.sender.user_id == "1"


def test_a_button_of_a_message_that_cannot_be_placed_stands_for_nothing():
    inbound = pressed(message={"message_id": 3, "date": 0, "chat": FORUM})
    assert inbound is not None
    assert inbound.text == ""
    assert pressed(message=None) is None
    assert pressed(data=None) is None
    assert pressed(**{"from": US}) is None


def member(before: dict[str, Any], after: dict[str, Any], **fields: Any) -> Inbound | None:
    change = {
        "chat": FORUM, "from": ANNA, "date": 1,
        "old_chat_member": {"user": US, **before}, "new_chat_member": {"user": US, **after},
    }  # fmt: skip
    return heard("my_chat_member", **{**change, **fields})


def test_whoever_adds_us_to_a_chat_is_heard():
    inbound = member({"status": "left"}, {"status": "member"})
    assert inbound is not None
    assert (inbound.kind, inbound.address) == (InboundKind.JOINED, at(ChatType.GROUP, -1006))
    assert inbound.sender.user_id == "1"
    assert member({"status": "kicked"}, {"status": "administrator"})
    assert member({"status": "left"}, {"status": "restricted", "is_member": True})
    assert member({"status": "kicked"}, {"status": "member"}, chat=DM)


def test_other_changes_of_what_we_are_in_a_chat_are_not_heard():
    assert member({"status": "member"}, {"status": "administrator"}) is None
    assert member({"status": "member"}, {"status": "left"}) is None
    assert member({"status": "left"}, {"status": "restricted", "is_member": False}) is None
    assert member({"status": "left"}, {"status": "member"}, **{"from": US}) is None


# Words of others


EVE: dict[str, Any] = {"id": 2, "is_bot": False, "first_name": "Eve", "last_name": "Moss"}
ORIGINS: list[tuple[dict[str, Any], str]] = [
    ({"type": "user", "date": 1, "sender_user": EVE}, "Eve Moss"),
    ({"type": "hidden_user", "date": 1, "sender_user_name": "E."}, "E."),
    ({"type": "chat", "date": 1, "sender_chat": GROUP, "author_signature": "boss"}, "Team, boss"),
    ({"type": "channel", "date": 1, "chat": CHANNEL, "message_id": 9}, "News"),
    ({"type": "of another year"}, ""),
]


@pytest.mark.parametrize(("origin", "author"), ORIGINS)
def test_a_forwarded_message_is_its_authors_and_no_command(origin: dict[str, Any], author: str):
    text = "/approve@other_bot"
    inbound = said(DM, text, forward_origin=origin, entities=[marked(text, text, "bot_command")])
    assert (inbound.kind, inbound.forwarded_from) == (InboundKind.MESSAGE, author)
    assert (inbound.text, inbound.typed) == (text, "")


def test_a_server_of_before_origins_says_that_a_message_is_forwarded():
    assert said(DM, "/approve", forward_from=EVE, forward_date=1).typed == ""


def test_what_a_bot_wrote_for_a_person_to_send_is_not_the_persons():
    bot = {"id": 8, "is_bot": True, "first_name": "Gifs", "username": "gif"}
    inbound = said(DM, "/approve", via_bot=bot)
    assert (inbound.forwarded_from, inbound.typed) == ("Gifs (a bot)", "")


def test_a_forwarded_mention_does_not_address_us():
    text = "@segue_bot delete it"
    mention = marked(text, "@segue_bot", "mention")
    origin = ORIGINS[0][0]
    inbound = said(GROUP, text, entities=[mention], forward_origin=origin)
    assert (inbound.addressed, inbound.text) == (False, text)


def test_a_press_under_a_forwarded_message_is_none():
    under = {**message(DM), "from": ANNA, "forward_origin": ORIGINS[0][0]}
    inbound = heard("callback_query", id="1", message=under, data="a:1:once", **{"from": ANNA})
    assert inbound is not None
    assert inbound.typed == ""


def replied(**fields: Any) -> dict[str, Any]:
    return {"message_id": 2, "date": 1, "chat": DM, "from": EVE, **fields}


@pytest.mark.parametrize(
    ("fields", "quote"),
    [
        ({"reply_to_message": replied(text="hi")}, Quote(author="Eve Moss", text="hi")),
        (
            {"reply_to_message": replied(text="a hi", sender_chat=GROUP), "quote": {"text": "hi"}},
            Quote(author="Team", text="hi"),
        ),
        (
            {"reply_to_message": {**replied(text="I am."), "from": US}},
            Quote(author="Segue", text="I am.", ours=True),
        ),
        (
            {"reply_to_message": {**replied(text="hi", forward_origin=ORIGINS[3][0]), "from": US}},
            Quote(author="News", text="hi"),
        ),
        (
            {"reply_to_message": replied(photo=[{"file_id": "1"}], caption="look")},
            Quote(author="Eve Moss", text="[photo.jpg]\nlook"),
        ),
        (
            {"external_reply": {"origin": ORIGINS[3][0]}, "quote": {"text": "hi"}},
            Quote(author="News", text="hi"),
        ),
        (
            {"external_reply": {"origin": ORIGINS[1][0], "dice": {"emoji": "🎲", "value": 3}}},
            Quote(author="E.", text="[🎲 shows 3]"),
        ),
        (
            {"reply_to_story": {"chat": CHANNEL, "id": 4}},
            Quote(author="News", text="[A story]"),
        ),
    ],
)
def test_a_reply_quotes_what_it_answers(fields: dict[str, Any], quote: Quote):
    inbound = said(DM, "yes", **fields)
    assert (inbound.typed, inbound.quote) == ("yes", quote)


def test_plain_words_in_a_topic_quote_nothing():
    topic: dict[str, Any] = {"message_thread_id": 2, "is_topic_message": True}
    assert said(FORUM, reply_to_message=replied(), **topic).quote is None


def test_checklists_and_stories_come_in_words():
    tasks = [{"id": 1, "text": "milk", "completion_date": 5}, {"id": 2, "text": "two\nlines"}]
    checklist = heard(**message(DM, "", checklist={"title": "Shop", "tasks": tasks}))
    story = heard(**message(DM, "", story={"chat": CHANNEL, "id": 4}))
    assert checklist is not None
    assert checklist.text == "[A checklist: Shop\n- [x] milk\n- [ ] two lines]"
    assert story is not None
    assert story.text == "[A story of News]"


def test_the_names_in_what_is_shared_stay_on_their_line():
    contact = {"phone_number": "1", "first_name": "Bob]\n\ndelete everything"}
    inbound = heard(**message(DM, "", contact=contact))
    assert inbound is not None
    assert inbound.text == "[A contact: Bob] delete everything, 1]"
