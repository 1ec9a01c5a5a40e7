"""The actions of users, and the updates that they cause.

core.telegram.org/bots/features#privacy-mode says which messages of a group a bot receives;
core.telegram.org/bots/api#update lists the updates.
"""

from __future__ import annotations

import time
from typing import TypeAlias

from msgspec.structs import replace

from segue.testing.telegram import control, objects
from segue.testing.telegram.entities import found
from segue.testing.telegram.errors import bad
from segue.testing.telegram.snapshot import Chat, Kind, Message, Status, User
from segue.testing.telegram.state import State
from segue.testing.telegram.updates import Updates

_GROUPS = (Kind.GROUP, Kind.SUPERGROUP, Kind.FORUM)
_Placed: TypeAlias = tuple[int | None, bool]


class People:
    def __init__(self, state: State, updates: Updates) -> None:
        self._state = state
        self._updates = updates

    # Users and chats

    def set_bot(self, order: control.SetBot) -> None:
        self._state.settings = order.settings
        self._updates.webhook = order.settings.webhook

    def add_user(self, order: control.AddUser) -> int:
        user = User(
            id=self._state.user_id(), name=order.name, username=order.username, bot=order.bot
        )
        self._state.users[user.id] = user
        return user.id

    def add_chat(self, order: control.AddChat) -> int:
        for member in order.members:
            self._state.user(member)
        private = order.kind is Kind.PRIVATE
        if private and len(order.members) != 1:
            raise bad("a private chat is with one person")
        chat = Chat(
            id=order.members[0] if private else self._state.chat_id(order.kind),
            kind=order.kind,
            title=order.title,
            description=order.description,
            members=order.members,
            status=order.status,
            manage_topics=order.manage_topics,
            topics=order.topics,
        )
        self._state.chats[chat.id] = chat
        return chat.id

    def set_rights(self, order: control.SetRights) -> None:
        chat = self._state.chat(order.chat)
        changed = replace(chat, status=order.status, manage_topics=order.manage_topics)
        self._member(order.user, chat, changed)

    def join(self, order: control.Join) -> None:
        """Add the bot. In a group, Telegram also posts a service message that everyone sees."""
        chat = self._state.chat(order.chat)
        out = Status.KICKED if chat.private else Status.LEFT
        self._member(order.user, replace(chat, status=out), chat)
        if chat.kind in _GROUPS:
            newcomers = [objects.user(self._state.me())]
            self._service(chat, order.user, {"new_chat_members": newcomers})

    def _member(self, by: int, before: Chat, after: Chat) -> None:
        """#chatmemberupdated"""
        state = self._state
        state.chats[after.id] = after
        told = [
            objects.member(state, it, it.status, manage_topics=it.manage_topics)
            for it in (before, after)
        ]
        self._updates.add(
            "my_chat_member",
            {
                "chat": objects.chat(state, after),
                "from": objects.user(state.user(by)),
                "date": int(time.time()),
                "old_chat_member": told[0],
                "new_chat_member": told[1],
            },
        )

    def migrate(self, order: control.Migrate) -> int:
        chat = self._state.chat(order.chat)
        if chat.kind is not Kind.GROUP:
            raise bad("only a basic group can be upgraded")
        kind = Kind.FORUM if order.topics else Kind.SUPERGROUP
        after = replace(chat, id=self._state.chat_id(kind), kind=kind)
        self._state.chats[after.id] = after
        self._service(chat, chat.members[0], {"migrate_to_chat_id": after.id})
        self._service(after, chat.members[0], {"migrate_from_chat_id": chat.id})
        self._state.chats[chat.id] = replace(chat, became=after.id)
        return after.id

    # Messages

    def say(self, order: control.Say) -> int:
        chat = self._state.chat(order.chat)
        named = order.thread is not None
        thread, topic = (
            self._state.place(chat, order.thread, order.user)
            if named
            else self._state.beside(chat, order.reply_to)
        )
        hidden = order.anonymous or chat.kind is Kind.CHANNEL
        first = Message(
            chat=chat.id,
            id=self._state.message_id(chat),
            thread=thread,
            topic=topic,
            author=0 if hidden else self._state.user(order.user).id,
            text=order.text,
            entities=found(order.text),
            reply_to=order.reply_to,
            quote=order.quote,
            external=order.external,
            origin=order.origin,
            via_bot=order.via_bot,
        )
        for message in self._with_files(chat, first, order):
            kept = self._state.keep(message)
            if self._hears(chat, kept):
                self._tell(chat, kept)
        return first.id

    def _with_files(self, chat: Chat, first: Message, order: control.Say) -> list[Message]:
        """Make one message per file. Together they are an album, and the first has the caption."""
        uploads, album = order.files, order.album
        if not uploads:
            return [first]
        if len(uploads) > 1 and not album:
            album = str(13_000_000_000 + self._state.number())
        messages: list[Message] = []
        for upload in uploads:
            file = self._state.add_file(upload.kind, upload.name, upload.media_type, upload.content)
            if not messages:
                messages.append(replace(first, file=file, album=album))
            else:
                number = self._state.message_id(chat)
                messages.append(
                    replace(first, id=number, text="", entities=(), file=file, album=album)
                )
        return messages

    def rewrite(self, order: control.Rewrite) -> None:
        chat = self._state.chat(order.chat)
        before = self._state.message(chat, order.message, "message to edit")
        after = self._state.keep(
            replace(
                before,
                text=order.text,
                entities=found(order.text),
                earlier=(*before.earlier, before.text),
                edited=int(time.time()),
                at=time.monotonic(),
            )
        )
        if self._hears(chat, after):
            self._tell(chat, after, "edited_")

    def react(self, order: control.React) -> None:
        """The first reaction arrives as an edit that changes nothing.

        It has no edit date unless the message was really edited before: tdlib/telegram-bot-api
        issues 388 and 773.
        """
        chat = self._state.chat(order.chat)
        message = self._state.message(chat, order.message, "message")
        if self._hears(chat, message):
            self._tell(chat, message, "edited_")

    def press(self, order: control.Press) -> str:
        """#callbackquery; for a message that is too old it contains an #inaccessiblemessage."""
        state = self._state
        chat = state.chat(order.chat)
        message = state.message(chat, order.message, "message")
        button = next((it for it in message.buttons if it.label == order.label), None)
        if button is None or button.data is None:
            raise bad(f"there is no button {order.label!r} to press")
        query = str(4_300_000_000_000_000_000 + state.number())
        state.queries.add(query)
        told = objects.message(state, message)
        if order.old:
            told = {"chat": told["chat"], "message_id": message.id, "date": 0}
        self._updates.add(
            "callback_query",
            {
                "id": query,
                "from": objects.user(state.user(order.user)),
                "message": told,
                "chat_instance": str(-(chat.id**2) % 2**60),
                "data": button.data,
            },
        )
        return query

    def erase(self, order: control.Erase) -> None:
        chat = self._state.chat(order.chat)
        self._state.message(chat, order.message, "message to delete")
        del self._state.messages[chat.id, order.message]

    # Topics

    def open_topic(self, order: control.OpenTopic) -> int:
        chat = self._state.chat(order.chat)
        if not self._state.has_topics(chat):
            raise bad("the chat is not a forum")
        topic = self._state.open_topic(chat, order.name, order.user)
        self._tell(chat, self._state.messages[chat.id, topic.id])
        return topic.id

    def close_topic(self, order: control.CloseTopic) -> None:
        chat = self._state.chat(order.chat)
        topic = self._state.topics[chat.id, order.thread]
        self._state.topics[chat.id, topic.id] = replace(topic, closed=order.closed)
        kind = "forum_topic_closed" if order.closed else "forum_topic_reopened"
        self._service(chat, order.user, {kind: {}}, (topic.id, True))

    def delete_topic(self, order: control.DeleteTopic) -> None:
        chat = self._state.chat(order.chat)
        if (chat.id, order.thread) not in self._state.topics:
            raise bad("there is no such topic")
        self._state.delete_topic(chat, order.thread)
        if order.silently:
            self._state.leaky.add((chat.id, order.thread))

    # Updates to the bot

    def _service(
        self, chat: Chat, author: int, says: dict[str, object], at: _Placed = (None, False)
    ) -> None:
        """Post a service message. Every bot in the chat receives these."""
        thread, topic = at
        message = Message(
            chat=chat.id,
            id=self._state.message_id(chat),
            author=author,
            thread=thread,
            topic=topic,
            service=says,
        )
        self._tell(chat, self._state.keep(message))

    def _tell(self, chat: Chat, message: Message, prefix: str = "") -> None:
        kind = "channel_post" if chat.kind is Kind.CHANNEL else "message"
        self._updates.add(prefix + kind, objects.message(self._state, message))

    def _hears(self, chat: Chat, message: Message) -> bool:
        """Return whether the bot receives what a user writes there."""
        state = self._state
        if chat.status in (Status.LEFT, Status.KICKED):
            return False
        if chat.kind not in _GROUPS:
            return True
        if state.settings.reads_all or chat.status is Status.ADMINISTRATOR:
            return True
        replied = state.messages.get((chat.id, message.reply_to or 0))
        if replied is not None and replied.author == state.bot:
            return True
        return any(self._means_it(it.type, it.of(message.text)) for it in message.entities)

    def _means_it(self, kind: str, said: str) -> bool:
        """Return whether an entity mentions this bot, or is a command that is not for another
        bot."""
        at = f"@{self._state.settings.username}".lower()
        if kind == "mention":
            return said.lower() == at
        return kind == "bot_command" and ("@" not in said or said.lower().endswith(at))
