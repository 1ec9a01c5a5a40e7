"""The parts of Slack's envelopes, events and answers that we use: https://docs.slack.dev.

What can be missing can be null too.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct


class Envelope(Struct, frozen=True):
    """https://docs.slack.dev/apis/events-api/using-socket-mode"""

    type: str
    envelope_id: str = ""
    payload: Raw = Raw(b"{}")
    reason: str = ""  # of a disconnect


class EventCallback(Struct, frozen=True):
    event_id: str
    event: Raw
    team_id: str | None = None
    enterprise_id: str | None = None
    is_ext_shared_channel: bool | None = None


class SlackFile(Struct, frozen=True):
    id: str
    name: str | None = None
    mimetype: str | None = None
    size: int | None = None
    mode: str | None = None
    url_private_download: str | None = None


class Said(Struct, frozen=True, kw_only=True):
    """A message, or another one that it shares."""

    ts: str | None = None
    user: str | None = None
    text: str | None = None
    subtype: str | None = None
    bot_id: str | None = None
    thread_ts: str | None = None
    parent_user_id: str | None = None
    files: tuple[SlackFile, ...] = ()
    attachments: tuple[Said, ...] = ()
    is_share: bool | None = None
    author_name: str | None = None
    team: str | None = None
    user_team: str | None = None
    source_team: str | None = None

    @property
    def author_team(self) -> str | None:
        """The workspace or the organisation of the author, if Slack names it. In a channel that is
        shared with others, `team` can be a workspace that sees the message."""
        return self.user_team or self.source_team or self.team

    @property
    def is_tombstone(self) -> bool:
        """Whether it stands for a deleted message, below which the thread goes on."""
        return self.subtype == "tombstone"


class Event(Said, frozen=True, kw_only=True):
    """A message, its edit, or the bot's arrival in a channel."""

    type: str
    channel: str
    event_ts: str = ""
    message: Said | None = None
    previous_message: Said | None = None
    deleted_ts: str | None = None
    inviter: str | None = None


class SlashCommand(Struct, frozen=True):
    command: str
    text: str
    channel_id: str
    user_id: str
    team_id: str
    enterprise_id: str | None = None


class SlackItem(Struct, frozen=True):
    """A part of a payload or an answer. Its kind decides which fields are set."""

    id: str = ""
    team_id: str | None = None
    value: str | None = None
    channel_id: str = ""
    message_ts: str = ""
    thread_ts: str | None = None
    display_name: str = ""
    real_name: str = ""
    next_cursor: str = ""
    block_id: str = ""
    event_payload: dict[str, Any] = {}


class BlockActions(Struct, frozen=True, tag_field="type", tag="block_actions"):
    user: SlackItem
    container: SlackItem
    actions: tuple[SlackItem, ...]


# Answers


class CallStatus(Struct, frozen=True):
    ok: bool
    error: str = ""
    needed: str = ""  # a scope


class Me(Struct, frozen=True):
    user_id: str
    user: str = ""
    team: str = ""
    team_id: str = ""
    enterprise_id: str | None = None  # of an organisation with several workspaces


class Posted(Struct, frozen=True):
    ts: str
    message: Said = Said()


class NewFile(Struct, frozen=True):
    upload_url: str
    file_id: str


class SlackChannel(Struct, frozen=True):
    id: str = ""
    name: str = ""
    is_im: bool = False
    is_mpim: bool = False
    is_private: bool = False
    is_member: bool = False
    is_archived: bool = False
    is_ext_shared: bool = False  # with other organisations


class Person(Struct, frozen=True):
    name: str = ""
    profile: SlackItem = SlackItem()


class HistoryMessage(Said, frozen=True, kw_only=True):
    ts: str = ""
    streaming_state: str | None = None
    latest_reply: str | None = None
    """The newest message of the thread that this one began."""
    metadata: SlackItem = SlackItem()
    blocks: tuple[SlackItem, ...] = ()

    @property
    def number(self) -> int:
        """Its id without the point. 0 if it is malformed."""
        digits = self.ts.replace(".", "")
        return int(digits) if digits.isdecimal() else 0


class MemberPage(Struct, frozen=True):
    """A page of the members of a channel."""

    members: tuple[str, ...] = ()
    response_metadata: SlackItem = SlackItem()


class ChannelHistory(Struct, frozen=True):
    messages: tuple[Raw, ...]
    has_more: bool = False
    response_metadata: SlackItem | None = None
