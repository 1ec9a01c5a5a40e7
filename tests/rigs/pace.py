"""A platform's capabilities, without its pauses between messages and edits in a chat: `pace:slack`.

Only the program looks here, which imports the adapter anyway.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from segue.platforms.base import Capabilities


def __getattr__(platform: str) -> Capabilities:
    if platform.startswith("_"):
        raise AttributeError(platform)
    adapter = import_module(f"segue.platforms.{platform}.adapter")
    return replace(adapter.CAPABILITIES, chat_seconds=0.01, edit_seconds=0.05)
