"""Segue's own files and folders."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import platformdirs

from segue.config import validation
from segue.config.environment import ENVIRONMENT
from segue.config.values import Settings
from segue.core.errors import HistoryUnwritable
from segue.system import files


def settings_file(environ: Mapping[str, str]) -> Path:
    if named := environ.get("SEGUE_CONFIG"):
        return validation.absolute(named, "SEGUE_CONFIG", ENVIRONMENT)
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
