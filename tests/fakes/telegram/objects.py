"""JSON objects of core.telegram.org/bots/api#available-types."""

from __future__ import annotations

import msgspec

from segue.testing.peers import Button, File, FileKind, Status, User
from tests.fakes.telegram.state import Chat, Kind, Message, State

Json = dict[str, object]

_ME = {
    "can_join_groups": True, "supports_inline_queries": False, "can_connect_to_business": False,
    "has_main_web_app": False, "allows_users_to_create_topics": True,
}  # fmt: skip
_RIGHTS = (
    "can_manage_chat", "can_change_info", "can_delete_messages", "can_invite_users",
    "can_restrict_members", "can_pin_messages", "can_manage_video_chats", "can_post_stories",
    "can_edit_stories", "can_delete_stories",
)  # fmt: skip
_NO_RIGHTS = ("can_promote_members", "can_be_edited", "is_anonymous")
_GIFTS = (
    "unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription",
    "gifts_from_channels",
)  # fmt: skip


def _filled(**fields: object) -> Json:
    """The fields that are not empty: Telegram omits the others."""
    return {name: value for name, value in fields.items() if value}


def user(it: User[int]) -> Json:
    """#user"""
    more = _filled(username=it.username, language_code="" if it.bot else "en")
    return {"id": it.id, "is_bot": it.bot, "first_name": it.name, **more}


def me(state: State) -> Json:
    """#getme: the user, with the fields that only this method returns."""
    reads = state.settings.reads_all
    topics = state.settings.topics
    more = {"can_read_all_group_messages": reads, "has_topics_enabled": topics}
    return {**user(state.users[state.bot]), **_ME, **more}


def chat(state: State, it: Chat) -> Json:
    """#chat"""
    if it.private:
        person = state.users[it.id]
        names = _filled(first_name=person.name, username=person.username)
        return {"id": it.id, "type": it.type, **names}
    more = _filled(is_forum=it.kind is Kind.FORUM, username=it.username)
    return {"id": it.id, "title": it.title, "type": it.type, **more}


def full_chat(state: State, it: Chat) -> Json:
    """#chatfullinfo"""
    gifts = dict.fromkeys(_GIFTS, False)
    more = {"accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": gifts}
    return {**chat(state, it), **more}


def member(state: State, it: Chat) -> Json:
    """The bot as #chatmember."""
    made: Json = {"user": user(state.users[state.bot]), "status": it.status.value}
    if it.status is Status.KICKED:
        made["until_date"] = 0
    if it.status is Status.ADMINISTRATOR:
        made |= {**dict.fromkeys(_RIGHTS, True), **dict.fromkeys(_NO_RIGHTS, False)}
        if it.supergroup:
            made["can_manage_topics"] = it.manage_topics
    return made


def message(state: State, it: Message, *, nested: bool = False) -> Json:
    """#message"""
    replied = None if nested else _replied(state, it)
    text, entities = ("caption", "caption_entities") if it.file else ("text", "entities")
    more = {text: it.text, entities: msgspec.to_builtins(it.entities)}
    return {
        "message_id": it.id,
        "chat": chat(state, state.chats[it.chat]),
        "date": it.date,
        "from": user(state.user(it.author)),
        **_filled(
            message_thread_id=it.thread,
            is_topic_message=it.topic,
            edit_date=it.edited,
            reply_to_message=replied and message(state, replied, nested=True),
            link_preview_options=None if it.preview else {"is_disabled": True},
            reply_markup=it.buttons and {"inline_keyboard": _keyboard(it.buttons)},
            **more,
        ),
        **(_sent(it.file) if it.file else {}),
        **it.more,
    }


def forward(author: User[int], date: int) -> Json:
    """The fields of a forwarded message: #messageorigin.

    `forward_date`, from before Bot API 7.0, is still sent: `JsonMessage` of tdlib/telegram-bot-api.
    """
    origin = {"type": "user", "date": date, "sender_user": user(author)}
    return {"forward_origin": origin, "forward_date": date}


def _replied(state: State, it: Message) -> Message | None:
    """The message that this one replies to. A message in a topic that is no reply counts as one to
    the message that opened the topic (`get_same_chat_reply_to_message_id` of
    tdlib/telegram-bot-api)."""
    opened = it.thread if it.topic and it.thread != it.id else None
    return state.messages.get((it.chat, it.reply_to or opened or 0))


def file(it: File) -> Json:
    """#file"""
    return {"file_id": it.id, "file_unique_id": f"u{it.id[-5:]}", "file_size": it.size}


def _sent(it: File) -> Json:
    """#document or #photosize"""
    if it.kind is FileKind.DOCUMENT:
        return {"document": {**file(it), "file_name": it.name, "mime_type": it.media_type}}
    small = {"file_id": f"{it.id}s", "file_unique_id": f"s{it.id[-5:]}", "file_size": 900}
    sizes = {**small, "width": 90, "height": 67}, {**file(it), "width": 800, "height": 600}
    return {"photo": list(sizes)}


def _keyboard(buttons: tuple[Button, ...]) -> list[list[Json]]:
    """#inlinekeyboardmarkup"""
    rows: dict[int, list[Json]] = {}
    for it in buttons:
        rows.setdefault(it.row, []).append({"text": it.label, "callback_data": it.data})
    return list(rows.values())
