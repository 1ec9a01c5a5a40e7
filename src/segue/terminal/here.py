"""The directory in which the program was started."""

from __future__ import annotations

from pathlib import Path


def here() -> Path:
    """Where we are; at home if the directory is gone, which a shell may not have noticed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path.home()
