"""What a test does on the test platform as its people, and sees there as they do."""

from __future__ import annotations

from collections.abc import Sequence

from segue.testing import peers
from segue.testing.peers import WITHIN, Obey
from segue.testing.peers import OrderRefused as OrderRefused
from segue.testing.platform import control
from segue.testing.platform.control import Message, Shape, Shown, Thread, Upload
from segue.testing.platform.wire import Rules


class Hands(peers.Hands[str, Message, Shown]):
    """People's hands and eyes on the platform; any process may have some, by its control URL."""

    def __init__(self, to: str | Obey) -> None:
        super().__init__(to, Shown)

    # People

    async def user(self, name: str, *, bot: bool = False) -> str:
        """A new one; their id."""
        return await self._ask(control.AddUser(name=name, bot=bot), str)

    async def chat(
        self, shape: Shape, members: Sequence[str], *, name: str = "", topic: str = ""
    ) -> str:
        """A new one, with these and the bot in it; its id."""
        return await self._ask(
            control.AddChat(shape=shape, members=tuple(members), name=name, topic=topic), str
        )

    async def say(
        self,
        user: str,
        chat: str,
        text: str,
        *,
        thread: str | None = None,
        files: Sequence[Upload] = (),
        forwarded_from: str | None = None,
        reply_to: str | None = None,
    ) -> str:
        """The id of the message. `forwarded_from`: the name of who wrote it first. `reply_to`: the
        id of another message."""
        order = control.Say(
            user=user,
            chat=chat,
            text=text,
            thread=thread,
            files=tuple(files),
            forwarded_from=forwarded_from,
            reply_to=reply_to,
        )
        return await self._ask(order, str)

    async def command(self, user: str, chat: str, text: str, *, thread: str | None = None) -> str:
        """Say what the platform marks as a command; the id of the message."""
        return await self._ask(
            control.Say(user=user, chat=chat, text=text, thread=thread, command=True), str
        )

    async def edit(self, message: str, text: str) -> None:
        await self._do(control.Rewrite(message=message, text=text))

    async def press(self, user: str, message: str, label: str) -> None:
        """Press the button with that label."""
        await self._do(control.Press(user=user, message=message, label=label))

    async def press_late(self, user: str, message: Message, label: str) -> None:
        """The same by somebody who still sees the message as it was."""
        data = next(button.data for button in message.buttons if button.label == label)
        await self._do(control.Press(user=user, message=message.id, label=label, data=data))

    async def join(self, user: str, chat: str) -> None:
        """Begin the chat with the bot, or add it there."""
        await self._do(control.Join(user=user, chat=chat))

    async def delete_thread(self, thread: str) -> None:
        await self._do(control.DeleteThread(thread=thread))

    # Eyes

    async def thread(self, chat: str, *, within: float = WITHIN) -> Thread:
        """The newest thread in that chat, once there is one."""
        shown = await self.until(lambda shown: bool(shown.threads), chat=chat, within=within)
        return shown.threads[-1]

    # The platform itself

    async def rules(self, rules: Rules) -> None:
        """From now on it can do this, and no more."""
        await self._do(control.SetRules(rules=rules))

    async def clear(self, rules: Rules = Rules()) -> None:  # noqa: B008 - it is frozen
        """Everything as at the start, under these rules."""
        await self._do(peers.Clear(settings=rules))
