"""The methods that the bot can call: core.telegram.org/bots/api#available-methods.

Each is a type: its fields are the parameters, and `answer` carries it out. There are only the
methods and parameters that we use. Telegram ignores unknown parameters; this fake refuses them,
because a misspelt parameter would silently do nothing. Where the documentation gives limits but no
error texts, these are as reported by bots (such as nullclaw's pull request 329 for a blank text).
"""

from __future__ import annotations

import re
import time
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from segue.testing import peers
from segue.testing.peers import Button, Draft
from segue.testing.peers.limits import Pace
from segue.testing.telegram import objects
from segue.testing.telegram.entities import (
    Formatted,
    cleaned,
    is_empty,
    trimmed,
    units,
    with_found,
)
from segue.testing.telegram.errors import Refuse, bad, mistake, too_often
from segue.testing.telegram.markup import parse_html
from segue.testing.telegram.objects import Json
from segue.testing.telegram.snapshot import BotCommand, Chat, FileKind, Message, Status, Topic
from segue.testing.telegram.state import USUAL, State, UpdateType

ChatId: TypeAlias = int | str
ParseMode = Literal["HTML", "Markdown", "MarkdownV2"]
Action = Literal[
    "typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice",
    "upload_document", "choose_sticker", "find_location", "record_video_note", "upload_video_note",
]  # fmt: skip

LARGEST_FILE = 50 * 1024 * 1024
_LARGEST_PHOTO = 10 * 1024 * 1024
_LARGEST_DOWNLOAD = 20 * 1024 * 1024
_TEXT_LIMIT = 4096
_CAPTION_LIMIT = 1024
_DATA_LIMIT = 64
_BUTTONS = 100
_NAME_LIMIT = 128
_COMMANDS = 100
_COMMAND = re.compile(r"/?[a-z0-9_]{1,32}")
_DESCRIPTION_LIMIT = 256
_LONGEST_POLL = 50
_IMAGES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM")
_NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same "
    "as a current content and reply markup of the message"
)
_OTHER_POLL = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is "
    "running"
)
_WEBHOOK_SET = (
    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete "
    "the webhook first"
)


class _Strict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Call(_Strict, frozen=True):
    def answer(self, state: State) -> object:
        """Carry out the call and return its result. Raises Refuse."""
        raise NotImplementedError


# The bot


class GetMe(Call, frozen=True):
    def answer(self, state: State) -> Json:
        return objects.me(state)


class GetUpdates(Call, frozen=True):
    """An offset permanently confirms all updates with smaller ids. Only one poll runs at a time."""

    offset: int | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 100
    timeout: Annotated[int, Meta(ge=0)] = 0
    allowed_updates: tuple[UpdateType, ...] | None = None
    """The types of update that are queued from now on."""

    async def answer(self, state: State) -> list[Raw]:
        if state.webhook:
            raise Refuse(409, _WEBHOOK_SET)
        if self.allowed_updates is not None:
            state.allowed = frozenset(self.allowed_updates) or USUAL
        if (offset := self.offset or 0) < 0:
            state.updates.waiting = state.updates.waiting[offset:]
        state.updates.confirm(offset)
        batch = await state.updates.poll(self.limit, min(self.timeout, _LONGEST_POLL))
        if batch is None:
            raise Refuse(409, _OTHER_POLL)
        return [Raw(update.frame.encode()) for update in batch]


class GetWebhookInfo(Call, frozen=True):
    def answer(self, state: State) -> Json:
        return {
            "url": state.webhook,
            "has_custom_certificate": False,
            "pending_update_count": len(state.updates.waiting),
        }


class DeleteWebhook(Call, frozen=True):
    drop_pending_updates: bool = False

    def answer(self, state: State) -> bool:
        state.webhook = ""
        if self.drop_pending_updates:
            state.updates.waiting.clear()
        return True


class GetMyCommands(Call, frozen=True):
    def answer(self, state: State) -> tuple[BotCommand, ...]:
        return state.menu


class SetMyCommands(Call, frozen=True):
    commands: tuple[BotCommand, ...]

    def answer(self, state: State) -> bool:
        if len(self.commands) > _COMMANDS:
            raise bad("BOT_COMMANDS_TOO_MUCH")
        for it in self.commands:
            if _COMMAND.fullmatch(it.command) is None:
                raise bad("BOT_COMMAND_INVALID")
            if not 1 <= len(it.description) <= _DESCRIPTION_LIMIT:
                raise bad("BOT_COMMAND_DESCRIPTION_INVALID")
        state.menu = self.commands
        return True


