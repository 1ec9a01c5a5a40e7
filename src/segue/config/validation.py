"""Validation of text in settings: URLs, paths, adapters and time zones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from segue.core.errors import BadSettings

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


def url(given: str, setting: str, path: Path | str) -> str:
    """Return `given` without a trailing slash, or raise BadSettings naming `setting` in `path`."""
    try:
        parts = urlsplit(given)
        whole = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        named = parts.username is not None
    except ValueError:
        whole = named = False
    if named:
        reason = f"{setting}: an address holds no name and no password; put a key into its setting"
        raise BadSettings(path=path, reason=reason)
    if not whole or not given.isprintable():
        raise BadSettings(path=path, reason=f"{setting}: expected http://… or https://…")
    return given.rstrip("/")


def absolute(given: str, setting: str, path: Path | str) -> Path:
    try:
        found = Path(given).expanduser()
    except RuntimeError as error:
        raise BadSettings(path=path, reason=f"{setting}: {error}") from error
    if not found.is_absolute():
        raise BadSettings(path=path, reason=f"{setting}: expected a path that begins with / or ~")
    return found


def adapter(given: str, setting: str, path: Path | str) -> str:
    """Return the name of a function. It is not imported yet."""
    module, colon, function = given.partition(":")
    names = [*module.split("."), function]
    if given and not (colon and all(name.isidentifier() for name in names)):
        raise BadSettings(path=path, reason=f"{setting}: expected package.module:function")
    return given


def zone(given: str, setting: str, path: Path | str) -> ZoneInfo:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - only who names one needs them all

    try:
        return ZoneInfo(given)
    except (KeyError, ValueError, OSError) as error:
        reason = f"{setting}: there is no such time zone; expected one such as Europe/Oslo"
        raise BadSettings(path=path, reason=reason) from error
