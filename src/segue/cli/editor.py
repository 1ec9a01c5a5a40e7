"""`segue config edit`: opens the settings file in the user's editor."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from segue import config
from segue.chat.output import notice, say
from segue.core.errors import BadSettings, NoEditor
from segue.core.text import one_line

_USUAL = ("nano", "vi")
_NEW = b"# Settings of Segue. `segue config show` lists them; docs/settings.md explains them.\n"


def edit() -> None:
    """Edit a copy of the settings file, and replace the file with it if it is valid.

    If it is not, show the error and offer to edit again.
    """
    before = config.text()
    # A private folder, because editors leave copies next to the file they edit.
    with tempfile.TemporaryDirectory(prefix="segue-") as folder:
        copy = Path(folder) / "config.toml"
        copy.write_bytes(before or _NEW)
        copy.chmod(0o600)
        while True:
            _open(copy)
            after = copy.read_bytes()
            if after == (before or _NEW):
                say("Nothing was changed.")
                return
            try:
                _take_over(before, after)
            except BadSettings as error:
                _again(error)
            else:
                return


def _open(copy: Path) -> None:
    command = shlex.split(config.editor()) or [name for name in _USUAL if shutil.which(name)][:1]
    if not command:
        raise NoEditor(reason="No editor was found")
    # Ctrl-C is for the editor. Not SIG_IGN, because the editor would inherit it.
    before = signal.signal(signal.SIGINT, _ignore)
    try:
        ended = subprocess.run([*command, str(copy)], check=False).returncode
    except OSError as error:
        reason = f"The editor {one_line(command[0])} cannot be started ({error.strerror})"
        raise NoEditor(reason=reason) from error
    finally:
        signal.signal(signal.SIGINT, before)
    if ended:
        raise NoEditor(reason=f"The editor {one_line(command[0])} failed; nothing was changed")


def _ignore(number: int, frame: object) -> None:
    """Ignore the signal."""


def _take_over(before: bytes, after: bytes) -> None:
    if config.text() != before:
        changed = f"{one_line(str(config.path()))} has changed since you opened it."
        click.confirm(f"{changed} Replace it with yours?", abort=True, err=True)
    path = config.replace(after)
    say(f"Changed {one_line(str(path))}.")


def _again(error: BadSettings) -> None:
    notice(f"The settings are not valid: {one_line(str(error.fields['reason']))}.")
    if not sys.stdin.isatty() or not click.confirm("Edit it again?", default=True, err=True):
        raise error
