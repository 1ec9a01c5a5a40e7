"""The test's side of the Signal fake: act as its users and read what they see."""

from __future__ import annotations

from segue.testing import peers
from segue.testing.peers import Action
from tests.fakes.signal.control import Control
from tests.fakes.signal.snapshot import Message, Settings, Shown, Thread


class Driver(peers.Driver[Settings, str, Message, Thread, Shown]):
    """Acts for the users. A message is identified by its chat and its timestamp."""

    snapshot = Shown

    settings = Action(Control.settings)
    scan = Action(Control.scan)
    user = Action(Control.user)
    chat = Action(Control.chat)
    change = Action(Control.change)
    say = Action(Control.say)
    edit = Action(Control.edit)
    delete = Action(Control.delete)
    react = Action(Control.react)
