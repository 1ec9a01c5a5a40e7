"""The test's side of the Discord fake: act as its users and read what they see."""

from __future__ import annotations

from segue.testing.peers import Action
from tests.fakes.discord.control import Control
from tests.fakes.discord.snapshot import Message, Settings, Shown, Thread
from tests.fakes.protocols.gateway import GatewayDriver


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