# Chats


class GetChat(Call, frozen=True):
    chat_id: ChatId

    def answer(self, state: State) -> Json:
        return objects.full_chat(state, state.readable(self.chat_id))


class GetChatMember(Call, frozen=True):
    chat_id: ChatId
    user_id: int

    def answer(self, state: State) -> Json:
        chat = state.readable(self.chat_id)
        if self.user_id != state.bot:
            raise mistake("only the bot itself is known here as a member")
        return objects.member(state, chat)


# Files


class GetFile(Call, frozen=True):
    """#getfile; a bot can download at most 20 MB."""

    file_id: str

    def answer(self, state: State) -> Json:
        file, content = state.file(self.file_id)
        if len(content) > _LARGEST_DOWNLOAD:
            raise bad("file is too big")
        return {
            "file_id": self.file_id,
            "file_unique_id": f"u{file.id[-5:]}",
            "file_size": len(content),
            "file_path": _path(state, self.file_id),
        }


class Download(Call, frozen=True):
    """The content at a `file_path`: #file"""

    file_path: str

    def answer(self, state: State) -> bytes:
        for name, (_, content) in state.files.items():
            if _path(state, name) == self.file_path:
                return content
        raise Refuse(404, "Not Found")


def _path(state: State, name: str) -> str:
    file, _ = state.files[name]
    _, dot, ending = file.name.rpartition(".")
    folder = "photos" if file.kind is FileKind.PHOTO else "documents"
    number = name.removeprefix("BQACAgIAAxkBAAI")
    return f"{folder}/file_{number}{dot}{ending if dot else ''}"


# Texts and buttons: #formatting-options and #inlinekeyboardbutton


def _formatted(text: str, parse_mode: ParseMode | None) -> Formatted:
    if parse_mode not in (None, "HTML"):
        raise mistake(f"only HTML is read here, not {parse_mode}")
    clean = cleaned(text)
    return with_found(trimmed(parse_html(clean) if parse_mode else Formatted(clean)))


def _text(text: str, parse_mode: ParseMode | None, too_long: str) -> Formatted:
    """A message's text: 1 to 4096 characters after parsing the markup."""
    if not text:
        raise bad("message text is empty")
    formatted = _formatted(text, parse_mode)
    if is_empty(formatted.text):
        raise bad("text must be non-empty")
    if units(formatted.text) > _TEXT_LIMIT:
        raise bad(too_long)
    return formatted


def _caption(text: str, parse_mode: ParseMode | None) -> Formatted:
    """A file's caption: 0 to 1024 characters after parsing the markup."""
    formatted = _formatted(text, parse_mode)
    if units(formatted.text) > _CAPTION_LIMIT:
        raise bad("message caption is too long")
    return formatted


class InlineButton(_Strict, frozen=True):
    text: str
    callback_data: str | None = None

    def shown(self, row: int) -> Button:
        if is_empty(self.text):
            raise mistake("a button has no text")
        if self.callback_data is None:
            raise bad(
                "can't parse inline keyboard button: Text buttons are unallowed in the inline "
                "keyboard"
            )
        if not 1 <= len(self.callback_data.encode()) <= _DATA_LIMIT:
            raise bad("BUTTON_DATA_INVALID")
        return Button(label=self.text, data=self.callback_data, row=row)


class InlineKeyboard(_Strict, frozen=True):
    inline_keyboard: tuple[tuple[InlineButton, ...], ...] = ()

    def shown(self) -> tuple[Button, ...]:
        rows = self.inline_keyboard
        if sum(map(len, rows)) > _BUTTONS:
            raise bad("reply markup is too long")
        return tuple(it.shown(number) for number, row in enumerate(rows) for it in row)


class LinkPreview(_Strict, frozen=True):
    is_disabled: bool = False


# Messages


class _Send(Call, frozen=True):
    chat_id: ChatId
    message_thread_id: int | None = None
    parse_mode: ParseMode | None = None
    reply_markup: InlineKeyboard = InlineKeyboard()

    def _post(self, state: State, chat: Chat, formatted: Formatted, **more: Any) -> Json:
        buttons = self.reply_markup.shown()
        thread, topic = state.place(chat, self.message_thread_id, state.bot)
        _pace(state, chat)
        message = Message(
            chat=chat.id,
            id=state.message_id(chat),
            thread=thread,
            topic=topic,
            author=state.bot,
            text=formatted.text,
            entities=formatted.entities,
            buttons=buttons,
            **more,
        )
        return objects.message(state, state.post(message))


