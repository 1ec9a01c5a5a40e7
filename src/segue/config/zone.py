"""The time zone of this machine, with its changes between summer and winter."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

LOCALTIME = Path("/etc/localtime")
_FOLDER = "zoneinfo/"


def of_machine(named: str, localtime: Path = LOCALTIME) -> tzinfo:
    """What the variable TZ names, if it does, or else the system's own; where neither can be read,
    the distance to UTC that holds now."""
    named = named.strip().removeprefix(":")
    path = Path(named) if named.startswith("/") else localtime
    try:
        if named and path is localtime:
            return ZoneInfo(named)
        with path.open("rb") as file:
            return ZoneInfo.from_file(file, key=_name(path))
    except (KeyError, ValueError, OSError):
        # TZ may also spell out a rule, which only the C library reads.
        return datetime.now().astimezone().tzinfo or UTC


def _name(path: Path) -> str:
    """`Europe/Oslo`, where the file is a link to it, as on most systems."""
    return str(path.resolve()).rpartition(_FOLDER)[2]
