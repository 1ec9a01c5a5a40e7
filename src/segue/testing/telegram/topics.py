"""Topics: core.telegram.org/bots/api#createforumtopic and the methods after it.

In forums the bot must be an administrator with `can_manage_topics`. In private chats it needs
threaded mode (since Bot API 9.4). The error texts are from `ForumTopicManager` in tdlib/td; those
in capitals come from the servers behind it.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from segue.testing.telegram import wire
from segue.testing.telegram.entities import cleaned, is_empty, units
from segue.testing.telegram.errors import Malformed, bad
from segue.testing.telegram.objects import Json
from segue.testing.telegram.snapshot import Chat, Status, Topic
from segue.testing.telegram.state import State

_NAME_LIMIT = 128
_COLORS = frozenset({7322096, 16766590, 13338331, 9367192, 16749490, 16478047})


class Topics:
    def __init__(self, state: State) -> None:
        self._state = state

    def create(self, call: wire.CreateForumTopic) -> Json:
        chat = self._forum(call.chat_id)
        if not _manages(chat):
            raise bad("not enough rights to create a topic")
        if call.icon_color is not None and call.icon_color not in _COLORS:
            raise bad("invalid icon color specified")
        topic = self._state.open_topic(chat, _name(call.name), self._state.bot)
        return {"message_thread_id": topic.id, "name": topic.name, "icon_color": 7322096}

    def edit(self, call: wire.EditForumTopic) -> bool:
        topic = self._editable(self._forum(call.chat_id), call.message_thread_id, "edit")
        if not call.name:
            return True
        if (name := _name(call.name)) == topic.name:
            raise bad("TOPIC_NOT_MODIFIED")
        self._keep(replace(topic, name=name))
        return True

    def close(self, call: wire.CloseForumTopic) -> bool:
        return self._set_closed(call, closed=True)

    def reopen(self, call: wire.ReopenForumTopic) -> bool:
        return self._set_closed(call, closed=False)

    def _set_closed(
        self, call: wire.CloseForumTopic | wire.ReopenForumTopic, *, closed: bool
    ) -> bool:
        chat = self._forum(call.chat_id)
        if chat.private:
            raise bad("the chat is not a supergroup forum")
        topic = self._editable(chat, call.message_thread_id, "close or open")
        if topic.closed == closed:
            raise bad("TOPIC_NOT_MODIFIED")
        self._keep(replace(topic, closed=closed))
        return True

    def delete(self, call: wire.DeleteForumTopic) -> bool:
        chat = self._forum(call.chat_id)
        topic = self._editable(chat, call.message_thread_id, "delete")
        self._state.delete_topic(chat, topic.id)
        return True

    def _forum(self, chat_id: wire.ChatId) -> Chat:
        chat = self._state.writable(chat_id)
        if not self._state.has_topics(chat):
            raise bad("the chat is not a forum")
        return chat

    def _editable(self, chat: Chat, name: int, purpose: str) -> Topic:
        """A topic that the bot may edit. It may always edit the topics that it opened."""
        topic = self._topic(chat, name)
        if not _manages(chat) and topic.by != self._state.bot:
            raise bad(f"not enough rights to {purpose} the topic")
        return topic

    def _topic(self, chat: Chat, name: int) -> Topic:
        if (topic := self._state.topics.get((chat.id, name))) is None:
            raise bad("TOPIC_ID_INVALID")
        return topic

    def _keep(self, topic: Topic) -> None:
        self._state.topics[topic.chat, topic.id] = topic


def _manages(chat: Chat) -> bool:
    return chat.private or (chat.status is Status.ADMINISTRATOR and chat.manage_topics)


def _name(text: str) -> str:
    """1 to 128 characters. Telegram truncates longer names; here they are an error of the bot."""
    if units(text) > _NAME_LIMIT:
        raise Malformed(f"the name of a topic has more than {_NAME_LIMIT} characters")
    name = re.sub(r"[ \n\xa0]+", " ", cleaned(text)).strip()
    if is_empty(name):
        raise bad("name must be non-empty")
    return name
