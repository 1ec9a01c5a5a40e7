"""`segue restore`: puts the store, the settings and the keys of a backup in place."""

from __future__ import annotations

import ctypes
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from segue import config
from segue.cli.backup import KEYS, PLATFORMS, SETTINGS
from segue.cli.common import JSON, show_step
from segue.core.text import count, one_line
from segue.store import archives, errors, restores
from segue.store.archives import StagingFolder
from segue.system import files
from segue.terminal.output import notice, print_result

_KEPT = "Kept what was there: {name}"
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace a store that was used after the backup.")
@JSON
def restore(*, file: Path, force: bool, as_json: bool) -> None:
    """Put the store, the settings and the keys from FILE in place.

    Stop the gateway and close all terminals first. FILE is checked before anything changes.
    Replaced data is kept beside the new data, under a name with the time.
    """
    path = file.absolute()
    passphrase = _passphrase(path) if archives.is_encrypted(path) else ""
    staged = StagingFolder(config.private_data_folder(), "restore")
    parts = staged.parts
    replaced: list[str] = []
    is_complete = False
    try:
        with show_step("Checking the backup") as progress:
            manifest = archives.unpack(path, parts, passphrase, progress)
        settings = parts / SETTINGS
        url = config.store_address(settings if settings.exists() else None)
        with show_step("Checking its store"):
            restores.check(url, parts, manifest, path)
        stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
        with show_step("Restoring the store") as progress:
            kept = restores.replace(url, parts, manifest, path, stamp, progress, force=force)
        replaced.append(kept)
        for platform in PLATFORMS:
            keys = parts / KEYS / platform
            if keys.is_dir():
                with show_step(f"Restoring the keys for {platform.capitalize()}"):
                    replaced.append(_replace_folder(config.platform_folder(platform), keys, stamp))
        if settings.exists():
            with show_step("Restoring the settings"):
                replaced.append(_replace_settings(settings.read_bytes(), stamp))
        is_complete = True
    except OSError as error:
        raise archives.unwritable(error, parts) from error
    finally:
        staged.remove()
        replaced = [name for name in replaced if name]
        if not is_complete:
            for name in replaced:
                notice(_KEPT.format(name=one_line(name)))
    value = {"sessions": manifest.store.sessions, "made": manifest.made, "replaced": replaced}
    origin = f"made on {manifest.made:%Y-%m-%d %H:%M} UTC by Segue {manifest.program}"
    restored = count(manifest.store.sessions, "session")
    lines = [
        f"Restored {restored} from {one_line(str(path))}, {origin}.",
        *(_KEPT.format(name=one_line(name)) for name in replaced),
        "To start, type `segue gateway start` or `segue`.",
    ]
    print_result(value, lines, as_json=as_json)


def _passphrase(path: Path) -> str:
    if sys.stdin.isatty():
        return click.prompt("Passphrase", hide_input=True, err=True)
    given = sys.stdin.readline().rstrip("\n")
    if not given:
        raise errors.backup_encrypted(path)
    return given


def _replace_settings(raw: bytes, stamp: str) -> str:
    path = config.path()
    if config.text() == raw:
        return ""
    kept = path.with_name(f"{path.name}.before-{stamp}")
    if path.exists():
        restores.link_or_copy(path, kept)
    config.file.replace(path, raw)
    return str(kept) if kept.exists() else ""


def _replace_folder(path: Path, new: Path, stamp: str) -> str:
    """Put the folder `new` at `path` in one step. Return where the old one is; empty if there was
    none."""
    if not path.exists():
        new.rename(path)
        return ""
    kept = path.with_name(f"{path.name}.before-{stamp}")
    if _exchange(new, path):
        new.rename(kept)
    else:
        path.rename(kept)
        new.rename(path)
    files.sync_folder(path.parent)
    return str(kept)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step. Return False where the system cannot."""
    swap = getattr(ctypes.CDLL(None), "renameat2", None)
    if swap is None:
        return False
    names = os.fsencode(one), os.fsencode(other)
    return swap(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0
