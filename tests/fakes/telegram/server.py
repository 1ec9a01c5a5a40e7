"""The Telegram fake's interface for the bot: core.telegram.org/bots/api#available-methods.

There are only the methods and parameters that we use. Telegram ignores unknown parameters; this
fake refuses them, because a misspelt parameter would silently do nothing. Where the documentation
gives limits but no error texts, these are as reported by bots (such as nullclaw's pull request 329
for a blank text).

Calls go to `/bot<token>/<method>`, and file downloads to `/file/bot<token>/<file_path>`:
core.telegram.org/bots/api#making-requests and #getfile. A malformed token and an unknown method get
404; a token that belongs to no bot gets 401 (`ClientManager` of tdlib/telegram-bot-api).
"""

from __future__ import annotations

import functools
import re
import urllib.parse
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from segue.testing import peers
from segue.testing.http import Request, Response
from segue.testing.peers import Button, Draft, FileKind, Outage, Record, Status, Upload
from segue.testing.peers.server import Effect
from tests.fakes.protocols import forms
from tests.fakes.protocols.entities import Formatted, units
from tests.fakes.telegram import objects
from tests.fakes.telegram.control import Control, Driver
from tests.fakes.telegram.markup import cleaned, is_empty, parse_html
from tests.fakes.telegram.objects import Json
from tests.fakes.telegram.state import (
    BotCommand,
    Chat,
    Message,
    Refuse,
    Settings,
    State,
    UpdateType,
    bad,
    mistake,
    too_often,
)

ChatId: TypeAlias = int | str
Mode: TypeAlias = Literal["HTML"] | None
Limit = Annotated[int, Meta(ge=1, le=100)]
Seconds = Annotated[int, Meta(ge=0)]
Commands = Annotated[tuple[BotCommand, ...], Meta(max_length=100)]

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


