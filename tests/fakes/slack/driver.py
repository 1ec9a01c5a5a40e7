"""The test's side of the Slack fake: act as its users and read what they see."""

from __future__ import annotations

from segue.testing import peers
from segue.testing.peers import Action
from tests.fakes.slack.control import Control
from tests.fakes.slack.snapshot import Message, Settings, Shown, Thread


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
