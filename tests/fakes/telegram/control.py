"""The actions of users, and the updates that they cause.

core.telegram.org/bots/features#privacy-mode says which messages of a group a bot receives;
core.telegram.org/bots/api#update lists the updates.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace

from segue.testing import peers
from segue.testing.peers import Action, Status, Upload, User
from tests.fakes.telegram import objects
from tests.fakes.telegram.markup import found
from tests.fakes.telegram.state import Chat, Kind, Message, Settings, Shown, State, Topic, bad


class Control(peers.Control[State]):
    def bot(self, settings: Settings) -> None:
        """Change the settings of the bot and the server from now on."""
        self.state.settings = settings

    def user(self, name: str, *, username: str = "", bot: bool = False) -> int:
        """Add a user and return their id."""
        number = self.state.number("user", 5_000_000_001)
        self.state.users[number] = User(id=number, name=name, username=username, bot=bot)
        return number

    def private(self, user: int, *, topics: bool | None = None) -> int:
        """Start the private chat with that user and return its id, which is the user's. It has
        topics if the bot does, unless `topics` says otherwise."""
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
        users = tuple(self.state.user(member).id for member in members)
        chat = Chat(id=self.state.chat_id(kind), kind=kind, members=users, title=title)
        status = Status.ADMINISTRATOR if admin or manage_topics else Status.MEMBER
        self.state.chats[chat.id] = replace(chat, status=status, manage_topics=manage_topics)
        return chat.id

    def rights(self, user: int, chat: int, status: Status, *, manage_topics: bool = False) -> None:
        """Set the bot's status; the bot gets an update. KICKED in a private chat means blocked."""
        before = self.state.chat(chat)
        self._member(user, before, replace(before, status=status, manage_topics=manage_topics))

    def publish(self, chat: int, username: str) -> None:
        """Give a group a public name."""
        self.state.chats[chat] = replace(self.state.chat(chat), username=username)

    def hide_members(self, chat: int) -> None:
        """Show the members of a group to its administrators only."""
        self.state.chats[chat] = replace(self.state.chat(chat), hides_members=True)

    def join(self, user: int, chat: int) -> None:
        """Add the bot to the chat, or restart the private chat. The bot gets an update. In a group,
        Telegram also posts a service message that everyone sees."""
        after = self.state.chat(chat)
        out = Status.KICKED if after.private else Status.LEFT
        self._member(user, replace(after, status=out), after)
        if not after.private:
            newcomer = objects.user(self.state.user(self.state.bot))
            self._tell(self.state.service(after, user, {"new_chat_members": [newcomer]}))

    def _member(self, by: int, before: Chat, after: Chat) -> None:
        """#chatmemberupdated"""
        state = self.state
        state.chats[after.id] = after
        who = {"chat": objects.chat(state, after), "from": objects.user(state.user(by))}
        old = objects.member(state, before)
        new = objects.member(state, after)
        change = {"date": int(time.time()), "old_chat_member": old, "new_chat_member": new}
        state.tell("my_chat_member", {**who, **change})

    def migrate(self, chat: int, *, topics: bool = False) -> int:
        """Upgrade the group, as enabling topics does, and return the supergroup's id."""
        before = self.state.chat(chat)
        if before.kind is not Kind.GROUP:
            raise bad("only a basic group can be upgraded")
        kind = Kind.FORUM if topics else Kind.SUPERGROUP
        after = replace(before, id=self.state.chat_id(kind), kind=kind)
        self.state.chats[after.id] = after
        owner = before.members[0]
        service = self.state.service
        self._tell(service(before, owner, {"migrate_to_chat_id": after.id}))
        self._tell(service(after, owner, {"migrate_from_chat_id": before.id}))
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
        forwarded_from: int | None = None,
    ) -> int:
        """Send a message and return its id. With a file, the text is its caption. Several files
        become several messages of one album: a new one, or `album`. Text that starts with / is
        marked as a command. `forwarded_from` is the user who wrote the message first."""
        state = self.state
        at = self.state.chat(chat)
        place = state.beside(at, reply_to) if thread is None else state.place(at, thread, user)
        if len(files) > 1 and not album:
            album = str(state.number("album", 13_000_000_001))
        more: dict[str, object] = {"media_group_id": album} if album else {}
        if forwarded_from is not None:
            more |= objects.forward(state.user(forwarded_from), int(time.time()))
        author = state.user(user).id
        base = Message(chat=chat, id=0, author=author, reply_to=reply_to, more=more)
        base = replace(base, thread=place[0], topic=place[1])
        ids: list[int] = []
        for sent in [(state.store(upload),) for upload in files] or [()]:
            said = "" if ids else text
            ids.append(state.message_id(at))
            message = replace(base, id=ids[-1], text=said, entities=found(said), files=sent)
            self._tell(state.put(message))
        return ids[0]

    def edit(self, chat: int, message: int, text: str) -> None:
        """Edit a user's message."""
        before = self.state.message(self.state.chat(chat), message, "message to edit")
        after = replace(before, text=text, entities=found(text))
        self._tell(self.state.edit(before, after), "edited_message")

    def press(self, user: int, chat: int, message: int, label: str) -> str:
        """Press the button with that label and return the id of the query: #callbackquery."""
        state = self.state
        found = state.message(state.chat(chat), message, "message")
        query = str(state.number("query", 4_300_000_000_000_000_001))
        if (button := state.press(found, label, query)) is None:
            raise bad(f"there is no button {label!r} to press")
        who = {"id": query, "from": objects.user(state.user(user)), "data": button.data}
        at = {"message": objects.message(state, found), "chat_instance": str(-(chat**2) % 2**60)}
        state.tell("callback_query", {**who, **at})
        return query

    # Topics

    def open_topic(self, user: int, chat: int, name: str) -> int:
        """Open a topic and return its thread id."""
        topic = self.state.open_topic(self.state.forum(chat), name, user)
        self._tell(self.state.messages[chat, topic.id])
        return topic.id

    def close_topic(self, user: int, chat: int, thread: int) -> None:
        state = self.state
        state.threads[chat, thread] = replace(state.threads[chat, thread], closed=True)
        self._tell(state.service(state.chat(chat), user, {"forum_topic_closed": {}}, thread))

    def delete_topic(self, chat: int, thread: int, *, silently: bool = False) -> None:
        """Delete a topic and its messages. The bot gets no update. If `silently`, later messages to
        the topic go to the main chat, as they did for some weeks in 2026."""
        if not self.state.delete_thread(chat, thread):
            raise bad("there is no such topic")
        if silently:
            self.state.leaky.add((chat, thread))

    # Updates to the bot

    def inject(self, frames: Sequence[str]) -> None:
        """Deliver these frames as updates, unchecked. Each gets an id: Telegram always sends one. A
        frame that is not a JSON object is delivered in place of a message."""
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
        self.state.updates.repeat_numbers(last)

    def _tell(self, message: Message, kind: str = "message") -> None:
        """Queue an update about the message, if the bot receives it."""
        if message.service or self._hears(self.state.chats[message.chat], message):
            self.state.tell(kind, objects.message(self.state, message))

    def _hears(self, chat: Chat, message: Message) -> bool:
        """Return whether the bot receives what a user writes there."""
        state = self.state
        if chat.status in (Status.LEFT, Status.KICKED):
            return False
        if chat.private or state.settings.reads_all or chat.status is Status.ADMINISTRATOR:
            return True
        replied = state.messages.get((chat.id, message.reply_to or 0))
        if replied is not None and replied.author == state.bot:
            return True
        # A mention of this bot, or a command that is not for another bot.
        at = f"@{state.settings.username}"
        said = [(it.type, it.of(message.text).lower()) for it in message.entities]
        commands = [text for kind, text in said if kind == "bot_command"]
        return ("mention", at) in said or any("@" not in it or it.endswith(at) for it in commands)


class Driver(peers.Driver[Settings, int, Message, Topic, Shown]):
    """Acts for the users. A message is identified by its chat and its id, because two supergroups
    can have messages with the same id."""

    snapshot = Shown

    bot = Action(Control.bot)
    user = Action(Control.user)
    private = Action(Control.private)
    chat = Action(Control.chat)
    rights = Action(Control.rights)
    publish = Action(Control.publish)
    hide_members = Action(Control.hide_members)
    join = Action(Control.join)
    migrate = Action(Control.migrate)
    say = Action(Control.say)
    edit = Action(Control.edit)
    press = Action(Control.press)
    open_topic = Action(Control.open_topic)
    close_topic = Action(Control.close_topic)
    delete_topic = Action(Control.delete_topic)
    deliver = Action(Control.deliver)