_PREVIEW = LinkPreview()
_NO_BUTTONS = Keyboard(())


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
        state = self._state
        updates = self._state.updates
        if state.settings.webhook:
            raise Refuse(409, _WEBHOOK_SET)
        if allowed_updates is not None:
            state.allowed = allowed_updates
        if offset < 0:
            updates.waiting = updates.waiting[offset:]
        updates.confirm(offset)
        if (batch := await updates.poll(limit, min(timeout, 50))) is None:
            raise Refuse(409, _OTHER_POLL)
        return [Raw(update.frame.encode()) for update in batch]

    def get_webhook_info(self) -> Json:
        count = {"pending_update_count": len(self._state.updates.waiting)}
        return {"url": self._state.settings.webhook, "has_custom_certificate": False, **count}

    def delete_webhook(self, drop_pending_updates: bool = False) -> bool:
        self._state.settings = replace(self._state.settings, webhook="")
        if drop_pending_updates:
            self._state.updates.waiting.clear()
        return True

    def get_my_commands(self) -> tuple[BotCommand, ...]:
        return self._state.menu

    def set_my_commands(self, commands: Commands) -> bool:
        self._state.menu = commands
        return True

    # Chats and files

    def get_chat(self, chat_id: ChatId) -> Json:
        return objects.full_chat(self._state, self._state.readable(chat_id))

    def get_chat_member(self, chat_id: ChatId, user_id: int) -> Json:
        chat = self._state.readable(chat_id)
        if user_id != self._state.bot:
            return self._other_member(chat, user_id)
        return objects.member(self._state, chat)

    def _other_member(self, chat: Chat, user_id: int) -> Json:
        """Only guaranteed for administrators; others are refused where members are hidden."""
        if chat.hides_members and chat.status is not Status.ADMINISTRATOR:
            raise bad("member list is inaccessible")
        if (user := self._state.users.get(user_id)) is None:
            raise bad("user not found")
        status = "member" if user_id in chat.members else "left"
        return {"user": objects.user(user), "status": status}

    def get_chat_member_count(self, chat_id: ChatId) -> int:
        chat = self._state.readable(chat_id)
        return len(chat.members) + 1

    def get_file(self, file_id: str) -> Json:
        """A bot can download at most 20 MB."""
        if (found := self._state.files.get(file_id)) is None:
            raise bad("invalid file_id")
        if found[0].size > 20 * MEGABYTE:
            raise bad("file is too big")
        return {**objects.file(found[0]), "file_path": f"files/{file_id}"}

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
        link_preview_options: LinkPreview = _PREVIEW,
        reply_markup: Keyboard = _NO_BUTTONS,
    ) -> Json:
        chat = self._state.writable(chat_id)
        more = _text(text, parse_mode, "message is too long", link_preview_options)
        return self._post(chat, message_thread_id, buttons=_buttons(reply_markup), **more)

    def send_document(
        self,
        chat_id: ChatId,
        document: Upload,
        caption: str = "",
        message_thread_id: int | None = None,
        parse_mode: Mode = None,
    ) -> Json:
        """#sending-files"""
        chat = self._state.writable(chat_id)
        more = _caption(caption, parse_mode)
        if not document.content:
            raise bad("file must be non-empty")
        if len(document.content) > LARGEST_FILE:
            raise Refuse(413, "Request Entity Too Large")
        return self._post(chat, message_thread_id, files=(self._state.store(document),), **more)

    def send_photo(
        self,
        chat_id: ChatId,
        photo: Upload,
        caption: str = "",
        message_thread_id: int | None = None,
        parse_mode: Mode = None,
    ) -> Json:
        size = len(photo.content)
        most = 10 * MEGABYTE
        if size > most:
            limit = f"the maximum size is {most} bytes"
            raise bad(f"file of size {size} bytes is too big for a photo; {limit}")
        if size and not photo.content.startswith(_IMAGES):
            raise bad("IMAGE_PROCESS_FAILED")
        photo = replace(photo, kind=FileKind.PHOTO)
        return self.send_document(chat_id, photo, caption, message_thread_id, parse_mode)

    def _post(self, chat: Chat, thread: int | None, **more: Any) -> Json:
        state = self._state
        settings = self._state.settings
        thread, topic = state.place(chat, thread, state.bot)
        wait = state.wait(chat.id, settings.per_second, settings.chat_seconds, burst=5)
        if wait > 0:
            raise too_often(wait)
        at = {"chat": chat.id, "id": state.message_id(chat), "thread": thread, "topic": topic}
        return objects.message(state, state.post(Message(author=state.bot, **at, **more)))

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
        shown = _text(text, parse_mode, "message is too long")["text"] if text else ""
        thread, _ = self._state.place(chat, message_thread_id, self._state.bot)
        self._state.draft(Draft(chat=chat.id, thread=thread, id=draft_id, text=shown))
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
        link_preview_options: LinkPreview = _PREVIEW,
        reply_markup: Keyboard = _NO_BUTTONS,
    ) -> Json:
        before = self._own(chat_id, message_id, "text")
        more = _text(text, parse_mode, "MESSAGE_TOO_LONG", link_preview_options)
        return self._change(before, buttons=_buttons(reply_markup), **more)

    def edit_message_caption(
        self,
        chat_id: ChatId,
        message_id: int,
        caption: str = "",
        parse_mode: Mode = None,
        reply_markup: Keyboard = _NO_BUTTONS,
    ) -> Json:
        before = self._own(chat_id, message_id, "caption")
        more = _caption(caption, parse_mode)
        return self._change(before, buttons=_buttons(reply_markup), **more)

    def _own(self, chat_id: ChatId, name: int, kind: str) -> Message:
        message = self._state.message(self._state.writable(chat_id), name, "message to edit")
        if message.author != self._state.bot or message.service:
            raise bad("message can't be edited")
        if kind != ("caption" if message.file else "text"):
            raise bad(f"there is no {kind} in the message to edit")
        return message

    def _change(self, before: Message, **more: Any) -> Json:
        after = replace(before, **more)
        if replace(after, preview=before.preview) == before:
            raise bad(_NOT_MODIFIED)
        return objects.message(self._state, self._state.edit(before, after))

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
        chat = self._state.forum(chat_id)
        if not chat.topics_managed:
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
        chat = self._state.forum(chat_id)
        if chat.private:
            raise bad("the chat is not a supergroup forum")
        if (topic := self._state.threads.get((chat.id, message_thread_id))) is None:
            raise bad("TOPIC_ID_INVALID")
        if not chat.topics_managed and topic.by != self._state.bot:
            raise bad("not enough rights to close or open the topic")
        if not topic.closed:
            raise bad("TOPIC_NOT_MODIFIED")
        self._state.threads[chat.id, topic.id] = replace(topic, closed=False)
        return True


# Fields of a message, from parameters


