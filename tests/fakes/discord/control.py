"""The actions of users, and the events that they cause: `events/gateway-events.mdx`."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from segue.testing import peers
from segue.testing.peers import Action, Interaction, Status, Upload, User
from tests.fakes.discord import state
from tests.fakes.discord.state import (
    USUAL,
    Chat,
    Kind,
    Message,
    MessageType,
    Settings,
    Shown,
    State,
    Thread,
    check,
)
from tests.fakes.protocols.gateway import GatewayControl, GatewayDriver
from tests.fakes.protocols.templates import Json


class Control(GatewayControl[State]):
    # Users, guilds and channels

    def bot(self, settings: state.Settings) -> None:
        """Change the settings of the bot and the server. A revoked token ends its sessions."""
        self.state.settings = settings
        if settings.revoked:
            self.cut(4004)

    def user(self, name: str, *, bot: bool = False) -> int:
        """Add a user and return their id."""
        user = User(id=self.state.name(), name=name, bot=bot)
        self.state.users[user.id] = user
        return user.id

    def guild(self, name: str = "Home") -> int:
        """Add a guild that the bot has joined, and return its id."""
        guild = peers.Chat(id=self.state.name(), title=name)
        self.state.guilds[guild.id] = guild
        self.state.tell("GUILD_CREATE", self.state.objects.guild(guild))
        return guild.id

    def chat(self, kind: Kind, members: Sequence[int], *, guild: int = 0) -> int:
        """Add a channel with these members, in the first guild unless given. Return its id."""
        guild = guild or next(iter(self.state.guilds), 0) or self.guild()
        who = tuple(members)
        chat = Chat(id=self.state.name(), kind=kind, guild=guild, title="team", members=who)
        self.state.chats[chat.id] = chat
        self.state.tell("CHANNEL_CREATE", self.state.objects.channel(chat), chat)
        return chat.id

    def dm(self, user: int, *, closed: bool = False) -> int:
        """Return the id of the direct message with that user, who accepts none if `closed`."""
        chat = self.state.private(user)
        status = Status.KICKED if closed else Status.MEMBER
        self.state.chats[chat.id] = replace(chat, status=status)
        return chat.id

    def permit(self, chat: int, permissions: int = USUAL) -> None:
        """Set the bot's permissions in a channel. The bot also learns that it lost access."""
        changed = replace(self.state.chats[chat], permissions=permissions)
        self.state.chats[chat] = changed
        self.state.tell("CHANNEL_UPDATE", self.state.objects.channel(changed))

    def overwrite(self, chat: int, overwrites: Sequence[tuple[int, int, int]]) -> None:
        """Set what a channel says of roles and members other than the bot: their ids, and the
        permissions that it allows and denies. The role of everyone has the id of the guild."""
        changed = replace(self.state.chats[chat], overwrites=tuple(overwrites))
        self.state.chats[chat] = changed
        self.state.tell("CHANNEL_UPDATE", self.state.objects.channel(changed))

    def leave(self, user: int, guild: int) -> None:
        """A user leaves the guild. Without the intent for members, the bot gets no event."""
        self.state.absent.add((guild, user))

    def kick(self, guild: int) -> None:
        """Remove the bot from a guild."""
        self.state.tell("GUILD_DELETE", {"id": str(guild)})
        self.state.guilds[guild] = replace(self.state.guilds[guild], status=Status.KICKED)

    def delete_channel(self, channel: int) -> None:
        """Delete a channel or a thread."""
        at = self.state.place(channel)
        chat, thread = at
        event = "CHANNEL_DELETE" if thread is None else "THREAD_DELETE"
        self.state.tell(event, self.state.objects.place(at), chat)
        if self.state.threads.pop((chat.id, channel), None) is None:
            del self.state.chats[chat.id]

    # Messages

    def say(
        self,
        user: int,
        channel: int,
        text: str,
        *,
        files: Sequence[Upload] = (),
        reply_to: int | None = None,
        forwarded: str | None = None,
    ) -> int:
        """Send a message and return its id. `forwarded` is the text of one that it forwards."""
        state = self.state
        at = self.state.place(channel)
        check(at.chat.kind is not Kind.FORUM or at.thread, 50008)
        check(at.thread is None or not at.thread.locked, 160005)
        said = state.written(at, user, text)
        said = replace(said, everyone="@everyone" in text, files=tuple(map(state.store, files)))
        if forwarded is not None:
            said = replace(said, forwarded=forwarded, reference=(channel, 1))
        if reply_to is not None:
            who = tuple(dict.fromkeys([*said.mentions, state.message(at, reply_to).author]))
            more = {"reply_to": reply_to, "reference": (channel, reply_to), "mentions": who}
            said = replace(said, type=MessageType.REPLY, **more)
        return state.say(said).id

    def edit(self, channel: int, message: int, text: str) -> None:
        before = self.state.message(self.state.place(channel), message)
        self.state.change(before, replace(before, text=text, mentions=self.state.mentioned(text)))

    def delete(self, channel: int, message: int) -> None:
        """Delete a message. The event names neither its author nor who deleted it."""
        gone = self.state.message(self.state.place(channel), message)
        del self.state.messages[gone.chat, gone.id]
        data = {"id": str(message), "channel_id": str(channel)}
        self.state.tell("MESSAGE_DELETE", data, self.state.chats[gone.chat])

    def unfurl(self, channel: int, message: int) -> None:
        """Add a link preview to a message, as the platform does some time after it was sent."""
        before = self.state.message(self.state.place(channel), message)
        after = replace(before, embeds=({"type": "link", "url": "https://a.test"},))
        self.state.show("MESSAGE_UPDATE", self.state.put(after))

    # Threads

    def open_thread(self, user: int, chat: int, title: str, source: int = 0) -> int:
        """Open a thread, under the message `source` if it is given, and return its id. In a forum
        its first message is its title."""
        at = self.state.place(chat)
        first = self.state.written(at, user, title) if at.chat.kind is Kind.FORUM else None
        if source:
            first = self.state.message(at, source)
        return self.state.open(at.chat, title, user, first).id

    def set_thread(self, thread: int, *, archived: bool = False, locked: bool = False) -> None:
        """Archive or lock a thread, or undo it."""
        found = self.state.thread(self.state.place(thread))
        self.state.update(replace(found, closed=archived, locked=locked))

    # Interactions

    def press(self, user: int, channel: int, message: int, label: str, data: str = "") -> int:
        """Press the button with that label, or that had `data` before. Return the press's id."""
        at = self.state.message(self.state.place(channel), message)
        data = data or next((it.data for it in at.buttons if it.label == label), "")
        check(data, 404)
        return self._interact(3, user, channel, {"custom_id": data, "component_type": 2}, at)

    def slash(self, user: int, channel: int, text: str) -> int:
        """Use a command that is offered there, as `/status disk`. Return the id of its use."""
        chat, thread = self.state.place(channel)
        name, _, rest = text[1:].partition(" ")
        everywhere = self.state.commands.get(0, {})
        context = int(not chat.guild)
        known = {at: it for at, it in everywhere.items() if context in it.get("contexts", (0, 1))}
        if chat.guild:
            known |= self.state.commands.get(chat.guild, {})
        check(name in known and not (thread and thread.closed), 404)
        first = known[name]["options"][:1]
        if rest:
            check(first, 404)
        else:
            check(not any(it.get("required") for it in first), 404)
        values = [{"name": it["name"], "type": 3, "value": rest} for it in first if rest]
        data: Json = {"id": known[name]["id"], "name": name, "type": 1, "options": values}
        return self._interact(2, user, channel, data, None)

    def _interact(self, kind: int, user: int, place: int, data: Json, at: Message | None) -> int:
        name = self.state.name()
        message = at and at.id
        it = Interaction(name, kind, user, place, message, data, token=f"a{name:x}")
        self.state.interactions[name] = it
        self.state.tell("INTERACTION_CREATE", self.state.objects.interaction(it, at))
        return name


class Driver(GatewayDriver[Settings, int, Message, Thread, Shown]):
    """Acts for the users. Any process can connect through the control URL."""

    snapshot = Shown

    bot = Action(Control.bot)
    user = Action(Control.user)
    guild = Action(Control.guild)
    chat = Action(Control.chat)
    dm = Action(Control.dm)
    permit = Action(Control.permit)
    overwrite = Action(Control.overwrite)
    leave = Action(Control.leave)
    kick = Action(Control.kick)
    say = Action(Control.say)
    edit = Action(Control.edit)
    delete = Action(Control.delete)
    unfurl = Action(Control.unfurl)
    open_thread = Action(Control.open_thread)
    set_thread = Action(Control.set_thread)
    delete_channel = Action(Control.delete_channel)
    press = Action(Control.press)
    slash = Action(Control.slash)
