"""Where this terminal is: its directory, its address and its name as a lease holder."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from segue.core.address import Address, ChatType, Platform


def here() -> Path:
    """Return the working directory, or home if the directory is gone. A shell may not notice."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path.home()


def address(session_id: str = "terminal") -> Address:
    """Return the terminal's address. Each session has one, so many can be open at once."""
    return Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=session_id)


def holder(program: str = "a terminal") -> str:
    """Return the name under which this process holds a lease."""
    return f"{program} on {socket.gethostname()} (process {os.getpid()})"
