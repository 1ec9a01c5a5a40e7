"""What the users of the test platform can do, and the driver through which a test lets them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from segue.testing import peers
from segue.testing.peers import Action, Upload, User
from segue.testing.peers import OrderRefused as OrderRefused
from segue.testing.platform.state import Chat, Message, Shape, Shown, State, Thread, missing
from segue.testing.platform.wire import Joined, Pressed, Removed, Rules, WireFile


class Control(peers.Control[State]):
    def rules(self, rules: Rules) -> None:
        """Change the platform's features and limits from now on."""
        self.state.settings = rules

    def user(self, name: str, *, bot: bool = False) -> str:
        """Add a user and return their id."""
        user = User(id=self.state.name("user"), name=name, bot=bot)
        self.state.users[user.id] = user
        return user.id

    def chat(self, shape: Shape, members: Sequence[str], *, name: str = "", topic: str = "") -> str:
        """Add a chat with these members and the bot, and return its id."""
        chat = Chat(
            id=self.state.name(f"!{shape}"),
            shape=shape,
            title=name,
            topic=topic,
            members=tuple(self.state.user(member).id for member in members),
        )
        self.state.chats[chat.id] = chat
        return chat.id

    def publish(self, chat: str) -> None:
        """Open the chat to everyone."""
        self.state.chats[chat] = replace(self.state.chat(chat), public=True)

    def say(
        self,
        user: str,
        chat: str,
        text: str,
        *,
        thread: str | None = None,
        files: Sequence[Upload] = (),
        forwarded_from: str | None = None,
        reply_to: str | None = None,
        command: bool = False,
    ) -> str:
        """Send a message and return its id.

        `forwarded_from` is the name of the original author. `reply_to` is a message id. If
        `command`, the platform marks the message as a command.
        """
        self.state.place(chat, thread)
        message = Message(
            id=self.state.name("message"),
            chat=chat,
            thread=thread,
            author=self.state.user(user).id,
            text=text,
            forwarded_from=forwarded_from,
            reply_to=reply_to,
        )
        stored = [self.state.add_file(self.state.name("file"), it) for it in files]
        sent = tuple(
            WireFile(id=it.id, name=it.name, media_type=it.media_type, size=it.size)
            for it in stored
        )
        self.state.say(message, files=sent, command=command)
        return message.id

    def command(self, user: str, chat: str, text: str, *, thread: str | None = None) -> str:
        """Send a message that the platform marks as a command, and return its id."""
        return self.say(user, chat, text, thread=thread, command=True)

    def edit(self, message: str, text: str) -> None:
        """Edit a user's message."""
        before = self._message(message)
        self.state.change(before, replace(before, text=text))

    def delete(self, message: str) -> None:
        """Delete a user's message."""
        at = self._message(message)
        del self.state.messages[at.chat, at.id]
        self.state.emit(Removed, at, message=at.id)

    def press(self, user: str, message: str, label: str, data: str | None = None) -> None:
        """Press the button with that label.

        `data` is the button's data as the user last saw it, if the button may be gone by now.
        """
        at = self._message(message)
        there = (button.data for button in at.buttons if button.label == label)
        if (data := data or next(there, None)) is None:
            raise missing("button", label)
        self.state.emit(Pressed, at, user, message=at.id, data=data)

    def join(self, user: str, chat: str) -> None:
        """Start the chat with the bot, or add the bot to it."""
        at = Message(id="", chat=self.state.chat(chat).id, author=user)
        self.state.emit(Joined, at)

    def delete_thread(self, thread: str) -> None:
        found = next((it for it in self.state.threads if it[1] == thread), None)
        if found is None:
            raise missing("thread", thread)
        del self.state.threads[found]

    def _message(self, name: str) -> Message:
        """The message with that id, which is unique in all chats."""
        chat = next((chat for chat, message in self.state.messages if message == name), "")
        return self.state.message(chat, name)


class Driver(peers.Driver[Rules, str, Message, Thread, Shown]):
    """Acts for the users of the platform. Any process can connect through the control URL."""

    snapshot = Shown

    rules = Action(Control.rules)
    user = Action(Control.user)
    chat = Action(Control.chat)
    publish = Action(Control.publish)
    say = Action(Control.say)
    command = Action(Control.command)
    edit = Action(Control.edit)
    delete = Action(Control.delete)
    press = Action(Control.press)
    join = Action(Control.join)
    delete_thread = Action(Control.delete_thread)

    async def press_late(self, user: str, message: Message, label: str) -> None:
        """Press a button of an outdated view of the message."""
        data = next(button.data for button in message.buttons if button.label == label)
        await self.press(user, message.id, label, data)
