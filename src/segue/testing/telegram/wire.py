"""The methods that the bot can call: core.telegram.org/bots/api#available-methods.

Telegram ignores unknown parameters. This fake refuses them, because a misspelt parameter would
silently do nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from segue.testing.telegram.entities import Entity

ChatId: TypeAlias = int | str
Limit = Annotated[int, Meta(ge=1, le=100)]
Positive = Annotated[int, Meta(ge=1)]
ParseMode = Literal["HTML", "Markdown", "MarkdownV2"]
Action = Literal[
    "typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice",
    "upload_document", "choose_sticker", "find_location", "record_video_note", "upload_video_note",
]  # fmt: skip
UpdateType = Literal[
    "message", "edited_message", "channel_post", "edited_channel_post", "business_connection",
    "business_message", "edited_business_message", "deleted_business_messages", "guest_message",
    "message_reaction", "message_reaction_count", "inline_query", "chosen_inline_result",
    "callback_query", "shipping_query", "pre_checkout_query", "purchased_paid_media", "poll",
    "poll_answer", "my_chat_member", "chat_member", "chat_join_request", "chat_boost",
    "removed_chat_boost", "managed_bot",
]  # fmt: skip


class _Strict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


# Parameter types


class InlineButton(_Strict, frozen=True):
    """#inlinekeyboardbutton"""

    text: str
    callback_data: str | None = None
    url: str | None = None
    style: Literal["danger", "success", "primary"] | None = None


class InlineKeyboard(_Strict, frozen=True):
    """#inlinekeyboardmarkup"""

    inline_keyboard: tuple[tuple[InlineButton, ...], ...]


class LinkPreview(_Strict, frozen=True):
    """#linkpreviewoptions"""

    is_disabled: bool = False
    url: str | None = None
    prefer_small_media: bool = False
    prefer_large_media: bool = False
    show_above_text: bool = False


class ReplyTo(_Strict, frozen=True):
    """#replyparameters"""

    message_id: int
    chat_id: ChatId | None = None
    allow_sending_without_reply: bool = False


class Reaction(_Strict, frozen=True):
    """#reactiontypeemoji"""

    type: Literal["emoji"]
    emoji: str


class BotCommand(_Strict, frozen=True):
    """#botcommand"""

    command: str
    description: str


class Scope(_Strict, frozen=True):
    """#botcommandscope"""

    type: Literal[
        "default", "all_private_chats", "all_group_chats", "all_chat_administrators", "chat",
        "chat_administrators", "chat_member",
    ] = "default"  # fmt: skip
    chat_id: ChatId | None = None
    user_id: int | None = None


# Calls


class GetMe(_Strict, frozen=True):
    pass


class GetUpdates(_Strict, frozen=True):
    offset: int | None = None
    limit: Limit = 100
    timeout: Annotated[int, Meta(ge=0)] = 0
    allowed_updates: tuple[UpdateType, ...] | None = None


class DeleteWebhook(_Strict, frozen=True):
    drop_pending_updates: bool = False


class GetWebhookInfo(_Strict, frozen=True):
    pass


class _Send(_Strict, frozen=True):
    chat_id: ChatId
    message_thread_id: int | None = None
    parse_mode: ParseMode | None = None
    disable_notification: bool = False
    protect_content: bool = False
    reply_parameters: ReplyTo | None = None
    reply_markup: InlineKeyboard | None = None


class SendMessage(_Send, frozen=True):
    text: str = ""
    entities: tuple[Entity, ...] = ()
    link_preview_options: LinkPreview | None = None


class _SendFile(_Send, frozen=True):
    caption: str = ""
    caption_entities: tuple[Entity, ...] = ()


class SendDocument(_SendFile, frozen=True, kw_only=True):
    document: str
    """A file_id, or `attach://` followed by the name of the part that contains the file."""
    disable_content_type_detection: bool = False


class SendPhoto(_SendFile, frozen=True, kw_only=True):
    photo: str
    has_spoiler: bool = False


