"""The methods that the bot can call: core.telegram.org/bots/api#available-methods.

There are only the methods and parameters that we use. Telegram ignores unknown parameters; this
fake refuses them, because a misspelt parameter would silently do nothing. Where the documentation
gives limits but no error texts, these are as reported by bots (such as nullclaw's pull request 329
for a blank text).
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from segue.testing.peers import Button, Draft, FileKind, Status, Upload
from segue.testing.telegram import objects
from segue.testing.telegram.errors import Refuse, bad, mistake, too_often
from segue.testing.telegram.markup import Formatted, cleaned, is_empty, parse_html, trimmed, units
from segue.testing.telegram.objects import Json
from segue.testing.telegram.snapshot import BotCommand, Chat, Message
from segue.testing.telegram.state import USUAL, State, UpdateType

ChatId: TypeAlias = int | str
Mode: TypeAlias = Literal["HTML"] | None
Limit = Annotated[int, Meta(ge=1, le=100)]
Seconds = Annotated[int, Meta(ge=0)]

MEGABYTE = 1024 * 1024
LARGEST_FILE = 50 * MEGABYTE
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


class LinkPreview(Struct, frozen=True, forbid_unknown_fields=True):
    is_disabled: bool = False


class InlineButton(Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    callback_data: str | None = None


class Keyboard(Struct, frozen=True, forbid_unknown_fields=True):
    inline_keyboard: tuple[tuple[InlineButton, ...], ...]


class Methods:
    """Each takes the parameters of its signature, and returns the result or raises Refuse."""

    def __init__(self, state: State) -> None:
        self._state = state

    # The bot

    def get_me(self) -> Json:
        return objects.me(self._state)

    async def get_updates(
        self,
        offset: int = 0,
        limit: Limit = 100,
        timeout: Seconds = 0,
        allowed_updates: tuple[UpdateType, ...] | None = None,
    ) -> list[Raw]:
        """An offset permanently confirms all updates with smaller ids. Only one poll runs at a
        time. `allowed_updates` selects the types of update that are queued from now on."""
        state, updates = self._state, self._state.updates
        if state.webhook:
            raise Refuse(409, _WEBHOOK_SET)
        if allowed_updates is not None:
            state.allowed = frozenset(allowed_updates) or USUAL
        if offset < 0:
            updates.waiting = updates.waiting[offset:]
        updates.confirm(offset)
        if (batch := await updates.poll(limit, min(timeout, 50))) is None:
            raise Refuse(409, _OTHER_POLL)
        return [Raw(update.frame.encode()) for update in batch]

    def get_webhook_info(self) -> Json:
        pending = len(self._state.updates.waiting)
        url = self._state.webhook
        return {"url": url, "has_custom_certificate": False, "pending_update_count": pending}

    def delete_webhook(self, drop_pending_updates: bool = False) -> bool:
        self._state.webhook = ""
        if drop_pending_updates:
            self._state.updates.waiting.clear()
        return True

    def get_my_commands(self) -> tuple[BotCommand, ...]:
        return self._state.menu

    def set_my_commands(self, commands: tuple[BotCommand, ...]) -> bool:
        if len(commands) > 100:
            raise bad("BOT_COMMANDS_TOO_MUCH")
        for it in commands:
            if re.fullmatch(r"/?[a-z0-9_]{1,32}", it.command) is None:
                raise bad("BOT_COMMAND_INVALID")
            if not 1 <= len(it.description) <= 256:
                raise bad("BOT_COMMAND_DESCRIPTION_INVALID")
        self._state.menu = commands
        return True

    # Chats

    def get_chat(self, chat_id: ChatId) -> Json:
        return objects.full_chat(self._state, self._state.readable(chat_id))

    def get_chat_member(self, chat_id: ChatId, user_id: int) -> Json:
        chat = self._state.readable(chat_id)
        if user_id != self._state.bot:
            raise mistake("only the bot itself is known here as a member")
        return objects.member(self._state, chat)

    # Files

    def get_file(self, file_id: str) -> Json:
        """A bot can download at most 20 MB."""
        file, _ = self._state.file(file_id)
        if file.size > 20 * MEGABYTE:
            raise bad("file is too big")
        unique, path = f"u{file_id[-5:]}", f"files/{file_id}"
        made: Json = {"file_id": file_id, "file_unique_id": unique, "file_size": file.size}
        return {**made, "file_path": path}

    def download(self, file_path: str) -> bytes:
        """The content at a `file_path`: #file"""
        if (found := self._state.files.get(file_path.removeprefix("files/"))) is None:
            raise Refuse(404, "Not Found")
        return found[1]

    # Messages

    def send_message(
        self,
        chat_id: ChatId,
        text: str = "",
        message_thread_id: int | None = None,
        parse_mode: Mode = None,
        link_preview_options: LinkPreview | None = None,
        reply_markup: Keyboard | None = None,
    ) -> Json:
        chat = self._state.writable(chat_id)
        formatted = _text(text, parse_mode, "message is too long")
        buttons = _buttons(reply_markup)
        preview = _previews(link_preview_options)
        return self._post(chat, message_thread_id, formatted, buttons=buttons, preview=preview)

    def send_document(
        self,
        chat_id: ChatId,
        document: Upload,
        caption: str = "",
        message_thread_id: int | None = None,
        parse_mode: Mode = None,
    ) -> Json:
        return self._file(chat_id, document, message_thread_id, caption, parse_mode)

    def send_photo(
        self,
        chat_id: ChatId,
        photo: Upload,
        caption: str = "",
        message_thread_id: int | None = None,
        parse_mode: Mode = None,
    ) -> Json:
        photo = replace(photo, kind=FileKind.PHOTO)
        return self._file(chat_id, photo, message_thread_id, caption, parse_mode)

    def _file(
        self, chat_id: ChatId, sent: Upload, thread: int | None, caption: str, mode: Mode
    ) -> Json:
        chat = self._state.writable(chat_id)
        _check_file(sent)
        formatted = _caption(caption, mode)
        return self._post(chat, thread, formatted, file=self._state.store(sent))

    def _post(self, chat: Chat, thread: int | None, formatted: Formatted, **more: Any) -> Json:
        state, settings = self._state, self._state.settings
        thread, topic = state.place(chat, thread, state.bot)
        wait = state.wait(chat.id, settings.per_second, settings.chat_seconds, burst=5)
        if wait > 0:
            raise too_often(wait)
        message = Message(
            chat=chat.id,
            id=state.message_id(chat),
            thread=thread,
            topic=topic,
            author=state.bot,
            text=formatted.text,
            entities=formatted.entities,
            **more,
        )
        return objects.message(state, state.post(message))

    def send_message_draft(
        self,
        chat_id: int,
        draft_id: int,
        message_thread_id: int | None = None,
        text: str = "",
        parse_mode: Mode = None,
    ) -> bool:
        """Many users report TEXTDRAFT_PEER_INVALID, as in nullclaw issue 626."""
        chat = self._state.writable(chat_id)
        if not chat.private:
            raise bad("TEXTDRAFT_PEER_INVALID")
        if draft_id == 0:
            raise mistake("draft_id must be non-zero")
        if text:
            text = _text(text, parse_mode, "message is too long").text
        thread, _ = self._state.place(chat, message_thread_id, self._state.bot)
        self._state.draft(Draft(chat=chat.id, thread=thread, id=draft_id, text=text))
        return True

    def send_chat_action(
        self, chat_id: ChatId, action: Literal["typing"], message_thread_id: int | None = None
    ) -> bool:
        """A deleted topic is not an error: tdlib/telegram-bot-api issue 732."""
        self._state.typing[self._state.writable(chat_id).id, message_thread_id] += 1
        return True

    def edit_message_text(
        self,
        chat_id: ChatId,
        message_id: int,
        text: str = "",
        parse_mode: Mode = None,
        link_preview_options: LinkPreview | None = None,
        reply_markup: Keyboard | None = None,
    ) -> Json:
        before = self._own(chat_id, message_id)
        if before.file is not None:
            raise bad("there is no text in the message to edit")
        formatted = _text(text, parse_mode, "MESSAGE_TOO_LONG")
        preview = _previews(link_preview_options)
        return self._change(before, formatted, reply_markup, preview=preview)

    def edit_message_caption(
        self,
        chat_id: ChatId,
        message_id: int,
        caption: str = "",
        parse_mode: Mode = None,
        reply_markup: Keyboard | None = None,
    ) -> Json:
        before = self._own(chat_id, message_id)
        if before.file is None:
            raise bad("there is no caption in the message to edit")
        return self._change(before, _caption(caption, parse_mode), reply_markup)

    def _own(self, chat_id: ChatId, name: int) -> Message:
        message = self._state.message(self._state.writable(chat_id), name, "message to edit")
        if message.author != self._state.bot or message.service:
            raise bad("message can't be edited")
        return message

    def _change(
        self, before: Message, formatted: Formatted, markup: Keyboard | None, **more: Any
    ) -> Json:
        text, entities, buttons = formatted.text, formatted.entities, _buttons(markup)
        after = replace(before, text=text, entities=entities, buttons=buttons)
        if after == before:
            raise bad(_NOT_MODIFIED)
        changed = self._state.edit(before, replace(after, **more))
        return objects.message(self._state, changed)

    def delete_message(self, chat_id: ChatId, message_id: int) -> bool:
        """#deletemessage says which messages a bot can delete."""
        chat = self._state.writable(chat_id)
        message = self._state.message(chat, message_id, "message to delete")
        own = message.author == self._state.bot
        may = own or chat.private or chat.status is Status.ADMINISTRATOR
        if not may or "forum_topic_created" in message.more:
            raise bad("message can't be deleted")
        del self._state.messages[chat.id, message.id]
        return True

    def answer_callback_query(self, callback_query_id: str) -> bool:
        if callback_query_id not in self._state.presses:
            raise bad("query is too old and response timeout expired or query ID is invalid")
        self._state.answered.append(callback_query_id)
        return True

    # Topics
    #
    # In forums the bot must be an administrator with `can_manage_topics`. In private chats it needs
    # threaded mode (since Bot API 9.4). The error texts are from `ForumTopicManager` in tdlib/td.

    def create_forum_topic(self, chat_id: ChatId, name: str = "") -> Json:
        chat = self._forum(chat_id)
        if not _manages(chat):
            raise bad("not enough rights to create a topic")
        if units(name) > 128:
            # Telegram truncates it.
            raise mistake("the name of a topic has more than 128 characters")
        name = re.sub(r"[ \n\xa0]+", " ", cleaned(name)).strip()
        if is_empty(name):
            raise bad("name must be non-empty")
        topic = self._state.open_topic(chat, name, self._state.bot)
        return {"message_thread_id": topic.id, "name": name, "icon_color": 7322096}

    def reopen_forum_topic(self, chat_id: ChatId, message_thread_id: int) -> bool:
        """The bot may always reopen the topics that it opened."""
        chat = self._forum(chat_id)
        if chat.private:
            raise bad("the chat is not a supergroup forum")
        if (topic := self._state.threads.get((chat.id, message_thread_id))) is None:
            raise bad("TOPIC_ID_INVALID")
        if not _manages(chat) and topic.by != self._state.bot:
            raise bad("not enough rights to close or open the topic")
        if not topic.closed:
            raise bad("TOPIC_NOT_MODIFIED")
        self._state.threads[chat.id, topic.id] = replace(topic, closed=False)
        return True

    def _forum(self, chat_id: ChatId) -> Chat:
        chat = self._state.writable(chat_id)
        if not self._state.has_topics(chat):
            raise bad("the chat is not a forum")
        return chat


