"""What the users of Signal can do, and what the bot hears of it."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from msgspec.structs import replace

from segue.testing import peers
from segue.testing.peers import Action, Status, Upload, User
from tests.fakes.protocols.templates import Json
from tests.fakes.signal.state import (
    ME,
    Chat,
    Failure,
    Kind,
    Message,
    Settings,
    Shown,
    State,
    Thread,
    attached,
    check,
    fill,
    who,
)

_PLACE = "\ufffc"
"""What stands in a text for a mention."""


class Control(peers.Control[State]):
    """To act as the account's phone, act as `ME`."""

    def settings(self, settings: Settings) -> None:
        """Change the daemon, or its network, or unlink the device."""
        self.state.settings = settings

    def scan(self, uri: str, number: str) -> None:
        """A phone with that number scans the QR code of a device link."""
        check(self.state.links.get(uri) == "", "there is no such link to scan")
        self.state.links[uri] = number

    def user(self, name: str) -> str:
        """Add a user and return their id."""
        no = self.state.number("user")
        aci = f"22222222-0000-4000-8000-{no:012d}"
        number = f"+49151{no:08d}9"
        self.state.users[aci] = User(id=aci, name=name, username=number)
        return aci

    def chat(self, kind: Kind, members: Sequence[str], *, name: str = "Group") -> str:
        """Add a chat with the account and return its id. A user has only one `Kind.DM`."""
        if kind is Kind.SELF:
            return ME.id
        number = self.state.number("group").to_bytes(32)
        found = base64.b64encode(number).decode() if kind is Kind.GROUP else members[0]
        self.state.chats[found] = Chat(id=found, kind=kind, members=tuple(members), title=name)
        return found

    def change(
        self,
        chat: str,
        *,
        joined: bool = True,
        failure: Failure | None = None,
        failing: Sequence[str] = (),
        challenge: str | None = None,
        seconds: int | None = None,
    ) -> None:
        """Remove the account from a group, let messages to a chat fail, for all members or only for
        those `failing`, or undo both."""
        status = Status.MEMBER if joined else Status.LEFT
        more = {"failure": failure, "challenge": challenge, "seconds": seconds}
        changed = replace(self.state.chats[chat], status=status, failing=tuple(failing), **more)
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
        state = self.state
        at = self.state.time()
        text = f"{_PLACE} {text}" if mention else text
        mentions = [fill("mention", **who(state.users[mention]))] if mention else None
        stored = tuple(state.add_file(f"{state.number('file')}.bin", it) for it in files)
        message = Message(id=str(at), newest=str(at), chat=chat, author=user, text=text)
        state.post(replace(message, files=stored, reply_to=reply_to))
        more: Json = {"mentions": mentions, "files": attached(stored)}
        if reply_to:
            said = state.message(chat, reply_to)
            quoted = [fill("quoted", it=it) for it in said.files]
            by = who(state.users[said.author])
            target = int(said.newest)
            more["quote"] = fill("quote", target=target, text=said.text, files=quoted, **by)
        state.tell(user, chat, text or None, at=at, **more)
        return message.id

    def edit(self, chat: str, message: str, text: str) -> None:
        state = self.state
        at = self.state.time()
        before = self.state.message(chat, message)
        state.edit(before, replace(before, text=text, newest=str(at)))
        files = attached(before.files)
        state.tell(before.author, chat, text, at=at, edits=before.newest, files=files)

    def delete(self, chat: str, message: str) -> None:
        gone = self.state.messages.pop((chat, message))
        self.state.tell(gone.author, chat, deleted={"timestamp": int(gone.newest)})

    def react(
        self, user: str, chat: str, message: str, emoji: str, *, remove: bool = False
    ) -> None:
        found = self.state.message(chat, message)
        target = {"target": int(found.newest), "emoji": emoji, "gone": remove}
        reaction = fill("reaction", **target, **who(self.state.users[found.author]))
        self.state.tell(user, chat, reaction=reaction)


class Driver(peers.Driver[Settings, str, Message, Thread, Shown]):
    """Acts for the users. A message is identified by its chat and its timestamp."""

    snapshot = Shown

    settings = Action(Control.settings)
    scan = Action(Control.scan)
    user = Action(Control.user)
    chat = Action(Control.chat)
    change = Action(Control.change)
    say = Action(Control.say)
    edit = Action(Control.edit)
    delete = Action(Control.delete)
    react = Action(Control.react)
