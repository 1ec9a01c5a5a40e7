"""The test's side of the Telegram fake: act as its users and read what they see."""

from __future__ import annotations

from collections.abc import Sequence

from segue.testing import peers
from segue.testing.peers import WITHIN, Obey
from segue.testing.peers import OrderRefused as OrderRefused
from segue.testing.telegram import control
from segue.testing.telegram.control import Upload
from segue.testing.telegram.snapshot import (
    Called,
    Kind,
    Message,
    Origin,
    Settings,
    Shown,
    Status,
    Topic,
)


class Hands(peers.Hands[int, Message, Shown]):
    """Acts for the users. Any process can connect through the control URL.

    A message is identified by its chat and its id, because two supergroups can have messages with
    the same id.

    An injected update gets an id from the fake. A frame that is not a JSON object is delivered in
    place of a message. Faults for file downloads use the method name `download`.
    """

    def __init__(self, to: str | Obey) -> None:
        super().__init__(to, Shown)

    # Users and chats

    async def user(self, name: str, *, username: str = "", bot: bool = False) -> int:
        """Add a user and return their id."""
        return await self._ask(control.AddUser(name=name, username=username, bot=bot), int)

    async def private(self, user: int, *, topics: bool | None = None) -> int:
        """Start the private chat with that user and return its id, which is the user's.

        It has topics if the bot does, unless `topics` says otherwise.
        """
        order = control.AddChat(kind=Kind.PRIVATE, members=(user,), topics=topics)
        return await self._ask(order, int)

    async def chat(
        self,
        kind: Kind,
        members: Sequence[int],
        *,
        title: str = "Team",
        description: str = "",
        admin: bool = False,
        manage_topics: bool = False,
    ) -> int:
        """Add a chat with these members, the first of whom owns it, and the bot. Return its id."""
        order = control.AddChat(
            kind=kind,
            members=tuple(members),
            title=title,
            description=description,
            status=Status.ADMINISTRATOR if admin or manage_topics else Status.MEMBER,
            manage_topics=manage_topics,
        )
        return await self._ask(order, int)

    async def rights(
        self, user: int, chat: int, status: Status, *, manage_topics: bool = False
    ) -> None:
        """Set the bot's status; the bot gets an update. KICKED in a private chat means blocked."""
        await self._do(
            control.SetRights(user=user, chat=chat, status=status, manage_topics=manage_topics)
        )

    async def join(self, user: int, chat: int) -> None:
        """Add the bot to the chat, or restart the private chat. The bot gets an update."""
        await self._do(control.Join(user=user, chat=chat))

    async def migrate(self, chat: int, *, topics: bool = False) -> int:
        """Upgrade the group, as enabling topics does, and return the supergroup's id."""
        return await self._ask(control.Migrate(chat=chat, topics=topics), int)

    # Messages

    async def say(
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
        origin: Origin | None = None,
        via_bot: int = 0,
        quote: str = "",
        external: Origin | None = None,
    ) -> int:
        """Send a message and return its id.

        With a file, the text is its caption. Several files become several messages of one album: a
        new one, or `album`. Text that starts with / is marked as a command. In a channel the
        message is a post. `origin` makes it a forwarded message. `quote` is the quoted part of the
        message it replies to, and `external` is the author of that message if it is in another
        chat.
        """
        order = control.Say(
            user=user,
            chat=chat,
            text=text,
            thread=thread,
            reply_to=reply_to,
            files=tuple(files),
            album=album,
            anonymous=anonymous,
            origin=origin,
            via_bot=via_bot,
            quote=quote,
            external=external,
        )
        return await self._ask(order, int)

    async def react(self, chat: int, message: int) -> None:
        """React with an emoji. The bot receives an edit that changes nothing."""
        await self._do(control.React(chat=chat, message=message))

    async def edit(self, chat: int, message: int, text: str) -> None:
        await self._do(control.Rewrite(chat=chat, message=message, text=text))

    async def press(
        self, user: int, chat: int, message: int, label: str, *, old: bool = False
    ) -> str:
        """Press the button with that label and return the id of the query.

        If `old`, the bot can no longer access the message.
        """
        order = control.Press(user=user, chat=chat, message=message, label=label, old=old)
        return await self._ask(order, str)

    async def erase(self, chat: int, message: int) -> None:
        """Delete a message. The bot gets no update."""
        await self._do(control.Erase(chat=chat, message=message))

    async def open_topic(self, user: int, chat: int, name: str) -> int:
        """Open a topic and return its thread id."""
        return await self._ask(control.OpenTopic(user=user, chat=chat, name=name), int)

    async def close_topic(self, user: int, chat: int, thread: int, *, closed: bool = True) -> None:
        await self._do(control.CloseTopic(user=user, chat=chat, thread=thread, closed=closed))

    async def delete_topic(self, chat: int, thread: int, *, silently: bool = False) -> None:
        """Delete a topic. The bot gets no update.

        If `silently`, later messages to the topic go to the main chat.
        """
        await self._do(control.DeleteTopic(chat=chat, thread=thread, silently=silently))

    # Reading

    async def topic(self, chat: int, *, within: float = WITHIN) -> Topic:
        """Wait for a topic in that chat and return the newest."""
        shown = await self.until(lambda shown: bool(shown.topics), chat=chat, within=within)
        return shown.topics[-1]

    async def calls(self, method: str | None = None) -> list[Called]:
        """The calls so far, without polls; only of `method` if it is given."""
        return await self._ask(control.Recall(method=method), list[Called])

    async def content(self, file: str) -> bytes:
        """The content of a message's file, by file id."""
        return await self._ask(control.Fetch(file=file), bytes)

    async def errors(self) -> tuple[str, ...]:
        """The bot's invalid calls. Must be empty at the end of every test."""
        return (await self.look(0)).errors

    # The platform

    async def deliver(self, frame: str) -> None:
        """Deliver an update exactly as given, JSON or not. `{id}` is replaced by its id."""
        await self._do(control.Deliver(frame=frame))

    async def bot(self, settings: Settings) -> None:
        """Change the settings of the bot and the server from now on."""
        await self._do(control.SetBot(settings=settings))

    async def clear(self, settings: Settings = Settings()) -> None:  # noqa: B008 - it is frozen
        """Reset the fake to its initial state, with these settings."""
        await self._do(peers.Clear(settings=settings))