def _manages(chat: Chat) -> bool:
    return chat.private or (chat.status is Status.ADMINISTRATOR and chat.manage_topics)


def _formatted(text: str, mode: Mode) -> Formatted:
    return trimmed(parse_html(cleaned(text)) if mode else Formatted(cleaned(text)))


def _text(text: str, mode: Mode, too_long: str) -> Formatted:
    """A message's text: 1 to 4096 characters after parsing the markup."""
    if not text:
        raise bad("message text is empty")
    formatted = _formatted(text, mode)
    if is_empty(formatted.text):
        raise bad("text must be non-empty")
    if units(formatted.text) > 4096:
        raise bad(too_long)
    return formatted


def _caption(text: str, mode: Mode) -> Formatted:
    """A file's caption: 0 to 1024 characters after parsing the markup."""
    formatted = _formatted(text, mode)
    if units(formatted.text) > 1024:
        raise bad("message caption is too long")
    return formatted


def _previews(options: LinkPreview | None) -> bool:
    return options is None or not options.is_disabled


def _check_file(sent: Upload) -> None:
    """#sending-files"""
    length, photo = len(sent.content), sent.kind is FileKind.PHOTO
    if not length:
        raise bad("file must be non-empty")
    if length > LARGEST_FILE:
        raise Refuse(413, "Request Entity Too Large")
    if photo and length > 10 * MEGABYTE:
        limit = f"the maximum size is {10 * MEGABYTE} bytes"
        raise bad(f"file of size {length} bytes is too big for a photo; {limit}")
    if photo and not sent.content.startswith(_IMAGES):
        raise bad("IMAGE_PROCESS_FAILED")


def _buttons(keyboard: Keyboard | None) -> tuple[Button, ...]:
    rows = () if keyboard is None else keyboard.inline_keyboard
    if sum(map(len, rows)) > 100:
        raise bad("reply markup is too long")
    return tuple(_button(it, number) for number, row in enumerate(rows) for it in row)


def _button(it: InlineButton, row: int) -> Button:
    """#inlinekeyboardbutton"""
    if is_empty(it.text):
        raise mistake("a button has no text")
    if it.callback_data is None:
        reason = "Text buttons are unallowed in the inline keyboard"
        raise bad(f"can't parse inline keyboard button: {reason}")
    if not 1 <= len(it.callback_data.encode()) <= 64:
        raise bad("BUTTON_DATA_INVALID")
    return Button(label=it.text, data=it.callback_data, row=row)


_PUBLIC = {name: it for name, it in vars(Methods).items() if not name.startswith("_")}
METHODS = {name.replace("_", ""): it for name, it in _PUBLIC.items() if name != "download"}
"""By lower-case name: Telegram ignores case in method names."""