def _pace(state: State, chat: Chat) -> None:
    """core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this"""
    settings = state.settings
    paces: list[Pace] = []
    if settings.chat_seconds:
        paces.append(Pace(f"chat {chat.id}", settings.chat_seconds, 5))
    if settings.per_second:
        paces.append(Pace("bot", 1 / settings.per_second, max(round(settings.per_second), 1)))
    if paces and (wait := state.meter.wait(*paces)) > 0:
        raise too_often(wait)


class SendMessage(_Send, frozen=True):
    text: str = ""
    link_preview_options: LinkPreview = LinkPreview()

    def answer(self, state: State) -> Json:
        chat = state.writable(self.chat_id)
        formatted = _text(self.text, self.parse_mode, "message is too long")
        preview = not self.link_preview_options.is_disabled
        return self._post(state, chat, formatted, preview=preview)


class _SendFile(_Send, frozen=True):
    caption: str = ""

    def _file(self, state: State, kind: FileKind, sent: peers.Upload) -> Json:
        chat = state.writable(self.chat_id)
        _check_file(kind, sent.content)
        formatted = _caption(self.caption, self.parse_mode)
        file = state.add_file(kind, sent.name, sent.media_type, sent.content)
        return self._post(state, chat, formatted, file=file)


def _check_file(kind: FileKind, content: bytes) -> None:
    """#sending-files"""
    if not content:
        raise bad("file must be non-empty")
    if len(content) > LARGEST_FILE:
        raise Refuse(413, "Request Entity Too Large")
    if kind is FileKind.PHOTO and len(content) > _LARGEST_PHOTO:
        raise bad(
            f"file of size {len(content)} bytes is too big for a photo; the maximum size is "
            f"{_LARGEST_PHOTO} bytes"
        )
    if kind is FileKind.PHOTO and not content.startswith(_IMAGES):
        raise bad("IMAGE_PROCESS_FAILED")


class SendDocument(_SendFile, frozen=True, kw_only=True):
    document: peers.Upload

    def answer(self, state: State) -> Json:
        return self._file(state, FileKind.DOCUMENT, self.document)


class SendPhoto(_SendFile, frozen=True, kw_only=True):
    photo: peers.Upload

    def answer(self, state: State) -> Json:
        return self._file(state, FileKind.PHOTO, self.photo)


class SendMessageDraft(Call, frozen=True):
    """Many users report TEXTDRAFT_PEER_INVALID, as in nullclaw issue 626."""

    chat_id: int
    draft_id: int
    message_thread_id: int | None = None
    text: str = ""
    parse_mode: ParseMode | None = None

    def answer(self, state: State) -> bool:
        chat = state.writable(self.chat_id)
        if not chat.private:
            raise bad("TEXTDRAFT_PEER_INVALID")
        if self.draft_id == 0:
            raise mistake("draft_id must be non-zero")
        text = self.text
        if text:
            text = _text(text, self.parse_mode, "message is too long").text
        thread, _ = state.place(chat, self.message_thread_id, state.bot)
        state.draft(Draft(chat=chat.id, thread=thread, id=self.draft_id, text=text))
        return True


class SendChatAction(Call, frozen=True):
    """A deleted topic is not an error: tdlib/telegram-bot-api issue 732."""

    chat_id: ChatId
    action: Action
    message_thread_id: int | None = None

    def answer(self, state: State) -> bool:
        chat = state.writable(self.chat_id)
        state.typing[chat.id, self.message_thread_id] += 1
        return True


class _Edit(Call, frozen=True):
    chat_id: ChatId
    message_id: int
    parse_mode: ParseMode | None = None
    reply_markup: InlineKeyboard = InlineKeyboard()

    def _own(self, state: State) -> Message:
        chat = state.writable(self.chat_id)
        message = state.message(chat, self.message_id, "message to edit")
        if message.author != state.bot or message.service:
            raise bad("message can't be edited")
        return message

    def _change(self, state: State, before: Message, formatted: Formatted, **more: Any) -> Json:
        after = replace(
            before,
            text=formatted.text,
            entities=formatted.entities,
            buttons=self.reply_markup.shown(),
        )
        if after == before:
            raise bad(_NOT_MODIFIED)
        after = replace(after, edited=int(time.time()), **more)
        return objects.message(state, state.edit(before, after))


