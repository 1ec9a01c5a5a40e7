"""The actions of users, and the updates that they cause.

core.telegram.org/bots/features#privacy-mode says which messages of a group a bot receives;
core.telegram.org/bots/api#update lists the updates.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from segue.testing import peers
from segue.testing.peers import Status, Upload, User
from segue.testing.telegram import objects
from segue.testing.telegram.errors import bad
from segue.testing.telegram.markup import Entity, found
from segue.testing.telegram.snapshot import Chat, Kind, Message, Settings
from segue.testing.telegram.state import State

_GROUPS = (Kind.GROUP, Kind.SUPERGROUP, Kind.FORUM)


class Control(peers.Control[State]):
    # Users and chats

    def bot(self, settings: Settings) -> None:
        """Change the settings of the bot and the server from now on."""
        self.state.settings = settings
        self.state.webhook = settings.webhook

    def user(self, name: str, *, username: str = "", bot: bool = False) -> int:
        """Add a user and return their id."""
        user = User(
            id=self.state.number("user", 5_000_000_001), name=name, username=username, bot=bot
        )
        self.state.users[user.id] = user
        return user.id

    def private(self, user: int, *, topics: bool | None = None) -> int:
        """Start the private chat with that user and return its id, which is the user's.

        It has topics if the bot does, unless `topics` says otherwise.
        """
        chat = Chat(id=self.state.user(user).id, kind=Kind.PRIVATE, members=(user,), topics=topics)
        self.state.chats[user] = chat
        return user

    def chat(
        self,
        kind: Kind,
        members: Sequence[int],
        *,
        title: str = "Team",
        admin: bool = False,
        manage_topics: bool = False,
    ) -> int:
        """Add a chat with these members, the first of whom owns it, and the bot. Return its id."""
        chat = Chat(
            id=self.state.chat_id(kind),
            kind=kind,
            members=tuple(self.state.user(member).id for member in members),
            title=title,
            status=Status.ADMINISTRATOR if admin or manage_topics else Status.MEMBER,
            manage_topics=manage_topics,
        )
        self.state.chats[chat.id] = chat
        return chat.id

    def rights(self, user: int, chat: int, status: Status, *, manage_topics: bool = False) -> None:
        """Set the bot's status; the bot gets an update. KICKED in a private chat means blocked."""
        before = self.state.chat(chat)
        self._member(user, before, replace(before, status=status, manage_topics=manage_topics))

    def join(self, user: int, chat: int) -> None:
        """Add the bot to the chat, or restart the private chat. The bot gets an update.

        In a group, Telegram also posts a service message that everyone sees.
        """
        after = self.state.chat(chat)
        out = Status.KICKED if after.private else Status.LEFT
        self._member(user, replace(after, status=out), after)
        if after.kind in _GROUPS:
            newcomer = objects.user(self.state.user(self.state.bot))
            self._service(after, user, {"new_chat_members": [newcomer]})

    def _member(self, by: int, before: Chat, after: Chat) -> None:
        """#chatmemberupdated"""
        state = self.state
        state.chats[after.id] = after
        update = {
            "chat": objects.chat(state, after),
            "from": objects.user(state.user(by)),
            "date": int(time.time()),
            "old_chat_member": objects.member(state, before),
            "new_chat_member": objects.member(state, after),
        }
        state.tell("my_chat_member", update)

    def migrate(self, chat: int, *, topics: bool = False) -> int:
        """Upgrade the group, as enabling topics does, and return the supergroup's id."""
        before = self.state.chat(chat)
        if before.kind is not Kind.GROUP:
            raise bad("only a basic group can be upgraded")
        kind = Kind.FORUM if topics else Kind.SUPERGROUP
        after = replace(before, id=self.state.chat_id(kind), kind=kind)
        self.state.chats[after.id] = after
        self._service(before, before.members[0], {"migrate_to_chat_id": after.id})
        self._service(after, before.members[0], {"migrate_from_chat_id": before.id})
        self.state.chats[before.id] = replace(before, became=after.id)
        return after.id

    # Messages

    def say(
        self,
        user: int,
        chat: int,
        text: str,
        *,
        thread: int | None = None,
        reply_to: int | None = None,
        files: Sequence[Upload] = (),
        album: str = "",
        anonymous: bool = False,
        forwarded_from: int | None = None,
    ) -> int:
        """Send a message and return its id.

        With a file, the text is its caption. Several files become several messages of one album: a
        new one, or `album`. Text that starts with / is marked as a command. In a channel the
        message is a post. An `anonymous` administrator appears as the group itself.
        `forwarded_from` is the user who wrote the message first.
        """
        state, at = self.state, self.state.chat(chat)
        named = thread is not None
        place = state.place(at, thread, user) if named else state.beside(at, reply_to)
        hidden = anonymous or at.kind is Kind.CHANNEL
        if len(files) > 1 and not album:
            album = str(state.number("album", 13_000_000_001))
        more: dict[str, object] = {"media_group_id": album} if album else {}
        if forwarded_from is not None:
            more |= objects.forward(state.user(forwarded_from), int(time.time()))
        first = Message(
            chat=chat,
            id=state.message_id(at),
            thread=place[0],
            topic=place[1],
            author=0 if hidden else state.user(user).id,
            text=text,
            entities=found(text),
            reply_to=reply_to,
            more=more,
        )
        messages = [replace(first, file=state.store(upload)) for upload in files] or [first]
        for number, message in enumerate(messages):
            if number > 0:
                message = replace(message, id=state.message_id(at), text="", entities=())
            self._tell(state.keep(message))
        return first.id

    def edit(self, chat: int, message: int, text: str) -> None:
        """Edit a user's message."""
        before = self.state.message(self.state.chat(chat), message, "message to edit")
        after = replace(before, text=text, entities=found(text))
        self._tell(self.state.edit(before, after), "edited_")

    def react(self, chat: int, message: int) -> None:
        """React with an emoji, which arrives as an edit that changes nothing.

        It has no edit date unless the message was really edited before: tdlib/telegram-bot-api
        issues 388 and 773.
        """
        self._tell(self.state.message(self.state.chat(chat), message, "message"), "edited_")

    def press(self, user: int, chat: int, message: int, label: str, *, old: bool = False) -> str:
        """Press the button with that label and return the id of the query: #callbackquery.

        If `old`, the bot can no longer access the message: #inaccessiblemessage.
        """
        state = self.state
        found = state.message(state.chat(chat), message, "message")
        button = next((it for it in found.buttons if it.label == label), None)
        if button is None:
            raise bad(f"there is no button {label!r} to press")
        query = str(state.number("query", 4_300_000_000_000_000_001))
        state.presses.add(query)
        at = objects.message(state, found)
        update = {
            "id": query,
            "from": objects.user(state.user(user)),
            "message": {"chat": at["chat"], "message_id": message, "date": 0} if old else at,
            "chat_instance": str(-(chat**2) % 2**60),
            "data": button.data,
        }
        state.tell("callback_query", update)
        return query

    # Topics

    def open_topic(self, user: int, chat: int, name: str) -> int:
        """Open a topic and return its thread id."""
        at = self.state.chat(chat)
        if not self.state.has_topics(at):
            raise bad("the chat is not a forum")
        topic = self.state.open_topic(at, name, user)
        self._tell(self.state.messages[chat, topic.id])
        return topic.id

    def close_topic(self, user: int, chat: int, thread: int, *, closed: bool = True) -> None:
        """Close or reopen a topic."""
        topic = self.state.threads[chat, thread]
        self.state.threads[chat, thread] = replace(topic, closed=closed)
        kind = "forum_topic_closed" if closed else "forum_topic_reopened"
        self._service(self.state.chat(chat), user, {kind: {}}, thread)

    def delete_topic(self, chat: int, thread: int, *, silently: bool = False) -> None:
        """Delete a topic and everything in it. The bot gets no update.

        If `silently`, later messages to the topic go to the main chat, as they did for some weeks
        in 2026.
        """
        state, topic = self.state, (chat, thread)
        if state.threads.pop(topic, None) is None:
            raise bad("there is no such topic")
        for it in [it for it in state.messages.values() if (it.chat, it.thread) == topic]:
            del state.messages[chat, it.id]
        if silently:
            state.leaky.add(topic)

    # Updates to the bot

    def inject(self, frames: Sequence[str]) -> None:
        """Deliver these frames as updates without checking them.

        Each gets an update id, as Telegram always sends one. A frame that is not a JSON object is
        delivered in place of a message.
        """
        for frame in frames:
            try:
                update: Any = json.loads(frame)
            except (ValueError, RecursionError):
                update = frame
            if not isinstance(update, dict):
                update = {"message": update}
            self.state.tell_raw(cast("dict[str, object]", update))

    def deliver(self, frame: str) -> None:
        """Deliver an update exactly as given, JSON or not. `{id}` is replaced by its id."""
        self.state.updates.add(lambda number: frame.replace("{id}", str(number)))

    def repeat(self, last: int = 1) -> None:
        """Deliver the last updates again, under the same ids."""
        updates = self.state.updates
        updates.waiting += (dataclasses.replace(it, once=True) for it in updates.last(last))

    def _service(
        self, chat: Chat, by: int, more: Mapping[str, object], topic: int | None = None
    ) -> None:
        self._tell(self.state.service(chat, by, more, topic))

    def _tell(self, message: Message, prefix: str = "") -> None:
        """Queue an update about the message, if the bot receives it."""
        chat = self.state.chats[message.chat]
        if message.service or self._hears(chat, message):
            kind = "channel_post" if chat.kind is Kind.CHANNEL else "message"
            self.state.tell(prefix + kind, objects.message(self.state, message))

    def _hears(self, chat: Chat, message: Message) -> bool:
        """Return whether the bot receives what a user writes there."""
        state = self.state
        if chat.status in (Status.LEFT, Status.KICKED):
            return False
        if chat.kind not in _GROUPS:
            return True
        if state.settings.reads_all or chat.status is Status.ADMINISTRATOR:
            return True
        replied = state.messages.get((chat.id, message.reply_to or 0))
        if replied is not None and replied.author == state.bot:
            return True
        return any(self._means_it(it, it.of(message.text)) for it in message.entities)

    def _means_it(self, entity: Entity, said: str) -> bool:
        """Return whether it mentions this bot, or is a command that is not for another bot."""
        at = f"@{self.state.settings.username}"
        if entity.type == "mention":
            return said.lower() == at
        return entity.type == "bot_command" and ("@" not in said or said.lower().endswith(at))
