"""Turns: how the agent answers in a session, on every platform."""

from segue.turns.runner import HeldLease as HeldLease
from segue.turns.runner import Place as Place
from segue.turns.runner import Turns as Turns
from segue.turns.runner import hold as hold
