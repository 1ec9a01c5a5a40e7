"""The time zone of this machine, including daylight saving time."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

LOCALTIME = Path("/etc/localtime")
_FOLDER = "zoneinfo/"


def of_machine(named: str, localtime: Path = LOCALTIME) -> tzinfo:
    """Return the zone named by the variable TZ, or else the system's zone.

    If neither can be read, return the current UTC offset.
    """
    named = named.strip().removeprefix(":")
    path = Path(named) if named.startswith("/") else localtime
    try:
        if named and path is localtime:
            return ZoneInfo(named)
        with path.open("rb") as file:
            return ZoneInfo.from_file(file, key=_name(path))
    except (KeyError, ValueError, OSError):
        # TZ may also contain a POSIX rule, which only the C library can read.
        return datetime.now().astimezone().tzinfo or UTC


def _name(path: Path) -> str:
    """Return a name such as `Europe/Oslo` if the file links to it, as on most systems."""
    return str(path.resolve()).rpartition(_FOLDER)[2]
