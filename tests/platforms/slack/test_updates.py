"""Slack's envelopes as Inbounds."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from segue.core.address import Address, ChatType, Platform
from segue.platforms.base import Attachment, Inbound, InboundKind, Quote
from segue.platforms.slack.client import HistoryMessage, Me
from segue.platforms.slack.socket import Envelope
from segue.platforms.slack.updates import Scope, address, parse, written
from tests.rigs.slack.specimens import ANNA, BOT, CHANNEL, COMMAND, EDITED, FILE, MESSAGE, PRESS, TS

ROOT = "1790000000.000001"
TEAM = "T0100000001"
NEAR = "T0100000002"
FAR = "T0200000001"
"""The app's workspace, another one of the same organisation, and one of another organisation."""
ORGANISATION = "E0100000001"
FAR_ORGANISATION = "E0200000001"
ALONE = Me(user_id=BOT, team_id=TEAM)
IN_ORGANISATION = Me(user_id=BOT, team_id=TEAM, enterprise_id=ORGANISATION)
GLOBAL = "W0100000009"


def read(kind: str, payload: dict[str, Any], me: Me = ALONE) -> Inbound | None:
    envelope = Envelope(kind, "e1", msgspec.Raw(json.dumps(payload).encode()))
    return parse(envelope, 1_790_000_000.5, me)


def event(**event: Any) -> Inbound | None:
    return read("events_api", {"event_id": "Ev1", "event": event})


def is_heard(
    message: dict[str, Any], me: Me = ALONE, *, shared: bool = True, **callback: Any
) -> bool:
    """Whether that message is heard in a channel that is shared with other organisations."""
    envelope = {"event_id": "Ev1", "event": {**MESSAGE, **message}, **callback}
    return read("events_api", {**envelope, "is_ext_shared_channel": shared}, me) is not None


def said(text: str = "hello", **more: Any) -> Inbound:
    inbound = event(**{**MESSAGE, "text": text, **more})
    assert inbound is not None
    return inbound


def place(thread: str | None = None) -> Address:
    kind = ChatType.CHANNEL
    return Address(platform=Platform.SLACK, chat_type=kind, chat_id=CHANNEL, thread_id=thread)


def test_a_message_is_in_its_channel_or_in_its_thread():
    assert said().address == place()
    assert said(thread_ts=ROOT).address == place(ROOT)
    assert said(thread_ts=TS).address == place()  # the message that opens a thread
    assert said(thread_ts=None).address == place()
    assert address("D1").chat_type is ChatType.DM
    assert address("C1", ROOT) == address("C1", ROOT, TS)


@pytest.mark.parametrize(
    ("wire", "typed"),
    [
        (f"say hi to <@{BOT}>", f"say hi to <@{BOT}>"),
        (f"<@{BOT}>: hello", "hello"),
        (f"<@{BOT}>", f"<@{BOT}>"),
        (f"<@{BOT}|segue> /resume boats", "/resume boats"),
    ],
)
def test_the_name_of_the_bot_is_not_part_of_the_text(wire: str, typed: str):
    assert said(wire).text == typed


def test_a_message_in_a_channel_is_addressed_by_a_mention_or_in_a_thread_of_the_bot():
    assert not said().addressed
    assert said(f"well, <@{BOT}>").addressed
    assert said(thread_ts=ROOT, parent_user_id=BOT).addressed
    assert not said(thread_ts=ROOT, parent_user_id=ANNA).addressed
    assert said(channel="D1", channel_type="im").addressed


def test_a_mention_that_comes_as_two_events_is_heard_once():
    assert event(**{**MESSAGE, "type": "app_mention"}) is None


@pytest.mark.parametrize(
    "more",
    [
        {"bot_id": "B1"},
        {"user": BOT},
        {"subtype": "bot_message", "bot_id": "B1"},
        {"subtype": "channel_join"},
        {"subtype": "message_deleted", "deleted_ts": TS},
        {"subtype": "message_changed", "message": {**MESSAGE, "bot_id": "B1"}},
        {"subtype": "message_changed", "message": {**MESSAGE, "subtype": "tombstone"}},
        {"subtype": "message_deleted", "previous_message": {**MESSAGE, "subtype": "tombstone"}},
        {"text": ""},
        {"text": None},
        {"channel": ""},
        {"type": "reaction_added"},
    ],
)
def test_bots_deletions_and_what_slack_says_itself_are_ignored(more: dict[str, Any]):
    assert event(**{**MESSAGE, **more}) is None


def test_an_edit_is_that_of_the_message():
    edited = event(**EDITED)
    assert edited is not None
    assert (edited.kind, edited.message_id, edited.text) == (InboundKind.EDIT, TS, "status")
    assert edited.address == place()
    assert (said().update_id, edited.update_id) == (f"{TS} {CHANNEL}", " Ev1")


def test_files_come_with_their_names_unless_they_are_gone():
    gone = [{**FILE, "id": "F2", "mode": mode} for mode in ("tombstone", "external")]
    files = [FILE, *gone, {"id": "F3", "name": None}]
    found = said("", subtype="file_share", files=files).attachments
    assert found[0] == Attachment("F1", "a.txt", "text/plain", 3)
    assert [file.id for file in found] == ["F1", "F3"]


