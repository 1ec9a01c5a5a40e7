"""Methods that send and edit messages.

core.telegram.org/bots/api#sendmessage and the methods after it, and #updating-messages. Size limits
are documented at #sending-files. The error texts for files that are too large, and for invalid
images, are as reported by bots.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from msgspec.structs import replace

from segue.testing.peers.limits import Meter, Pace
from segue.testing.telegram import objects, texts, wire
from segue.testing.telegram.entities import Formatted
from segue.testing.telegram.errors import NOT_MODIFIED, Malformed, Refuse, bad, too_often
from segue.testing.telegram.objects import Json
from segue.testing.telegram.requests import Sent, attached
from segue.testing.telegram.snapshot import Answered, Chat, Draft, File, FileKind, Message, Status
from segue.testing.telegram.state import State

_LARGEST_FILE = 50 * 1024 * 1024
_LARGEST_PHOTO = 10 * 1024 * 1024
_ANSWER_LIMIT = 200
_IMAGES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM")
_REACTIONS = frozenset(
    (
        *"❤👍👎🔥🥰👏😁🤔🤯😱🤬😢🎉🤩🤮💩🙏👌🕊🤡🥱🥴😍🐳🌚🌭💯🤣⚡🍌🏆💔🤨😐🍓",
        *"🍾💋🖕😈😴😭🤓👻👀🎃🙈😇😨🤝✍🤗🫡🎅🎄☃💅🤪🗿🆒💘🙉🦄😘💊🙊😎👾🤷😡",
        *("❤\u200d🔥", "👨\u200d💻", "🤷\u200d♂", "🤷\u200d♀"),
    )
)
"""#reactiontypeemoji"""