def _text(text: str, mode: Mode, too_long: str, preview: LinkPreview = _PREVIEW) -> dict[str, Any]:
    """1 to 4096 characters after parsing the markup."""
    if not text:
        raise bad("message text is empty")
    formatted = _formatted(text, mode, 4096, too_long)
    if is_empty(formatted["text"]):
        raise bad("text must be non-empty")
    return {**formatted, "preview": not preview.is_disabled}


def _caption(text: str, mode: Mode) -> dict[str, Any]:
    """0 to 1024 characters after parsing the markup."""
    return _formatted(text, mode, 1024, "message caption is too long")


def _formatted(text: str, mode: Mode, limit: int, too_long: str) -> dict[str, Any]:
    plain = cleaned(text)
    formatted = parse_html(plain) if mode else Formatted(plain)
    trimmed = formatted.trimmed()
    if units(trimmed.text) > limit:
        raise bad(too_long)
    return {"text": trimmed.text, "entities": trimmed.entities}


def _buttons(keyboard: Keyboard) -> tuple[Button, ...]:
    rows = keyboard.inline_keyboard
    if sum(map(len, rows)) > 100:
        raise bad("reply markup is too long")
    buttons: list[Button] = []
    for number, row in enumerate(rows):
        buttons += [_button(it, number) for it in row]
    return tuple(buttons)


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


_OTHER = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is "
    "running"
)
_TOKEN = re.compile(r"[0-9]{6,20}:[A-Za-z0-9_-]{30,64}")
_TARGET = re.compile(r"(/file)?/bot([^/]*)/([^?]*)(?:\?.*)?")


class Server(peers.Server[Settings, State]):
    control = Control
    polls = "getUpdates"

    def fresh(self, settings: Settings) -> State:
        return State(settings, int(self.token.partition(":")[0]), self.pulse)

    def receives_updates(self, request: Request) -> bool:
        return "/getUpdates" in request.target

    def farewell(self, request: Request, outage: Outage) -> Response:
        """A poll that returns at once, or one of two at the same time."""
        if outage is Outage.TOO_MANY:
            return Refuse(409, _OTHER).response
        return Response(body=b'{"ok":true,"result":[]}')

    def parse(self, request: Request, record: Record) -> tuple[Effect, str | None]:
        file, name = self._authorized(request)
        methods = Methods(self.state)
        if file:
            record.method = "download"
            record.parameters = {"file_path": name}
            return functools.partial(methods.download, name), None
        record.method = name
        if (method := METHODS.get(name.lower())) is None:
            raise Refuse(404, "Not Found", mistake=True)
        record.method = re.sub(r"_(\w)", lambda it: it[1].upper(), method.__name__)
        if record.method in self.state.settings.missing:
            raise Refuse(404, "Not Found")
        if len(request.body) > LARGEST_FILE + MEGABYTE:
            raise Refuse(413, "Request Entity Too Large")
        arguments = forms.recorded(method, request, record)
        chat = arguments.get("chat_id")
        return functools.partial(method, methods, **arguments), chat and str(chat)

    def _authorized(self, request: Request) -> tuple[bool, str]:
        """Check the token. Return whether this is a file request, and the method or file path."""
        if (match := _TARGET.fullmatch(request.target)) is None:
            raise Refuse(404, "Not Found", mistake=True)
        if _TOKEN.fullmatch(token := urllib.parse.unquote(match[2])) is None:
            raise Refuse(404, "Not Found")
        if token != self.token or self.state.settings.revoked:
            raise Refuse(401, "Unauthorized")
        if request.method not in ("GET", "POST"):
            raise mistake(f"calls are got or posted, not {request.method}")
        return match[1] is not None, urllib.parse.unquote(match[3])

    def envelope(self, result: object) -> object:
        return {"ok": True, "result": result}

    def malformed(self, reason: str) -> Refuse:
        return mistake(reason)


TOKEN = "7000000001:the_token_of_the_bot_for_tests_00001"


class Peer(peers.Peer):
    """A running fake. Pass its `base_url` to python-telegram-bot."""

    @property
    def base_url(self) -> str:
        return f"{self.url}/bot"

    def driver(self) -> Driver:
        """Return a new driver, for use in an `async with`."""
        return Driver(self.obey or self.control)


FAKE = peers.Fake(
    package="tests.fakes.telegram", token=TOKEN, settings=Settings, server=Server, peer=Peer
)
running = FAKE.running
serving = FAKE.serving
