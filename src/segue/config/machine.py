"""This machine: where Segue's own files are, how the user runs the program, and the time zone."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit
from zoneinfo import ZoneInfo

import platformdirs

from segue.config.settings import Settings, absolute_path
from segue.core.errors import BadSettings, HistoryUnwritable
from segue.system import files

ENVIRONMENT = "the environment"
"""What messages call the environment variables."""
NAME = "segue"
LOCALTIME = Path("/etc/localtime")

# Files and folders


def settings_file(environ: Mapping[str, str]) -> Path:
    if named := environ.get("SEGUE_CONFIG"):
        try:
            return absolute_path(named)
        except ValueError as error:
            raise BadSettings(path=ENVIRONMENT, reason=f"SEGUE_CONFIG: {error}") from error
    return Path(platformdirs.user_config_dir("segue", appauthor=False)) / "config.toml"


def data() -> Path:
    """Return the user's data folder, which may not exist."""
    return Path(platformdirs.user_data_dir("segue", appauthor=False))


def default_store() -> str:
    """Return the URL of a file in the data folder, and create the folder with mode 0700.

    If the folder cannot be created, opening the store reports it.
    """
    folder = data()
    with contextlib.suppress(OSError):
        private_data_folder()
    return f"sqlite://{quote(str(folder / 'segue.db'))}"


def private_data_folder() -> Path:
    """Return the user's data folder. Create it with mode 0700 if it does not exist."""
    folder = data()
    files.make_folder(folder)
    return folder


def private_places(settings: Settings) -> tuple[Path, ...]:
    """Return Segue's own files and folders: keys, conversations, logs and input history."""
    places = [
        settings.path,
        Path(platformdirs.user_config_dir("segue", appauthor=False)),
        data(),
        Path(platformdirs.user_state_dir("segue", appauthor=False)),
        settings.gateway_log,
        attachments(settings, ""),
    ]
    if settings.store.startswith("sqlite:"):
        path = unquote(urlsplit(settings.store).path)
        places += [Path(f"{path}{end}") for end in ("", "-wal", "-shm", "-journal")]
    return tuple(places)


def attachments(settings: Settings, session_id: str) -> Path:
    """Return the folder for files that came into a session with messages."""
    return settings.gateway_log.parent / "files" / session_id


def platform_folder(name: str) -> Path:
    """Return the folder for what a platform's adapter has to keep. It may not exist."""
    return data() / name


def history() -> Path:
    """Return the input history file, readable by the user only, or raise HistoryUnwritable."""
    path = Path(platformdirs.user_state_dir("segue", appauthor=False)) / "typed"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        with path.open("ab"):
            return path
    except OSError as error:
        raise HistoryUnwritable(path=path, reason=error.strerror or error) from error


# The program


def command_name(environ: Mapping[str, str]) -> str:
    """Return `segue` if it is on the PATH, or else the path of the program, quoted for a shell.

    The path is relative if the program is inside the directory of the user's shell.
    """
    if shutil.which(NAME, path=environ.get("PATH", "")):
        return NAME
    program = Path(sys.prefix) / "bin" / NAME
    directory = environ.get("PWD", "")
    # Not the working directory: a resumed session changes it, but not that of the shell.
    if directory and program.is_relative_to(directory) and program.parent != Path(directory):
        program = program.relative_to(directory)
    return shlex.quote(str(program))


# The time zone


def time_zone(named: str, localtime: Path = LOCALTIME) -> tzinfo:
    """Return the zone named by the variable TZ, or else the system's zone.

    If neither can be read, return the current UTC offset.
    """
    named = named.strip().removeprefix(":")
    path = Path(named) if named.startswith("/") else localtime
    try:
        if named and path is localtime:
            return ZoneInfo(named)
        with path.open("rb") as file:
            return ZoneInfo.from_file(file, key=_zone_name(path))
    except (KeyError, ValueError, OSError):
        # TZ may also contain a POSIX rule, which only the C library can read.
        return datetime.now().astimezone().tzinfo or UTC


def _zone_name(path: Path) -> str:
    """Return a name such as `Europe/Oslo` if the file links to it, as on most systems."""
    return str(path.resolve()).rpartition("zoneinfo/")[2]