class EditMessageText(_Edit, frozen=True):
    text: str = ""
    link_preview_options: LinkPreview = LinkPreview()

    def answer(self, state: State) -> Json:
        before = self._own(state)
        if before.file is not None:
            raise bad("there is no text in the message to edit")
        formatted = _text(self.text, self.parse_mode, "MESSAGE_TOO_LONG")
        preview = not self.link_preview_options.is_disabled
        return self._change(state, before, formatted, preview=preview)


class EditMessageCaption(_Edit, frozen=True):
    caption: str = ""

    def answer(self, state: State) -> Json:
        before = self._own(state)
        if before.file is None:
            raise bad("there is no caption in the message to edit")
        return self._change(state, before, _caption(self.caption, self.parse_mode))


class DeleteMessage(Call, frozen=True):
    """#deletemessage says which messages a bot can delete."""

    chat_id: ChatId
    message_id: int

    def answer(self, state: State) -> bool:
        chat = state.writable(self.chat_id)
        message = state.message(chat, self.message_id, "message to delete")
        own = message.author == state.bot
        may = own or chat.private or chat.status is Status.ADMINISTRATOR
        if not may or "forum_topic_created" in message.more:
            raise bad("message can't be deleted")
        del state.messages[chat.id, message.id]
        return True


class AnswerCallbackQuery(Call, frozen=True):
    callback_query_id: str

    def answer(self, state: State) -> bool:
        if self.callback_query_id not in state.queries:
            raise bad("query is too old and response timeout expired or query ID is invalid")
        state.answered.append(self.callback_query_id)
        return True


# Topics
#
# In forums the bot must be an administrator with `can_manage_topics`. In private chats it needs
# threaded mode (since Bot API 9.4). The error texts are from `ForumTopicManager` in tdlib/td.


class CreateForumTopic(Call, frozen=True):
    chat_id: ChatId
    name: str = ""

    def answer(self, state: State) -> Json:
        chat = _forum(state, self.chat_id)
        if not _manages(chat):
            raise bad("not enough rights to create a topic")
        if units(self.name) > _NAME_LIMIT:
            # Telegram truncates it.
            raise mistake(f"the name of a topic has more than {_NAME_LIMIT} characters")
        name = re.sub(r"[ \n\xa0]+", " ", cleaned(self.name)).strip()
        if is_empty(name):
            raise bad("name must be non-empty")
        topic = state.open_topic(chat, name, state.bot)
        return {"message_thread_id": topic.id, "name": name, "icon_color": 7322096}


class ReopenForumTopic(Call, frozen=True):
    chat_id: ChatId
    message_thread_id: int

    def answer(self, state: State) -> bool:
        chat = _forum(state, self.chat_id)
        if chat.private:
            raise bad("the chat is not a supergroup forum")
        topic = _editable(state, chat, self.message_thread_id)
        if not topic.closed:
            raise bad("TOPIC_NOT_MODIFIED")
        state.threads[chat.id, topic.id] = replace(topic, closed=False)
        return True


def _forum(state: State, chat_id: ChatId) -> Chat:
    chat = state.writable(chat_id)
    if not state.has_topics(chat):
        raise bad("the chat is not a forum")
    return chat


def _editable(state: State, chat: Chat, name: int) -> Topic:
    """A topic that the bot may edit. It may always edit the topics that it opened."""
    if (topic := state.threads.get((chat.id, name))) is None:
        raise bad("TOPIC_ID_INVALID")
    if not _manages(chat) and topic.by != state.bot:
        raise bad("not enough rights to close or open the topic")
    return topic


def _manages(chat: Chat) -> bool:
    return chat.private or (chat.status is Status.ADMINISTRATOR and chat.manage_topics)


_CALLS: tuple[type[Call], ...] = (
    GetMe, GetUpdates, GetWebhookInfo, DeleteWebhook, GetMyCommands, SetMyCommands, GetChat,
    GetChatMember, GetFile, SendMessage, SendDocument, SendPhoto, SendMessageDraft, SendChatAction,
    EditMessageText, EditMessageCaption, DeleteMessage, AnswerCallbackQuery, CreateForumTopic,
    ReopenForumTopic,
)  # fmt: skip
METHODS = {call.__name__.lower(): call for call in _CALLS}
"""By lower-case name: Telegram ignores case in method names."""
