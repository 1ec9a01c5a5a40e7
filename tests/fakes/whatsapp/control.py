"""What the users of WhatsApp can do, and what the bot hears of it: the reference of webhooks."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec.structs import replace

from segue.testing import peers
from segue.testing.peers import Action, Upload
from tests.fakes.whatsapp.state import (
    MEDIA,
    NUMBER,
    PHONE,
    Json,
    Message,
    Settings,
    Shown,
    State,
    Thread,
    fill,
    refuse,
)


class Control(peers.Control[State]):
    def settings(self, settings: Settings) -> None:
        """Change the number's settings, revoke the token, or change how webhooks are delivered."""
        self.state.settings = settings

    def subscribe(self, url: str, verify_token: str) -> None:
        """Enter the webhook in the dashboard, and press Verify until it answers."""
        self.state.hub.subscribe(url, verify_token)

    def user(self, name: str) -> str:
        """Add a user and return their `wa_id`."""
        return self.state.add_user(name)

    def wrote(self, user: str, seconds: float = 0.0) -> None:
        """The user wrote last so many seconds ago, which the bot need not have heard."""
        self.state.heard[user] = time.time() - seconds

    def block(self, user: str) -> None:
        """The user blocks the bot, which gets no update."""
        self.state.blocked.add(user)

    # Messages

    def say(
        self,
        user: str,
        text: str,
        *,
        files: Sequence[Upload] = (),
        reply_to: str | None = None,
        forwarded: bool = False,
        at: int | None = None,
    ) -> str:
        """Send a message and return its id. Each file is one message, the first with the text. `at`
        is the timestamp. A photo has no name; everything else is a document, or a voice note."""
        ids: list[str] = []
        for upload in files or [None]:
            message = self._written(user, "" if ids else text, reply_to, at)
            message = replace(message, forwarded=forwarded)
            content: Json = {"text": {"body": text}}
            if upload is not None:
                message, content = self._with_file(message, upload)
            context = self._context(reply_to, forwarded)
            self.state.hear(self.state.put(message), content, context)
            ids.append(message.id)
        return ids[0]

    def _with_file(self, message: Message, upload: Upload) -> tuple[Message, Json]:
        file = self.state.store(upload)
        kind = next((k for k in ("audio", "video") if upload.media_type in MEDIA[k][1]), "document")
        kind = "image" if upload.kind is peers.FileKind.PHOTO else kind
        about = fill("media", it=file, content=upload.content)
        if kind == "document":
            about["filename"] = file.name
        if kind == "audio":
            about["voice"] = True
        if message.text:
            about["caption"] = message.text
        return replace(message, kind=kind, files=(file,)), {kind: about}

    def send(self, user: str, kind: str, content: Json, *, reply_to: str | None = None) -> str:
        """Send something else: `location`, `contacts`, `sticker`, `order`, `unsupported`, `system`.
        Return its id."""
        message = replace(self._written(user, "", reply_to, None), kind=kind)
        whole = {kind: content} if content else fill("unsupported")
        self.state.hear(message, whole, self._context(reply_to, forwarded=False))
        return message.id

    def react(self, user: str, message: str, emoji: str) -> str:
        """React to a message; an empty emoji takes the reaction back. Return the id of that."""
        self.state.put(replace(self.state.message(message), reaction=emoji))
        content = {"message_id": message}
        if emoji:
            content["emoji"] = emoji
        return self.send(user, "reaction", content)

    def press(self, user: str, message: str, label: str) -> str:
        """Press a button, or choose from a list. Everyone sees that as a message: its id."""
        found = self.state.message(message)
        chosen = next((it for it in found.buttons if it.label == label), None)
        if chosen is None:
            raise refuse.invalid(f"there is no button {label!r} to press")
        kind = "list_reply" if len(found.buttons) > 3 else "button_reply"
        reply = {"type": kind, kind: {"id": chosen.data, "title": chosen.label}}
        return self.send(user, "interactive", reply, reply_to=message)

    def edit(self, message: str, text: str) -> None:
        """Edit a user's message. The update names the original, and has the new content."""
        before = self.state.message(message)
        after = self.state.edit(before, replace(before, text=text))
        content: Json = {"type": "text", "text": {"body": text}}
        context = self._context(before.reply_to, before.forwarded)
        if context:
            content["context"] = context
        change = replace(after, id=self.state.wamid(after.author), kind="edit")
        edited = {"original_message_id": message, "message": content}
        self.state.hear(change, {"edit": edited})

    def delete(self, message: str) -> None:
        """Delete a user's message for all. The update names the original."""
        before = self.state.message(message)
        del self.state.messages[before.chat, before.id]
        change = replace(before, id=self.state.wamid(before.author), kind="revoke")
        self.state.hear(change, {"revoke": {"original_message_id": message}})

    def read(self, message: str) -> None:
        """The user opens the chat, with a message of the bot."""
        self.state.report(self.state.message(message), "read")

    def fail_late(self, message: str, code: int) -> None:
        """A message that was accepted is not delivered."""
        self.state.fail(self.state.message(message), code)

    def _written(self, user: str, text: str, reply_to: str | None, at: int | None) -> Message:
        if user not in self.state.users:
            raise refuse.invalid(f"there is no user {user}")
        name = self.state.wamid(user)
        date = int(time.time()) if at is None else at
        it = Message(id=name, chat=user, author=user, text=text, date=date)
        return replace(it, reply_to=reply_to)

    def _context(self, reply_to: str | None, forwarded: bool) -> Json | None:
        """Of a message that is a reply, only who wrote the other one, and its id."""
        if reply_to is None:
            return {"forwarded": True} if forwarded else None
        author = self.state.message(reply_to).author
        return {"from": NUMBER if author == PHONE else author, "id": reply_to}


class Driver(peers.Driver[Settings, str, Message, Thread, Shown]):
    """Acts for the users. A chat is its user, by `wa_id`."""

    snapshot = Shown

    settings = Action(Control.settings)
    subscribe = Action(Control.subscribe)
    user = Action(Control.user)
    wrote = Action(Control.wrote)
    block = Action(Control.block)
    say = Action(Control.say)
    send = Action(Control.send)
    react = Action(Control.react)
    press = Action(Control.press)
    edit = Action(Control.edit)
    delete = Action(Control.delete)
    read = Action(Control.read)
    fail_late = Action(Control.fail_late)
