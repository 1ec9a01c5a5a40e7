"""Turns: how a conversation goes on, wherever it takes place."""

from segue.turns.hold import Held as Held
from segue.turns.hold import hold as hold
from segue.turns.runner import Place as Place
from segue.turns.runner import Turns as Turns
