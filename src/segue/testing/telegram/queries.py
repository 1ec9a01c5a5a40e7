"""Methods that query the bot, its chats and its files, and that set its commands."""

from __future__ import annotations

import re

from segue.testing.telegram import objects, wire
from segue.testing.telegram.errors import Malformed, Refuse, bad
from segue.testing.telegram.objects import Json
from segue.testing.telegram.snapshot import Chat, FileKind, Menu, Status
from segue.testing.telegram.state import State
from segue.testing.telegram.updates import Updates

LARGEST_DOWNLOAD = 20 * 1024 * 1024
"""#getfile"""
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")
_DESCRIPTION_LIMIT = 256
_COMMANDS = 100
_FOLDERS = {FileKind.PHOTO: "photos", FileKind.VOICE: "voice"}


class Asking:
    def __init__(self, state: State, updates: Updates) -> None:
        self._state = state
        self._updates = updates

    # The bot

    def me(self, _: wire.GetMe) -> Json:
        return objects.me(self._state)

    def webhook(self, _: wire.GetWebhookInfo) -> Json:
        """#webhookinfo"""
        return {
            "url": self._updates.webhook,
            "has_custom_certificate": False,
            "pending_update_count": self._updates.unconfirmed,
        }

    def delete_webhook(self, call: wire.DeleteWebhook) -> bool:
        self._updates.webhook = ""
        if call.drop_pending_updates:
            self._updates.drop()
        return True

    # Chats

    def chat(self, call: wire.GetChat) -> Json:
        return objects.full_chat(self._state, self._readable(call.chat_id))

    def member(self, call: wire.GetChatMember) -> Json:
        chat = self._readable(call.chat_id)
        if call.user_id == self._state.bot:
            return self._bot(chat)
        if call.user_id not in self._state.users:
            raise bad("user not found")
        if call.user_id not in chat.members:
            user = objects.user(self._state.users[call.user_id])
            return {"user": user, "status": Status.LEFT.value}
        return self._person(chat, call.user_id)

    def administrators(self, call: wire.GetChatAdministrators) -> list[Json]:
        chat = self._readable(call.chat_id)
        if chat.private:
            raise bad("there are no administrators in the private chat")
        owner = [self._person(chat, name) for name in chat.members[:1]]
        return [*owner, self._bot(chat)] if chat.status is Status.ADMINISTRATOR else owner

    def count(self, call: wire.GetChatMemberCount) -> int:
        return len(self._readable(call.chat_id).members) + 1

    def _readable(self, chat_id: wire.ChatId) -> Chat:
        chat = self._state.chat(chat_id)
        # A private chat, and a group that was upgraded, can still be read.
        if chat.private or chat.became is not None:
            return chat
        return self._state.writable(chat_id)

    def _bot(self, chat: Chat) -> Json:
        return objects.member(self._state, chat, chat.status, manage_topics=chat.manage_topics)

    def _person(self, chat: Chat, name: int) -> Json:
        """A user as #chatmember. The first member owns the chat."""
        user = objects.user(self._state.users[name])
        if not chat.private and name == chat.members[0]:
            return {"user": user, "status": "creator", "is_anonymous": False}
        return {"user": user, "status": Status.MEMBER.value}

    # Files

    def file(self, call: wire.GetFile) -> Json:
        """#getfile; a bot can download at most 20 MB."""
        file, content = self._state.file(call.file_id)
        if len(content) > LARGEST_DOWNLOAD:
            raise bad("file is too big")
        return {
            "file_id": call.file_id,
            "file_unique_id": f"u{file.id[-5:]}",
            "file_size": len(content),
            "file_path": self._path(call.file_id),
        }

    def content(self, path: str) -> bytes:
        """The content at a `file_path`: #file"""
        for name, (_, content) in self._state.files.items():
            if self._path(name) == path:
                return content
        raise Refuse(404, "Not Found")

    def _path(self, name: str) -> str:
        file, _ = self._state.files[name]
        _, dot, ending = file.name.rpartition(".")
        folder = _FOLDERS.get(file.kind, "documents")
        number = name.removeprefix("BQACAgIAAxkBAAI")
        return f"{folder}/file_{number}{dot}{ending if dot else ''}"

    # Commands

    def set_commands(self, call: wire.SetMyCommands) -> bool:
        """#setmycommands and #botcommand"""
        if len(call.commands) > _COMMANDS:
            raise bad("BOT_COMMANDS_TOO_MUCH")
        for it in call.commands:
            if _COMMAND.fullmatch(it.command.removeprefix("/")) is None:
                raise bad("BOT_COMMAND_INVALID")
            if not 1 <= len(it.description) <= _DESCRIPTION_LIMIT:
                raise bad("BOT_COMMAND_DESCRIPTION_INVALID")
        self._drop(call.scope, call.language_code)
        if call.commands:
            self._state.menus.append(
                Menu(scope=call.scope, language=call.language_code, commands=call.commands)
            )
        return True

    def get_commands(self, call: wire.GetMyCommands) -> list[Json]:
        self._check(call.scope, call.language_code)
        for menu in self._state.menus:
            if (menu.scope, menu.language) == (call.scope, call.language_code):
                return [
                    {"command": it.command, "description": it.description} for it in menu.commands
                ]
        return []

    def delete_commands(self, call: wire.DeleteMyCommands) -> bool:
        self._drop(call.scope, call.language_code)
        return True

    def _drop(self, scope: wire.Scope, language: str) -> None:
        self._check(scope, language)
        self._state.menus = [
            menu for menu in self._state.menus if (menu.scope, menu.language) != (scope, language)
        ]

    def _check(self, scope: wire.Scope, language: str) -> None:
        """#botcommandscope"""
        if language and re.fullmatch(r"[a-z]{2}", language) is None:
            raise bad("invalid language code specified")
        named = scope.type in ("chat", "chat_administrators", "chat_member")
        if named != (scope.chat_id is not None):
            raise Malformed(f"the scope {scope.type} and a chat_id do not go together")
        if (scope.type == "chat_member") != (scope.user_id is not None):
            raise Malformed(f"the scope {scope.type} and a user_id do not go together")
        if scope.chat_id is not None:
            self._readable(scope.chat_id)
