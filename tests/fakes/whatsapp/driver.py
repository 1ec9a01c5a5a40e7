"""The test's side of the WhatsApp fake: act as its users and read what they see."""

from __future__ import annotations

from segue.testing import peers
from segue.testing.peers import Action
from tests.fakes.whatsapp.control import Control
from tests.fakes.whatsapp.snapshot import Message, Settings, Shown, Thread


class Driver(peers.Driver[Settings, str, Message, Thread, Shown]):
    """Acts for the users. A chat is its user, by `wa_id`."""

    snapshot = Shown

    settings = Action(Control.settings)
    subscribe = Action(Control.subscribe)
    user = Action(Control.user)
    wrote = Action(Control.wrote)
    block = Action(Control.block)
    say = Action(Control.say)
    send = Action(Control.send)
    react = Action(Control.react)
    press = Action(Control.press)
    edit = Action(Control.edit)
    delete = Action(Control.delete)
    read = Action(Control.read)
    fail_late = Action(Control.fail_late)
