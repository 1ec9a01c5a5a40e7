"""Turns: how the agent answers in a session, on every platform."""

from segue.turns.hold import HeldLease as HeldLease
from segue.turns.hold import hold as hold
from segue.turns.runner import Place as Place
from segue.turns.runner import Turns as Turns
