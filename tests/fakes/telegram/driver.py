"""The test's side of the Telegram fake: act as its users and read what they see."""

from __future__ import annotations

from segue.testing import peers
from segue.testing.peers import Action
from tests.fakes.telegram.control import Control
from tests.fakes.telegram.snapshot import Message, Settings, Shown, Topic


class Driver(peers.Driver[Settings, int, Message, Topic, Shown]):
    """Acts for the users. A message is identified by its chat and its id, because two supergroups
    can have messages with the same id."""

    snapshot = Shown

    bot = Action(Control.bot)
    user = Action(Control.user)
    private = Action(Control.private)
    chat = Action(Control.chat)
    rights = Action(Control.rights)
    publish = Action(Control.publish)
    hide_members = Action(Control.hide_members)
    join = Action(Control.join)
    migrate = Action(Control.migrate)
    say = Action(Control.say)
    edit = Action(Control.edit)
    press = Action(Control.press)
    open_topic = Action(Control.open_topic)
    close_topic = Action(Control.close_topic)
    delete_topic = Action(Control.delete_topic)
    deliver = Action(Control.deliver)
