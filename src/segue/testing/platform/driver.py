"""The test's side of the test platform: act as its users and read what they see."""

from __future__ import annotations

from segue.testing import peers
from segue.testing.peers import Action
from segue.testing.peers import OrderRefused as OrderRefused
from segue.testing.platform.control import Control
from segue.testing.platform.snapshot import Message, Shown, Thread
from segue.testing.platform.wire import Rules


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
