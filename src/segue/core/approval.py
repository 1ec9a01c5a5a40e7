"""How much the agent may do without asking, and what a person answers when it asks."""

from __future__ import annotations

from enum import StrEnum


class Policy(StrEnum):
    """How much a person lets the agent do in one place."""

    ASK = "ask"
    ALLOW_LIST = "allow-list"
    AUTO = "auto"


class Answer(StrEnum):
    """What a person says to a call."""

    ONCE = "once"
    SESSION = "session"
    """This very call, as often as it comes in this session."""
    NEVER = "never"
