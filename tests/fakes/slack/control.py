"""What the users of Slack can do, and what the bot hears of it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from segue.testing import peers
from segue.testing.peers import Action, Status, Upload, User
from tests.fakes.slack import blocks
from tests.fakes.slack.state import (
    BOT,
    PRESS,
    SLASH,
    TEAM,
    Chat,
    Kind,
    Message,
    Settings,
    Shown,
    State,
    Thread,
    Ts,
    fill,
    mistake,
)


class Control(peers.Control[State]):
    def settings(self, settings: Settings) -> None:
        """Change the app's settings, and its token's scopes, or revoke the token."""
        self.state.settings = settings

    def disconnect(self, reason: str = "warning", then: Sequence[str] = ()) -> None:
        """Ask the bot to leave its sockets: `warning`, then `refresh_requested`, or
        `link_disabled`. `then` are reasons that follow at once, through the same sockets."""
        for each in (reason, *then):
            self.state.envelopes.disconnect(each)

    def user(self, name: str, *, bot: bool = False) -> str:
        """Add a user and return their id."""
        user = User(id=self.state.name("U"), name=name, username=name.lower(), bot=bot)
        self.state.users[user.id] = user
        return user.id

    # Conversations

    def chat(self, kind: Kind, members: Sequence[str], *, name: str = "general") -> str:
        """Add a conversation with the bot and return its id. A user has only one `Kind.IM`."""
        letter = {Kind.IM: "D", Kind.MPIM: "G"}.get(kind, "C")
        chats = self.state.chats
        for known in chats.values():
            if (known.kind, kind, known.members) == (Kind.IM, Kind.IM, tuple(members)):
                return known.id
        at = Chat(id=self.state.name(letter), kind=kind, members=tuple(members), title=name)
        chats[at.id] = at
        return at.id

    def share_channel(self, chat: str) -> None:
        """Share the chat with another organisation, whose users can then write there."""
        self.state.chats[chat] = replace(self.state.chats[chat], shared=True)

    def rights(
        self, user: str, chat: str, *, archived: bool = False, joined: bool = True, error: str = ""
    ) -> None:
        """Archive the chat, remove or invite the bot, or refuse its messages with this error."""
        before = self.state.chats[chat]
        status = Status.MEMBER if joined else Status.LEFT
        at = replace(before, archived=archived, status=status, restriction=error)
        self.state.chats[chat] = at
        if joined != before.joined:
            event = "member_joined_channel" if joined else f"{at.kind}_left"
            self.state.tell(event, fill(status, chat=chat, user=user), at)

    # Messages

    def say(
        self,
        user: str,
        chat: str,
        text: str,
        thread: Ts = None,
        files: Sequence[Upload] = (),
        team: str = TEAM,
    ) -> str:
        """Send a message and return its `ts`. `<@U1>` in the text is a mention. In another `team`,
        the id `user` is that of another person. Without a team, Slack does not say whose it is."""
        state = self.state
        message = self._written(user, chat, text, thread)
        message = replace(message, team=team)
        stored = tuple(state.add_file(state.name("F"), it) for it in files)
        subtype = "file_share" if files else ""
        if state.users[user].bot:
            subtype = "bot_message"
        return state.say(replace(message, files=stored, subtype=subtype)).id

    def chat_on(self, user: str, chat: str, text: str, count: int, thread: Ts = None) -> None:
        """Send the same message that many times."""
        for _ in range(count):
            self.say(user, chat, text, thread)

    def broadcast(self, user: str, chat: str, text: str, thread: str) -> str:
        """Reply in a thread, and show the reply in the channel too."""
        message = self._written(user, chat, text, thread)
        return self.state.say(replace(message, subtype="thread_broadcast")).id

    def share(self, user: str, chat: str, author: str, text: str, thread: Ts = None) -> str:
        """Forward what `author` wrote elsewhere, without a comment, and return the `ts`.

        It has no text itself: slack-go pull request 282, java-slack-sdk issue 1179.
        """
        them = self.state.users[author]
        ts = self.state.ts()
        shared = fill("share", author=them, text=blocks.typed(text), ts=ts)
        message = self._written(user, chat, "", thread)
        return self.state.say(replace(message, attachments=(shared,))).id

    def _written(self, user: str, chat: str, text: str, thread: Ts) -> Message:
        message = Message(id=self.state.ts(), chat=chat, thread=thread, author=user)
        return self._changed(message, text)

    def _changed(self, message: Message, text: str) -> Message:
        wire = blocks.typed(text)
        return replace(message, text=text, fallback=wire, mentions=blocks.mentions(wire))

    def edit(self, chat: str, message: str, text: str) -> None:
        before = self.state.message(chat, message)
        self.state.change(before, self._changed(before, text))

    def unfurl(self, chat: str, message: str) -> None:
        """Show the preview of a link, which arrives as a change that changes no text."""
        found = self.state.message(chat, message)
        self.state.change(found, found, edited=False)

    def delete(self, chat: str, message: str) -> None:
        self.state.remove(self.state.message(chat, message))

    def delete_thread(self, chat: str, thread: str) -> None:
        """Delete a root and its replies."""
        for it in (*self.state.replies(chat, thread), self.state.message(chat, thread)):
            self.state.remove(it)

    # Interactions

    def press(self, user: str, chat: str, message: str, label: str, team: str = TEAM) -> str:
        """Press the button with that label, and return the trigger id."""
        state = self.state
        found = self.state.message(chat, message)
        if (button := blocks.buttons(found.blocks).get(label)) is None:
            raise mistake(f"there is no button {label!r} to press")
        where = {name: it for name, it in fill("container", it=found).items() if it}
        more = {"message": state.wire(found), "action": {**button, "action_ts": state.ts()}}
        return self._interact(PRESS, "press", user, chat, container=where, by=team, **more)

    def command(self, user: str, chat: str, command: str, text: str = "") -> str:
        """Use a slash command, which no thread offers, and return the trigger id. Slack does not
        offer it to the users of another team."""
        return self._interact(SLASH, "command", user, chat, command=command, text=text)

    def _interact(self, kind: str, shape: str, user: str, chat: str, **more: object) -> str:
        state = self.state
        trigger = self.state.name("trigger")
        who = {"user": state.users[user], "chat": state.chats[chat]}
        state.envelopes.put(kind, fill(shape, trigger=trigger, **who, **more))
        return trigger

    def assist(self, user: str) -> str:
        """Open the assistant, and return its thread's `ts`."""
        state = self.state
        chat = self.chat(Kind.IM, [user])
        title = "New Assistant Thread"
        root = Message(id=state.ts(), chat=chat, author=BOT.id, text=title, fallback=title)
        state.put(replace(root, subtype="assistant_app_thread"))
        state.threads[chat, root.id] = Thread(id=root.id, chat=chat, title=title, by=user)
        state.tell("assistant_thread_started", fill("assistant", user=user, chat=chat, ts=root.id))
        return root.id


class Driver(peers.Driver[Settings, str, Message, Thread, Shown]):
    """Acts for the users. A message is identified by its chat and its `ts`."""

    snapshot = Shown

    settings = Action(Control.settings)
    disconnect = Action(Control.disconnect)
    user = Action(Control.user)
    chat = Action(Control.chat)
    share_channel = Action(Control.share_channel)
    rights = Action(Control.rights)
    say = Action(Control.say)
    chat_on = Action(Control.chat_on)
    broadcast = Action(Control.broadcast)
    share = Action(Control.share)
    edit = Action(Control.edit)
    unfurl = Action(Control.unfurl)
    delete = Action(Control.delete)
    delete_thread = Action(Control.delete_thread)
    press = Action(Control.press)
    command = Action(Control.command)
    assist = Action(Control.assist)
