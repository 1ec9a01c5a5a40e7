"""What a test does on this Telegram as its people, and sees there as they do."""

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
    """People's hands and eyes; any process may have some, by the control URL. A message is named by
    its chat and its id: two supergroups have messages of the same ids.

    What is injected gets an id of Telegram's; what is no JSON object comes in the place of a
    message. The method `download`, which may fail too, is getting a file's bytes."""

    def __init__(self, to: str | Obey) -> None:
        super().__init__(to, Shown)

    # Who and where

    async def user(self, name: str, *, username: str = "", bot: bool = False) -> int:
        """A new one; their id."""
        return await self._ask(control.AddUser(name=name, username=username, bot=bot), int)

    async def private(self, user: int, *, topics: bool | None = None) -> int:
        """The chat with that person, which they have begun; it has topics as the bot has, or as is
        said here. Its id is theirs."""
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
        """A new one, with these and the bot in it, the first of whom owns it; its id."""
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
        """That person makes the bot this there; it is told. KICKED in a private chat: blocked."""
        await self._do(
            control.SetRights(user=user, chat=chat, status=status, manage_topics=manage_topics)
        )

    async def join(self, user: int, chat: int) -> None:
        """Add the bot there, or begin the private chat anew; it is told."""
        await self._do(control.Join(user=user, chat=chat))

    async def migrate(self, chat: int, *, topics: bool = False) -> int:
        """Upgrade the group, as turning its topics on does; the id of the supergroup."""
        return await self._ask(control.Migrate(chat=chat, topics=topics), int)

    # What they say

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
        """The id of the message. With a file the text is its caption; several files are several
        messages of one album, or of the one that is named. What begins with / is marked as a
        command. In a channel it is a post. `origin`: it is forwarded. `quote`: of the message that
        it replies to; `external`: who wrote that, in another chat."""
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
        """React with an emoji. The bot hears of an edit that changed nothing."""
        await self._do(control.React(chat=chat, message=message))

    async def edit(self, chat: int, message: int, text: str) -> None:
        await self._do(control.Rewrite(chat=chat, message=message, text=text))

    async def press(
        self, user: int, chat: int, message: int, label: str, *, old: bool = False
    ) -> str:
        """Press the button with that label; the id of the query. `old`: the bot cannot see the
        message any more."""
        order = control.Press(user=user, chat=chat, message=message, label=label, old=old)
        return await self._ask(order, str)

    async def erase(self, chat: int, message: int) -> None:
        """Delete a message; the bot is not told."""
        await self._do(control.Erase(chat=chat, message=message))

    async def open_topic(self, user: int, chat: int, name: str) -> int:
        """The id of its thread."""
        return await self._ask(control.OpenTopic(user=user, chat=chat, name=name), int)

    async def close_topic(self, user: int, chat: int, thread: int, *, closed: bool = True) -> None:
        await self._do(control.CloseTopic(user=user, chat=chat, thread=thread, closed=closed))

    async def delete_topic(self, chat: int, thread: int, *, silently: bool = False) -> None:
        """The bot is not told. `silently`: what it sends there comes to the main chat."""
        await self._do(control.DeleteTopic(chat=chat, thread=thread, silently=silently))

    # Eyes

    async def topic(self, chat: int, *, within: float = WITHIN) -> Topic:
        """The newest topic in that chat, once there is one."""
        shown = await self.until(lambda shown: bool(shown.topics), chat=chat, within=within)
        return shown.topics[-1]

    async def calls(self, method: str | None = None) -> list[Called]:
        """The calls so far, but for polls; of one method, if one is named."""
        return await self._ask(control.Recall(method=method), list[Called])

    async def content(self, file: str) -> bytes:
        """What is in the file of a message, by its id."""
        return await self._ask(control.Fetch(file=file), bytes)

    async def errors(self) -> tuple[str, ...]:
        """What the bot did wrong: must be empty at the end of every test."""
        return (await self.look(0)).errors

    # The platform itself

    async def deliver(self, frame: str) -> None:
        """Let the bot get this update as it is, JSON or not; `{id}` in it becomes its id."""
        await self._do(control.Deliver(frame=frame))

    async def bot(self, settings: Settings) -> None:
        """From now on the bot and the server are this."""
        await self._do(control.SetBot(settings=settings))

    async def clear(self, settings: Settings = Settings()) -> None:  # noqa: B008 - it is frozen
        """Everything as at the start, with these."""
        await self._do(peers.Clear(settings=settings))
