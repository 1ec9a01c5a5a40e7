"""Where this terminal is: its directory, its address, and what others are told of it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from segue.core.address import Address, ChatType, Platform


def here() -> Path:
    """Where we are; at home if the directory is gone, which a shell may not have noticed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path.home()


def address(session_id: str = "terminal") -> Address:
    """A terminal's own: every session has one, so that many can be open in terminals at once."""
    return Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=session_id)


def holder() -> str:
    return f"a terminal on {socket.gethostname()} (process {os.getpid()})"