class Sending:
    def __init__(self, state: State) -> None:
        self._state = state
        self._meter = Meter()

    # New messages

    def message(self, call: wire.SendMessage) -> Json:
        chat = self._state.writable(call.chat_id)
        formatted = texts.message_text(
            call.text, call.parse_mode, call.entities, too_long="message is too long"
        )
        return self._post(chat, call, formatted, source=call.text)

    def document(self, call: wire.SendDocument, files: Mapping[str, Sent]) -> Json:
        return self._file(call, FileKind.DOCUMENT, call.document, files)

    def photo(self, call: wire.SendPhoto, files: Mapping[str, Sent]) -> Json:
        return self._file(call, FileKind.PHOTO, call.photo, files)

    def _file(
        self,
        call: wire.SendDocument | wire.SendPhoto,
        kind: FileKind,
        value: str,
        files: Mapping[str, Sent],
    ) -> Json:
        chat = self._state.writable(call.chat_id)
        sent = attached(value, files)
        if sent is not None:
            _check(kind, sent)
        formatted = texts.caption(call.caption, call.parse_mode, call.caption_entities)
        if sent is None:
            file, _ = self._state.file(value)
        else:
            file = self._state.add_file(kind, sent.name, sent.media_type, sent.content)
        return self._post(chat, call, formatted, source=call.caption, file=file)

    def _post(
        self,
        chat: Chat,
        call: wire.SendMessage | wire.SendDocument | wire.SendPhoto,
        formatted: Formatted,
        *,
        source: str,
        file: File | None = None,
    ) -> Json:
        buttons = texts.buttons(call.reply_markup)
        reply_to = self._reply(chat, call.reply_parameters)
        thread, topic = self._state.place(chat, call.message_thread_id, self._state.bot)
        if thread is None and reply_to is not None:
            thread, topic = self._state.beside(chat, reply_to)
        self._pace(chat)
        options = call.link_preview_options if isinstance(call, wire.SendMessage) else None
        message = Message(
            chat=chat.id,
            id=self._state.message_id(chat),
            thread=thread,
            topic=topic,
            author=self._state.bot,
            text=formatted.text,
            entities=formatted.entities,
            source=source,
            buttons=buttons,
            file=file,
            reply_to=reply_to,
            preview=options is None or not options.is_disabled,
            quiet=call.disable_notification,
        )
        self._state.drafts.pop((chat.id, thread), None)
        return objects.message(self._state, self._state.keep(message))

    def _reply(self, chat: Chat, to: wire.ReplyTo | None) -> int | None:
        if to is None:
            return None
        if to.chat_id not in (None, chat.id, str(chat.id)):
            raise Malformed("replies across chats are not known here")
        if (chat.id, to.message_id) in self._state.messages:
            return to.message_id
        if not to.allow_sending_without_reply:
            raise bad("message to be replied not found")
        return None

    def _pace(self, chat: Chat) -> None:
        """core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this"""
        settings = self._state.settings
        paces: list[Pace] = []
        if settings.chat_seconds:
            paces.append(Pace(f"chat {chat.id}", settings.chat_seconds, 5))
        if settings.per_second:
            paces.append(Pace("bot", 1 / settings.per_second, max(round(settings.per_second), 1)))
        if paces and (wait := self._meter.wait(*paces)) > 0:
            raise too_often(max(math.ceil(wait), 1))

    # Short-lived state

    def draft(self, call: wire.SendMessageDraft) -> bool:
        """#sendmessagedraft; many users report TEXTDRAFT_PEER_INVALID, as in nullclaw issue 626."""
        chat = self._state.writable(call.chat_id)
        if not chat.private:
            raise bad("TEXTDRAFT_PEER_INVALID")
        if call.draft_id == 0:
            raise Malformed("draft_id must be non-zero")
        text = call.text
        if text:
            text = texts.message_text(
                text, call.parse_mode, call.entities, too_long="message is too long"
            ).text
        thread, _ = self._state.place(chat, call.message_thread_id, self._state.bot)
        before = self._state.drafts.get((chat.id, thread))
        times = before.times + 1 if before is not None and before.id == call.draft_id else 1
        self._state.drafts[chat.id, thread] = Draft(
            chat=chat.id, thread=thread, id=call.draft_id, text=text, times=times
        )
        return True

    def action(self, call: wire.SendChatAction) -> bool:
        """A deleted topic is not an error: tdlib/telegram-bot-api issue 732."""
        chat = self._state.writable(call.chat_id)
        self._state.typing[chat.id, call.message_thread_id, call.action] += 1
        return True

    # Sent messages

    def edit_text(self, call: wire.EditMessageText) -> Json:
        before = self._own(call.chat_id, call.message_id)
        if before.file is not None:
            raise bad("there is no text in the message to edit")
        formatted = texts.message_text(
            call.text, call.parse_mode, call.entities, too_long="MESSAGE_TOO_LONG"
        )
        after = _rewritten(before, formatted, call.text, call.reply_markup)
        options = call.link_preview_options
        preview = options is None or not options.is_disabled
        return self._change(before, replace(after, preview=preview))

    def edit_caption(self, call: wire.EditMessageCaption) -> Json:
        before = self._own(call.chat_id, call.message_id)
        if before.file is None:
            raise bad("there is no caption in the message to edit")
        formatted = texts.caption(call.caption, call.parse_mode, call.caption_entities)
        after = _rewritten(before, formatted, call.caption, call.reply_markup)
        return self._change(before, after)

    def edit_markup(self, call: wire.EditMessageReplyMarkup) -> Json:
        before = self._own(call.chat_id, call.message_id)
        return self._change(before, replace(before, buttons=texts.buttons(call.reply_markup)))

    def _own(self, chat_id: wire.ChatId, message_id: int) -> Message:
        chat = self._state.writable(chat_id)
        message = self._state.message(chat, message_id, "message to edit")
        if message.author != self._state.bot or message.service is not None:
            raise bad("message can't be edited")
        return message

    def _change(self, before: Message, after: Message) -> Json:
        if (before.text, before.entities, before.buttons) == (
            after.text,
            after.entities,
            after.buttons,
        ):
            raise bad(NOT_MODIFIED)
        changed = replace(
            after,
            earlier=(*before.earlier, before.text),
            edited=int(time.time()),
            at=time.monotonic(),
        )
        return objects.message(self._state, self._state.keep(changed))

    def delete(self, call: wire.DeleteMessage) -> bool:
        """#deletemessage says which messages a bot can delete."""
        chat = self._state.writable(call.chat_id)
        message = self._state.message(chat, call.message_id, "message to delete")
        own = message.author == self._state.bot
        may = own or chat.private or chat.status is Status.ADMINISTRATOR
        if not may or (message.service and "forum_topic_created" in message.service):
            raise bad("message can't be deleted")
        del self._state.messages[chat.id, message.id]
        return True

    def react(self, call: wire.SetMessageReaction) -> bool:
        chat = self._state.writable(call.chat_id)
        message = self._state.message(chat, call.message_id, "message to react")
        if len(call.reaction) > 1:
            raise bad("REACTIONS_TOO_MANY")
        if not all(it.emoji in _REACTIONS for it in call.reaction):
            raise bad("REACTION_INVALID")
        self._state.keep(replace(message, reactions=tuple(it.emoji for it in call.reaction)))
        return True

    def answer(self, call: wire.AnswerCallbackQuery) -> bool:
        if call.callback_query_id not in self._state.queries:
            raise bad("query is too old and response timeout expired or query ID is invalid")
        if len(call.text) > _ANSWER_LIMIT:
            raise bad("MESSAGE_TOO_LONG")
        self._state.answered.append(
            Answered(query=call.callback_query_id, text=call.text, alert=call.show_alert)
        )
        return True


def _rewritten(
    before: Message, formatted: Formatted, source: str, markup: wire.InlineKeyboard | None
) -> Message:
    return replace(
        before,
        text=formatted.text,
        entities=formatted.entities,
        source=source,
        buttons=texts.buttons(markup),
    )


def _check(kind: FileKind, sent: Sent) -> None:
    """#sending-files"""
    size = len(sent.content)
    if not size:
        raise bad("file must be non-empty")
    if size > _LARGEST_FILE:
        raise Refuse(413, "Request Entity Too Large")
    if kind is not FileKind.PHOTO:
        return
    if size > _LARGEST_PHOTO:
        raise bad(
            f"file of size {size} bytes is too big for a photo; the maximum size is "
            f"{_LARGEST_PHOTO} bytes"
        )
    if not sent.content.startswith(_IMAGES):
        raise bad("IMAGE_PROCESS_FAILED")
