"""Approval policies, and the user's answers when the agent asks."""

from __future__ import annotations

from enum import StrEnum


class Policy(StrEnum):
    """How much the agent may do without asking."""

    ASK = "ask"
    ALLOW_LIST = "allow-list"
    AUTO = "auto"


class Answer(StrEnum):
    """The user's answer to a tool call."""

    ONCE = "once"
    SESSION = "session"
    """Allow this exact call for the rest of the session."""
    NEVER = "never"
