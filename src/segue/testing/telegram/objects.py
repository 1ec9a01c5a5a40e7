"""JSON objects of core.telegram.org/bots/api#available-types.

Empty fields are omitted, as Telegram does.
"""

from __future__ import annotations

import msgspec

from segue.testing.telegram.snapshot import (
    Button,
    Chat,
    File,
    FileKind,
    Kind,
    Message,
    Origin,
    OriginKind,
    Status,
    User,
)
from segue.testing.telegram.state import ANONYMOUS, State

Json = dict[str, object]

_RIGHTS = (
    "can_manage_chat", "can_change_info", "can_delete_messages", "can_invite_users",
    "can_restrict_members", "can_pin_messages", "can_manage_video_chats", "can_post_stories",
    "can_edit_stories", "can_delete_stories",
)  # fmt: skip

_GIFTS = (
    "unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription",
    "gifts_from_channels",
)  # fmt: skip


def user(it: User) -> Json:
    """#user"""
    told: Json = {"id": it.id, "is_bot": it.bot, "first_name": it.name}
    if it.username:
        told["username"] = it.username
    if not it.bot:
        told["language_code"] = "en"
    return told


def me(state: State) -> Json:
    """#getme: the user, with the fields that only this method returns."""
    settings = state.settings
    return {
        **user(state.me()),
        "can_join_groups": True,
        "can_read_all_group_messages": settings.reads_all,
        "supports_inline_queries": False,
        "can_connect_to_business": False,
        "has_main_web_app": False,
        "has_topics_enabled": settings.topics,
        "allows_users_to_create_topics": settings.users_open_topics,
    }


def chat(state: State, it: Chat) -> Json:
    """#chat"""
    if it.private:
        person = state.users[it.id]
        told: Json = {"id": it.id, "first_name": person.name, "type": "private"}
        return {**told, "username": person.username} if person.username else told
    kind = "supergroup" if it.kind is Kind.FORUM else it.kind.value
    told = {"id": it.id, "title": it.title, "type": kind}
    return {**told, "is_forum": True} if it.kind is Kind.FORUM else told


def full_chat(state: State, it: Chat) -> Json:
    """#chatfullinfo"""
    gifts = dict.fromkeys(_GIFTS, False)
    told: Json = {
        **chat(state, it),
        "accent_color_id": 0,
        "max_reaction_count": 11,
        "accepted_gift_types": gifts,
    }
    return {**told, "description": it.description} if it.description else told


def member(state: State, it: Chat, status: Status, *, manage_topics: bool) -> Json:
    """The bot as #chatmember."""
    told: Json = {"user": user(state.me()), "status": status.value}
    if status is Status.KICKED:
        return {**told, "until_date": 0}
    if status is not Status.ADMINISTRATOR:
        return told
    rights: Json = dict.fromkeys(_RIGHTS, True)
    if it.kind in (Kind.SUPERGROUP, Kind.FORUM):
        rights["can_manage_topics"] = manage_topics
    if it.kind is Kind.CHANNEL:
        rights |= {"can_post_messages": True, "can_edit_messages": True}
    refused = ("can_promote_members", "can_be_edited", "is_anonymous")
    return {**told, **rights, **dict.fromkeys(refused, False)}


def message(state: State, it: Message, *, nested: bool = False) -> Json:
    """#message"""
    where = state.chats[it.chat]
    told: Json = {
        "message_id": it.id,
        **_author(state, where, it),
        "chat": chat(state, where),
        "date": it.date,
    }
    if it.thread is not None:
        told["message_thread_id"] = it.thread
    if it.topic:
        told["is_topic_message"] = True
    if it.edited:
        told["edit_date"] = it.edited
    if it.origin is not None:
        # `forward_date`, from before Bot API 7.0, is still sent: `JsonMessage` of
        # tdlib/telegram-bot-api.
        told |= {"forward_origin": origin(state, it.origin, it.date), "forward_date": it.date}
    if it.via_bot:
        told["via_bot"] = user(state.user(it.via_bot))
    if not nested and (replied := _replied(state, it)) is not None:
        told["reply_to_message"] = message(state, replied, nested=True)
    if it.external is not None:
        told["external_reply"] = {"origin": origin(state, it.external, it.date)}
    if it.quote:
        told["quote"] = {"text": it.quote, "position": 0, "is_manual": True}
    return {**told, **_content(it), **(it.service or {})}


def origin(state: State, it: Origin, date: int) -> Json:
    """#messageorigin"""
    told: Json = {"type": it.kind.value, "date": date}
    match it.kind:
        case OriginKind.USER:
            return {**told, "sender_user": user(state.user(it.id))}
        case OriginKind.HIDDEN_USER:
            return {**told, "sender_user_name": it.name}
        case OriginKind.CHAT:
            return {**told, "sender_chat": chat(state, state.chats[it.id])}
        case OriginKind.CHANNEL:
            return {**told, "chat": chat(state, state.chats[it.id]), "message_id": 2}


def _author(state: State, where: Chat, it: Message) -> Json:
    if where.kind is Kind.CHANNEL:
        return {"sender_chat": chat(state, where)}
    if it.author == 0:
        return {"from": user(ANONYMOUS), "sender_chat": chat(state, where)}
    return {"from": user(state.user(it.author))}


def _replied(state: State, it: Message) -> Message | None:
    """The message that this one replies to.

    A message in a topic without an explicit reply counts as a reply to the message that opened
    the topic (`get_same_chat_reply_to_message_id` of tdlib/telegram-bot-api).
    """
    target = it.reply_to
    if target is None and it.topic and it.thread != it.id:
        target = it.thread
    return None if target is None else state.messages.get((it.chat, target))


def _content(it: Message) -> Json:
    told: Json = {}
    text, entities = ("caption", "caption_entities") if it.file else ("text", "entities")
    if it.text:
        told[text] = it.text
    if it.entities:
        told[entities] = msgspec.to_builtins(it.entities)
    if it.file is not None:
        told |= file(it.file)
    if it.album:
        told["media_group_id"] = it.album
    if not it.preview:
        told["link_preview_options"] = {"is_disabled": True}
    if it.buttons:
        told["reply_markup"] = {"inline_keyboard": keyboard(it.buttons)}
    return told


def file(it: File) -> Json:
    """#document, #photosize, #voice, #audio or #video"""
    told: Json = {"file_id": it.id, "file_unique_id": f"u{it.id[-5:]}", "file_size": it.size}
    match it.kind:
        case FileKind.DOCUMENT:
            return {"document": {**told, "file_name": it.name, "mime_type": it.media_type}}
        case FileKind.VOICE:
            return {"voice": {**told, "duration": 3, "mime_type": it.media_type}}
        case FileKind.AUDIO | FileKind.VIDEO:
            more = {"file_name": it.name, "mime_type": it.media_type, "duration": 3}
            size = {"width": 640, "height": 360} if it.kind is FileKind.VIDEO else {}
            return {it.kind.value: {**told, **more, **size}}
        case FileKind.PHOTO:
            small = {"file_id": f"{it.id}s", "file_unique_id": f"s{it.id[-5:]}"}
            return {
                "photo": [
                    {**small, "width": 90, "height": 67, "file_size": 900},
                    {**told, "width": 800, "height": 600},
                ]
            }


def keyboard(buttons: tuple[Button, ...]) -> list[list[Json]]:
    """#inlinekeyboardmarkup"""
    rows: dict[int, list[Json]] = {}
    for it in buttons:
        more: Json = {"url": it.url} if it.data is None else {"callback_data": it.data}
        rows.setdefault(it.row, []).append({"text": it.label, **more})
    return list(rows.values())