class SendMessageDraft(_Strict, frozen=True):
    chat_id: int
    draft_id: int
    message_thread_id: int | None = None
    text: str = ""
    parse_mode: ParseMode | None = None
    entities: tuple[Entity, ...] = ()


class SendChatAction(_Strict, frozen=True):
    chat_id: ChatId
    action: Action
    message_thread_id: int | None = None


class EditMessageText(_Strict, frozen=True):
    chat_id: ChatId
    message_id: int
    text: str = ""
    parse_mode: ParseMode | None = None
    entities: tuple[Entity, ...] = ()
    link_preview_options: LinkPreview | None = None
    reply_markup: InlineKeyboard | None = None


class EditMessageReplyMarkup(_Strict, frozen=True):
    chat_id: ChatId
    message_id: int
    reply_markup: InlineKeyboard | None = None


class EditMessageCaption(_Strict, frozen=True):
    chat_id: ChatId
    message_id: int
    caption: str = ""
    parse_mode: ParseMode | None = None
    caption_entities: tuple[Entity, ...] = ()
    reply_markup: InlineKeyboard | None = None


class DeleteMessage(_Strict, frozen=True):
    chat_id: ChatId
    message_id: int


class SetMessageReaction(_Strict, frozen=True):
    chat_id: ChatId
    message_id: int
    reaction: tuple[Reaction, ...] = ()
    is_big: bool = False


class GetFile(_Strict, frozen=True):
    file_id: str


class AnswerCallbackQuery(_Strict, frozen=True):
    callback_query_id: str
    text: str = ""
    show_alert: bool = False
    cache_time: int = 0


class CreateForumTopic(_Strict, frozen=True):
    chat_id: ChatId
    name: str = ""
    icon_color: int | None = None
    icon_custom_emoji_id: str | None = None


class EditForumTopic(_Strict, frozen=True):
    chat_id: ChatId
    message_thread_id: int
    name: str | None = None
    icon_custom_emoji_id: str | None = None


class _Topic(_Strict, frozen=True):
    chat_id: ChatId
    message_thread_id: int


class CloseForumTopic(_Topic, frozen=True):
    pass


class ReopenForumTopic(_Topic, frozen=True):
    pass


class DeleteForumTopic(_Topic, frozen=True):
    pass


class SetMyCommands(_Strict, frozen=True):
    commands: tuple[BotCommand, ...]
    scope: Scope = Scope()
    language_code: str = ""


class _MyCommands(_Strict, frozen=True):
    scope: Scope = Scope()
    language_code: str = ""


class GetMyCommands(_MyCommands, frozen=True):
    pass


class DeleteMyCommands(_MyCommands, frozen=True):
    pass


class _Chat(_Strict, frozen=True):
    chat_id: ChatId


class GetChat(_Chat, frozen=True):
    pass


class GetChatAdministrators(_Chat, frozen=True):
    pass


class GetChatMemberCount(_Chat, frozen=True):
    pass


class GetChatMember(_Chat, frozen=True):
    user_id: int


Call: TypeAlias = (
    GetMe | GetUpdates | DeleteWebhook | GetWebhookInfo | SendMessage | SendDocument | SendPhoto
    | SendMessageDraft | SendChatAction | EditMessageText | EditMessageCaption
    | EditMessageReplyMarkup | DeleteMessage
    | SetMessageReaction | GetFile | AnswerCallbackQuery | CreateForumTopic | EditForumTopic
    | CloseForumTopic | ReopenForumTopic | DeleteForumTopic | SetMyCommands | GetMyCommands
    | DeleteMyCommands | GetChat | GetChatAdministrators | GetChatMemberCount | GetChatMember
)  # fmt: skip

_CALLS: tuple[type[Call], ...] = Call.__args__
METHODS: dict[str, type[Call]] = {call.__name__.lower(): call for call in _CALLS}
"""By lower-case name: Telegram ignores case in method names."""
