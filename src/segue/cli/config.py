"""`segue config`: shows the settings and their origins, and changes them."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click

import segue.store
from segue import config as settings
from segue.cli import common, completion
from segue.cli.common import JSON
from segue.config import Setting
from segue.core.errors import BadSettings, SettingsError
from segue.core.secret import Secret
from segue.core.text import one_line
from segue.terminal import output
from segue.terminal.output import Column, folded, notice, print_json, print_lines, say, screen

_EDITORS = ("nano", "vi")
_NEW = b"# Settings of Segue. `segue config show` lists them; docs/settings.md explains them.\n"
_HIDDEN = "(hidden)"
_NOTHING = "-"
_NARROW = 60
_PLATFORMS = ("approvals.platforms.", "platforms.")
_COLUMNS = (Column("SETTING", 20), Column("VALUE", 16), Column("FROM", 7))

_NAME = click.argument("name", shell_complete=completion.settings)


@click.group()
def config() -> None:
    """Show or change the settings.

    Settings are in one file. Environment variables override it. docs/settings.md explains each
    setting.
    """


@config.command()
@JSON
def path(*, as_json: bool) -> None:
    """Print the path of the settings file, even if it does not exist."""
    found = settings.path()
    value = {"path": str(found), "exists": found.exists()}
    output.print_result(value, [one_line(str(found))], as_json=as_json)


@config.command()
@JSON
def show(*, as_json: bool) -> None:
    """Show every setting with its value and where the value comes from.

    Secrets are not shown.
    """
    found = settings.explain()
    if as_json:
        print_json([_json(setting) for setting in found])
    else:
        print_lines(_listed(found, screen()))
        for warning in settings.load().warnings:
            notice(f"Warning: {one_line(warning)}")


@config.command()
@_NAME
@JSON
def get(*, name: str, as_json: bool) -> None:
    """Print the value of one setting. A list prints one line per value."""
    name = _current(name)
    found = {setting.name: setting for setting in settings.explain()}
    if name not in found:
        raise settings.schema.unknown(name)
    setting = found[name]
    if as_json:
        print_json(_json(setting))
    elif isinstance(setting.value, tuple):
        for value in setting.value:
            say(one_line(value))
    elif setting.value is not None:
        say(_shown(setting))


@config.command("set")
@_NAME
@click.argument("value", nargs=-1, shell_complete=completion.values)
def set_(*, name: str, value: tuple[str, ...]) -> None:
    """Write VALUE into the settings file and leave the rest as it is.

    For a list, give several values. Leave out a secret to type it without showing it, or to read
    it from standard input.
    """
    name = _current(name)
    if settings.schema.leaf(name).is_secret:
        value = value or (_ask_for(name),)
    elif not value:
        raise click.UsageError(f"No value for {name}. Give one.")
    if name == "store":
        segue.store.parse(value[0])
    path = settings.change(name, value)
    say(f"Set {name} in {one_line(str(path))}.")
    if variable := settings.overruled(name):
        notice(f"The environment variable {variable} is set and overrides it.")
    elif effect := common.effect_on_gateway([name]):
        say(folded(effect, screen()))


def _current(name: str) -> str:
    """Today's name of a setting. Say so if it was renamed."""
    new = settings.current_name(name)
    if new != name:
        notice(f"{name} is called {new} now.")
    return new


def _ask_for(name: str) -> str:
    """Read a key without echoing it."""
    if sys.stdin.isatty():
        given: str = click.prompt(name, hide_input=True, err=True)
    else:
        given = sys.stdin.readline()
    if not given.strip():
        raise click.UsageError(f"No value for {name}. Give one.")
    return given.strip()


@config.command()
def edit() -> None:
    """Edit the settings file in your editor. It is replaced only if the result is valid."""
    before = settings.text()
    # A private folder, because editors leave copies next to the file they edit.
    with tempfile.TemporaryDirectory(prefix="segue-") as folder:
        copy = Path(folder) / "config.toml"
        copy.write_bytes(before or _NEW)
        copy.chmod(0o600)
        while (after := _edited(copy)) != (before or _NEW):
            try:
                _replace_file(before, after)
            except BadSettings as error:
                _ask_to_edit_again(error)
            else:
                return
    say("Nothing was changed.")


def _edited(copy: Path) -> bytes:
    """Open the editor, and return what it saved."""
    command = shlex.split(settings.editor()) or list(filter(shutil.which, _EDITORS))[:1]
    if not command:
        raise _no_editor("No editor was found")
    # Ctrl-C is for the editor. Not SIG_IGN, because the editor would inherit it.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        ended = subprocess.run([*command, str(copy)], check=False).returncode
    except OSError as error:
        reason = f"The editor {one_line(command[0])} cannot be started ({error.strerror})"
        raise _no_editor(reason) from error
    finally:
        signal.signal(signal.SIGINT, before)
    if ended:
        raise _no_editor(f"The editor {one_line(command[0])} failed; nothing was changed")
    return copy.read_bytes()


def _no_editor(reason: str) -> SettingsError:
    return SettingsError(f"{reason}. Set EDITOR to your editor, or type `segue config set`.")


def _replace_file(before: bytes, after: bytes) -> None:
    if settings.text() != before:
        changed = f"{one_line(str(settings.path()))} has changed since you opened it."
        if not click.confirm(f"{changed} Replace it with yours?", err=True):
            raise common.Declined
    old = _explained()
    path = settings.replace(after)
    say(f"Changed {one_line(str(path))}.")
    changed = {setting.name for setting in _explained() - old} if old else set[str]()
    if effect := common.effect_on_gateway(changed):
        say(folded(effect, screen()))


def _explained() -> set[Setting]:
    """The settings now; empty if their file is not valid."""
    try:
        return set(settings.explain())
    except BadSettings:
        return set()


def _ask_to_edit_again(error: BadSettings) -> None:
    notice(f"The settings are not valid: {one_line(str(error.fields['reason']))}.")
    if not sys.stdin.isatty() or not click.confirm("Edit it again?", default=True, err=True):
        raise error


def _listed(found: Sequence[Setting], width: int | None) -> list[str]:
    """Return a table, or tab-separated name, value and origin if there is no screen.

    Settings of platforms are left out where they have the default.
    """
    rows = [
        (setting.name, _shown(setting), setting.origin)
        for setting in found
        if not (setting.name.startswith(_PLATFORMS) and setting.origin == "default")
    ]
    if width is None:
        return ["\t".join(row) for row in rows]
    if width < _NARROW:
        return [
            folded(f"{name} = {value or _NOTHING} ({origin})", width, "    ", "")
            for name, value, origin in rows
        ]
    return output.table(_COLUMNS, [(n, v or _NOTHING, o) for n, v, o in rows], width)


def _shown(setting: Setting) -> str:
    value = _value(setting)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(map(one_line, cast("tuple[str, ...]", value)))
    if isinstance(value, float):
        return f"{value:g}"
    return _HIDDEN if _is_hidden(setting) else one_line(str(value or ""))


def _value(setting: Setting) -> Any:
    if _is_hidden(setting):
        return None
    if setting.name == "store":
        return segue.store.shown(str(setting.value))
    return setting.value


def _is_hidden(setting: Setting) -> bool:
    return isinstance(setting.value, Secret)


def _json(setting: Setting) -> dict[str, Any]:
    return {
        "name": setting.name,
        "value": _value(setting),
        "hidden": _is_hidden(setting),
        "origin": setting.origin,
    }
