"""`segue backup`: saves the store, the settings and the keys in one file, while programs run."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from segue import config
from segue.cli.common import JSON, show_step, warn_of_bad_settings
from segue.core.address import Platform
from segue.core.errors import UserError
from segue.core.text import count, one_line
from segue.store import archives, backups, errors, restores
from segue.store.archives import StagingFolder
from segue.system import files
from segue.terminal.output import print_result

SETTINGS = "config.toml"
KEYS = "keys"
PLATFORMS = (Platform.MATRIX,)
"""Platforms with keys that cannot be made again: they decrypt the messages of its rooms."""
_PASSING = (".lock", "-wal", "-shm", "-journal")
"""Endings of files that are of no use in a copy."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--encrypt", is_flag=True, help="Ask for a passphrase, and encrypt the file with it.")
@JSON
def backup(*, file: Path, encrypt: bool, as_json: bool) -> None:
    """Save the store, the settings and the keys in FILE.

    Programs may keep running. FILE holds secrets, and only you can read it. To restore it, type
    `segue restore FILE`.
    """
    path = file.absolute()
    url = config.store_address()
    warn_of_bad_settings()
    if os.path.lexists(path):
        raise errors.backup_exists(path)
    if not path.parent.is_dir():
        raise UserError(
            f"The backup {path} cannot be written: there is no folder {path.parent}. Nothing was"
            f" changed. Type `mkdir -p {path.parent}`, or name a file in another folder."
        )
    passphrase = _new_passphrase() if encrypt else ""
    staged = StagingFolder(config.private_data_folder(), "backup")
    parts = staged.parts
    try:
        with show_step("Copying the store") as progress:
            state = restores.copy_store(url, parts, progress)
        if text := config.text():
            with show_step("Copying the settings"):
                (parts / SETTINGS).write_bytes(text)
        for platform in PLATFORMS:
            folder = config.platform_folder(platform)
            if folder.is_dir():
                with show_step(f"Copying the keys for {platform.capitalize()}"):
                    _copy_keys(folder, parts / KEYS / platform)
        with show_step("Writing the backup") as progress:
            manifest = archives.write(parts, path, state, datetime.now(UTC), passphrase, progress)
    except OSError as error:
        raise archives.unwritable(error, path) from error
    finally:
        staged.remove()
    value = {"path": str(path), "sessions": state.sessions, "encrypted": encrypt}
    saved = ["the store"]
    if text:
        saved.append("the settings")
    if any(f.name.startswith(KEYS) for f in manifest.files):
        saved.append("the keys for Matrix")
    listed = " and ".join([", ".join(saved[:-1]), saved[-1]] if saved[1:] else saved)
    lines = [f"Saved {listed} in {one_line(str(path))}: {count(state.sessions, 'session')}."]
    if not encrypt:
        lines.append("It is not encrypted, and may hold secrets such as keys. Keep it safe.")
    lines += [
        f"To use it, type `segue restore {one_line(str(path))}`.",
    ]
    print_result(value, lines, as_json=as_json)


def _new_passphrase() -> str:
    archives.require_encryption()
    if not sys.stdin.isatty():
        given = sys.stdin.readline().rstrip("\n")
    else:
        given = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True)
    if not given:
        raise click.UsageError("The passphrase is empty. Give one.")
    return given


def _copy_keys(folder: Path, target: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name.endswith(_PASSING):
            continue
        copy = target / path.relative_to(folder)
        files.make_folder(copy.parent)
        backups.copy_file(path, copy)