def test_a_shared_message_is_passed_on_or_quoted():
    shared = {"is_share": True, "author_name": "Eve", "text": "/approve &amp; go", "files": [FILE]}
    alone = said("", attachments=[{"text": "a preview"}, shared])
    assert (alone.text, alone.forwarded_from, alone.typed) == ("/approve & go", "Eve", "")
    assert [file.id for file in alone.attachments] == ["F1"]
    with_words = said("see this", attachments=[shared])
    assert (with_words.typed, with_words.forwarded_from) == ("see this", None)
    assert with_words.quote == Quote(author="Eve", text="/approve & go")
    assert said("hello", attachments=[{"text": "a preview"}]).quote is None


def test_a_press_is_where_its_message_is():
    pressed = read("interactive", PRESS)
    assert pressed is not None
    assert (pressed.kind, pressed.text) == (InboundKind.BUTTON, "a:1:once")
    assert (pressed.address, pressed.message_id) == (place(), TS)
    within = read("interactive", {**PRESS, "container": {**PRESS["container"], "thread_ts": ROOT}})
    assert within is not None
    assert within.address == place(ROOT)
    assert read("interactive", {**PRESS, "type": "view_submission"}) is None
    assert read("interactive", {**PRESS, "actions": []}) is None


@pytest.mark.parametrize(
    ("text", "command"),
    [("status", "/status"), (" /resume my project ", "/resume my project"), ("", "/help")],
)
def test_a_slash_command_names_a_command_of_ours(text: str, command: str):
    inbound = read("slash_commands", {**COMMAND, "text": text})
    assert inbound is not None
    assert (inbound.kind, inbound.text) == (InboundKind.COMMAND, command)
    assert inbound.update_id == "1789999940.500000 e1"
    assert read("slash_commands", {**COMMAND, "command": "/other"}) is None


def test_the_bot_joins_when_it_is_invited_and_not_when_others_are():
    joined = {"type": "member_joined_channel", "channel": CHANNEL, "inviter": ANNA}
    inbound = event(**joined, user=BOT)
    assert inbound is not None
    assert (inbound.kind, inbound.sender.user_id) == (InboundKind.JOINED, ANNA)
    assert event(**joined, user="U2") is None


def test_other_envelopes_are_ignored():
    assert read("hello", {}) is None


def test_a_user_counts_with_the_workspace_that_slack_names_first():
    assert is_heard({"team": TEAM})
    assert not is_heard({"team": FAR})
    assert not is_heard({"team": TEAM, "user_team": FAR, "source_team": FAR})
    assert not is_heard({"team": TEAM, "user_team": FAR_ORGANISATION})
    assert not is_heard({"team": TEAM, "source_team": FAR})
    assert is_heard({"team": FAR, "user_team": TEAM, "source_team": TEAM})
    assert not is_heard({"team": FAR}, shared=False)


def test_a_user_without_a_workspace_counts_only_where_no_other_organisation_is():
    assert is_heard({"team": None}, shared=False)
    assert not is_heard({"team": None})
    unnamed = HistoryMessage(ts=TS, user=ANNA, text="hello")
    assert written(CHANNEL, unnamed, Scope(ALONE)) is not None
    assert written(CHANNEL, unnamed, Scope(ALONE, is_shared=True)) is None


def test_users_of_the_same_organisation_count_in_all_of_its_workspaces():
    ours = IN_ORGANISATION
    assert is_heard({"team": NEAR, "user_team": ORGANISATION}, ours)
    assert is_heard({"team": NEAR}, ours, team_id=NEAR, enterprise_id=ORGANISATION)
    assert not is_heard({"team": FAR}, ours, team_id=FAR, enterprise_id=FAR_ORGANISATION)
    assert not is_heard({"team": FAR}, ours, team_id=NEAR, enterprise_id=ORGANISATION)
    assert not is_heard({"team": NEAR}, ours)
    assert is_heard({"team": NEAR, "user": GLOBAL}, ours)
    assert not is_heard({"user_team": FAR_ORGANISATION, "user": GLOBAL}, ours)
    named = {"team": FAR, "user": GLOBAL}
    assert not is_heard(named, ours, team_id=FAR, enterprise_id=FAR_ORGANISATION)
    assert not is_heard({"team": FAR, "user": GLOBAL})


def test_an_edit_and_a_deletion_count_with_the_workspace_of_the_message():
    theirs = {**MESSAGE, "user_team": FAR}
    for named in ({"message": theirs}, {"previous_message": theirs, "subtype": "message_deleted"}):
        assert event(**{**EDITED, **named}) is None


def test_a_press_and_a_command_count_with_the_workspace_of_the_user():
    for team in (FAR, NEAR, None):
        user = {**PRESS["user"], "team_id": team}
        assert read("interactive", {**PRESS, "user": user}, IN_ORGANISATION) is None
        assert read("slash_commands", {**COMMAND, "team_id": team}, IN_ORGANISATION) is None
    user = {"id": GLOBAL, "team_id": NEAR}
    assert read("interactive", {**PRESS, "user": user}, IN_ORGANISATION) is not None
    near = {**COMMAND, "team_id": NEAR, "enterprise_id": ORGANISATION}
    assert read("slash_commands", near, IN_ORGANISATION) is not None
    assert read("slash_commands", near) is None


def test_an_inviter_counts_only_where_no_other_organisation_is():
    joined = {"type": "member_joined_channel", "user": BOT, "inviter": ANNA, "team": TEAM}
    assert is_heard(joined, shared=False)
    assert not is_heard(joined)
