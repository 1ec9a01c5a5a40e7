"""What the users of Signal can do, and what the bot hears of it."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from msgspec.structs import replace

from segue.testing import peers
from segue.testing.peers import Status, Upload, User
from segue.testing.signal.errors import USER, Refuse
from segue.testing.signal.snapshot import ME, Chat, Failure, Kind, Message, Settings, fill
from segue.testing.signal.state import State, attached, who

_PLACE = "\ufffc"
"""What stands in a text for a mention."""


class Control(peers.Control[State]):
    """To act as the account's phone, act as `ME`."""

    def settings(self, settings: Settings) -> None:
        """Change the daemon, or its network."""
        self.state.settings = settings

    def scan(self, uri: str, number: str) -> None:
        """A phone with that number scans the QR code of a device link."""
        if self.state.links.get(uri) != "":
            raise Refuse(USER, "there is no such link to scan")
        self.state.links[uri] = number

    def unlink(self) -> None:
        """The phone removes the device, and the daemon the account."""
        self.state.settings = replace(self.state.settings, revoked=True)

    def user(self, name: str, *, hidden: bool = False) -> str:
        """Add a user and return their id. A hidden one keeps the number secret."""
        no = self.state.number("user")
        number = "" if hidden else f"+49151{no:08d}9"
        user = User(id=f"22222222-0000-4000-8000-{no:012d}", name=name, username=number)
        self.state.users[user.id] = user
        return user.id

    def chat(self, kind: Kind, members: Sequence[str], *, name: str = "Group") -> str:
        """Add a chat with the account and return its id. A user has only one `Kind.DM`."""
        if kind is Kind.SELF:
            return ME.id
        title = name if kind is Kind.GROUP else ""
        bytes_ = self.state.number("group").to_bytes(32)
        found = base64.b64encode(bytes_).decode() if kind is Kind.GROUP else members[0]
        self.state.chats[found] = Chat(id=found, kind=kind, members=tuple(members), title=title)
        return found

    def rights(self, chat: str, *, joined: bool = True, announcements: bool = False) -> None:
        """Remove the account from a group or add it, or let only admins write there."""
        status = Status.MEMBER if joined else Status.LEFT
        changed = replace(self.state.chats[chat], status=status, announcements=announcements)
        self.state.chats[chat] = changed

    def refuse(
        self,
        chat: str,
        failure: Failure | None,
        *,
        challenge: str = "",
        seconds: int | None = None,
    ) -> None:
        """Let messages to that chat fail, or arrive again."""
        changed = replace(
            self.state.chats[chat], failure=failure, challenge=challenge, seconds=seconds
        )
        self.state.chats[chat] = changed

    # Messages

    def say(
        self,
        user: str,
        chat: str,
        text: str,
        *,
        files: Sequence[Upload] = (),
        reply_to: str | None = None,
        mention: str | None = None,
    ) -> str:
        """Send a message and return its timestamp. A mention of a user comes before the text."""
        state, at, where = self.state, self.state.time(), self.state.chats[chat]
        mentions = None
        if mention is not None:
            text = f"{_PLACE} {text}"
            mentions = [fill("mention", start=0, length=1, **who(state.users[mention]))]
        stored = tuple(state.add_file(f"{state.number('file')}.bin", it) for it in files)
        quote = state.quote(state.message(chat, reply_to)) if reply_to else None
        message = Message(
            id=str(at), newest=str(at), chat=chat, author=user, text=text, files=stored,
            reply_to=reply_to, mentions=(mention,) if mention else (),
        )  # fmt: skip
        state.post(message)
        sent = [attached(it) for it in stored]
        more = {"quote": quote, "mentions": mentions, "files": sent}
        state.tell(state.users[user], where, at, state.data(where, at, text or None, **more))
        return message.id

    def edit(self, chat: str, message: str, text: str) -> None:
        state, at, before = self.state, self.state.time(), self.state.message(chat, message)
        state.edit(before, replace(before, text=text, newest=str(at)))
        files = [attached(it) for it in before.files]
        data = state.data(state.chats[chat], at, text, files=files)
        change = {"targetSentTimestamp": int(before.newest), "dataMessage": data}
        state.tell(state.users[before.author], state.chats[chat], at, edit=change)

    def delete(self, chat: str, message: str) -> None:
        state, at, gone = self.state, self.state.time(), self.state.message(chat, message)
        del state.messages[chat, message]
        data = state.data(state.chats[chat], at, None, deleted={"timestamp": int(gone.id)})
        state.tell(state.users[gone.author], state.chats[chat], at, data)

    def react(
        self, user: str, chat: str, message: str, emoji: str, *, remove: bool = False
    ) -> None:
        state, at, found = self.state, self.state.time(), self.state.message(chat, message)
        others = tuple(it for it in found.reactions if it[0] != user)
        state.keep(replace(found, reactions=others if remove else (*others, (user, emoji))))
        author = who(state.users[found.author])
        target = {"target": int(found.newest), "emoji": emoji, "gone": remove}
        data = state.data(
            state.chats[chat], at, None, reaction=fill("reaction", **target, **author)
        )
        state.tell(state.users[user], state.chats[chat], at, data)

    # What is no message

    def type(self, user: str, chat: str, action: str = "STARTED") -> None:
        at, where = self.state.time(), self.state.chats[chat]
        group = chat if where.kind is Kind.GROUP else None
        typing = fill("typing", action=action, at=at, group=group)
        self.state.tell(self.state.users[user], where, at, typing=typing)

    def receive(self, user: str, chat: str, message: str, *, read: bool = False) -> None:
        """A user's device receives a message of the bot, or shows it to them."""
        at = self.state.time()
        receipt = fill("receipt", at=at, delivered=not read, read=read, of=[int(message)])
        self.state.tell(self.state.users[user], self.state.chats[chat], at, receipt=receipt)

    def fail_to_decrypt(self, user: str, reason: str = "UntrustedIdentityException") -> None:
        """A message arrives that the daemon cannot read: JsonReceiveMessageHandler.java."""
        by, at = who(self.state.users[user]), self.state.time()
        what = {"number": ME.username, "reason": "untrusted identity", "type": reason}
        self.state.put(fill("failed", at=at, **what, **by))
