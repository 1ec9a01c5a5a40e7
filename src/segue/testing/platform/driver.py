"""The test's side of the test platform: act as its users and read what they see."""

from __future__ import annotations

from collections.abc import Sequence

from segue.testing import peers
from segue.testing.peers import WITHIN, Obey
from segue.testing.peers import OrderRefused as OrderRefused
from segue.testing.platform import control
from segue.testing.platform.control import Message, Shape, Shown, Thread, Upload
from segue.testing.platform.wire import Rules


class Hands(peers.Hands[str, Message, Shown]):
    """Acts for the users of the platform. Any process can connect through the control URL."""

    def __init__(self, to: str | Obey) -> None:
        super().__init__(to, Shown)

    # Users

    async def user(self, name: str, *, bot: bool = False) -> str:
        """Add a user and return their id."""
        return await self._ask(control.AddUser(name=name, bot=bot), str)

    async def chat(
        self, shape: Shape, members: Sequence[str], *, name: str = "", topic: str = ""
    ) -> str:
        """Add a chat with these members and the bot, and return its id."""
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
        """Send a message and return its id.

        `forwarded_from` is the name of the original author. `reply_to` is a message id.
        """
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
        """Send a message that the platform marks as a command, and return its id."""
        return await self._ask(
            control.Say(user=user, chat=chat, text=text, thread=thread, command=True), str
        )

    async def edit(self, message: str, text: str) -> None:
        await self._do(control.Rewrite(message=message, text=text))

    async def press(self, user: str, message: str, label: str) -> None:
        """Press the button with that label."""
        await self._do(control.Press(user=user, message=message, label=label))

    async def press_late(self, user: str, message: Message, label: str) -> None:
        """Press a button of an outdated view of the message."""
        data = next(button.data for button in message.buttons if button.label == label)
        await self._do(control.Press(user=user, message=message.id, label=label, data=data))

    async def join(self, user: str, chat: str) -> None:
        """Start the chat with the bot, or add the bot to it."""
        await self._do(control.Join(user=user, chat=chat))

    async def delete_thread(self, thread: str) -> None:
        await self._do(control.DeleteThread(thread=thread))

    # Reading

    async def thread(self, chat: str, *, within: float = WITHIN) -> Thread:
        """Wait for a thread in that chat and return the newest."""
        shown = await self.until(lambda shown: bool(shown.threads), chat=chat, within=within)
        return shown.threads[-1]

    # The platform

    async def rules(self, rules: Rules) -> None:
        """Change the platform's features and limits from now on."""
        await self._do(control.SetRules(rules=rules))

    async def clear(self, rules: Rules = Rules()) -> None:  # noqa: B008 - it is frozen
        """Reset the platform to its initial state, with these rules."""
        await self._do(peers.Clear(settings=rules))
