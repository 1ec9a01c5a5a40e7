"""Settings. Only this package reads files and environment variables that are not the store's.

Settings come from one file, `config.toml` in the user's configuration folder, and from the
environment, which takes precedence. Nothing is ever read from the working directory: a folder made
by someone else must not decide which server receives a conversation.

Each setting is described once, in `settings`: a field of a struct, with its type, its default and
what docs/settings.md says about it. To add one, add a field. The rest follows from the fields:

- `schema` reads the names and types of all settings off the structs, as a tree.
- `file` reads config.toml, changes one setting in it, and takes care of files of other versions.
- `environment` lays the variables over the tables of the file, and keeps secrets from others.
- `loader` makes the structs out of that, or says which setting is wrong and what it should be. It
  also says where each value comes from.
- `machine` knows the folders, the program's name and the time zone, on which defaults depend.

The functions here are for the rest of the program. They use the environment of the process, except
where a test gives another one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from segue.config import environment, file, loader, machine
from segue.config import schema as schema
from segue.config.environment import hide_secrets as hide_secrets
from segue.config.environment import secret_names as secret_names
from segue.config.loader import Setting as Setting
from segue.config.loader import changed as changed
from segue.config.machine import attachments as attachments
from segue.config.machine import history as history
from segue.config.machine import platform_folder as platform_folder
from segue.config.machine import private_data_folder as private_data_folder
from segue.config.machine import private_places as private_places
from segue.config.settings import KEY_VARIABLES as KEY_VARIABLES
from segue.config.settings import Approvals as Approvals
from segue.config.settings import Endpoint as Endpoint
from segue.config.settings import ResetSettings as ResetSettings
from segue.config.settings import Settings as Settings
from segue.config.settings import WebSettings as WebSettings
from segue.config.settings import url as url
from segue.core.errors import BadSettings

RELOADED = frozenset(
    {"model", "keys", "endpoints", "server_accounts", "approvals", "private_network"}
    | {"platforms", "reset"}
)
"""The settings, or their tables, that a running gateway uses as soon as they change."""


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings, or raise BadSettings with the setting's name and valid values."""
    return loader.load(os.environ if environ is None else environ)


def store_address(of: Path | None = None) -> str:
    """Return the store's address, with the settings file `of` if one is given.

    Errors in other settings are ignored. Raise BadSettings if the address is not clear.
    """
    environ = {**os.environ, "SEGUE_CONFIG": str(of)} if of else os.environ
    return loader.store_address(environ)


def gateway_log() -> Path:
    """Return the gateway's log file, like `store_address`."""
    return loader.gateway_log(os.environ)


def path(environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the settings file, which may not exist."""
    return machine.settings_file(os.environ if environ is None else environ)


def explain(environ: Mapping[str, str] | None = None) -> tuple[Setting, ...]:
    """Return each setting with its value and origin. Raises BadSettings like `load`."""
    return loader.explain(os.environ if environ is None else environ)


def change(name: str, given: Sequence[str], environ: Mapping[str, str] | None = None) -> Path:
    """Set the setting `name` in the file to `given`, and leave the rest of the file unchanged.

    Raises SettingsError if there is no such setting or the file would become invalid, or
    BadSettings if it is invalid already.
    """
    whole = path(environ)
    found = file.read(whole)
    before = found[0] if found else b""
    old_names = [old for old, new in file.RENAMED.items() if new == name]
    value = file.value(name, given)
    try:
        after = file.with_record(file.changed(before, name, value, whole, old_names))
        loader.check(after, whole)
    except BadSettings as error:
        if (broken := _error_in(before, whole)) is not None:
            reason = broken.fields["reason"]
            raise BadSettings(
                f"Nothing was changed: {whole} has an error already: {reason}. Type `segue config"
                " edit` to fix it.",
                path=whole,
                reason=reason,
            ) from broken
        raise schema.refused(str(error.fields["reason"])) from error
    file.replace(whole, after)
    return whole


def _error_in(raw: bytes, path: Path) -> BadSettings | None:
    """Return the first error in a settings file, or None."""
    try:
        loader.check(raw, path)
    except BadSettings as error:
        return error
    return None


def current_name(name: str) -> str:
    """Return today's name of a setting that was renamed, and any other name as it is."""
    return file.RENAMED.get(name, name)


def is_default(name: str, environ: Mapping[str, str] | None = None) -> bool:
    """Return whether neither the file nor the environment sets `name`."""
    origin = {setting.name: setting.origin for setting in explain(environ)}
    return origin[name] == loader.DEFAULT


def set_model(name: str, environ: Mapping[str, str] | None = None) -> Path:
    """Set the model in the settings file, and leave the rest of the file unchanged."""
    return change("model", [name], environ)


def overruled(name: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the environment variable that overrides `name` in the file, or an empty string."""
    return environment.decides(os.environ if environ is None else environ, name)


def text(environ: Mapping[str, str] | None = None) -> bytes:
    """Return the contents of the settings file, valid or not; empty if there is no file."""
    found = file.read(path(environ))
    return found[0] if found else b""


def written(environ: Mapping[str, str] | None = None) -> int:
    """Return when the settings file was written last, in nanoseconds; 0 if there is no file."""
    try:
        return path(environ).stat().st_mtime_ns
    except OSError:
        return 0


def touch(environ: Mapping[str, str] | None = None) -> None:
    """Let a running gateway read the settings again, although they say the same."""
    file.replace(path(environ), text(environ))


def replace(raw: bytes, environ: Mapping[str, str] | None = None) -> Path:
    """Replace the settings file with `raw`, or raise BadSettings and change nothing."""
    whole = path(environ)
    loader.check(raw, whole)
    file.replace(whole, file.with_record(raw))
    return whole


def editor(environ: Mapping[str, str] | None = None) -> str:
    """Return the command that opens the user's editor, or an empty string if none is set."""
    environ = os.environ if environ is None else environ
    return environ.get("VISUAL", "").strip() or environ.get("EDITOR", "").strip()


def tool_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for the agent's commands: without any of Segue's secrets."""
    hidden = secret_names()
    everything = os.environ if environ is None else environ
    return {name: value for name, value in everything.items() if name not in hidden}


def command_name(environ: Mapping[str, str] | None = None) -> str:
    """Return what the user types in a shell to run this program."""
    return machine.command_name(os.environ if environ is None else environ)


def is_reloaded(name: str) -> bool:
    """Return whether a running gateway uses a new value of the setting `name` without a restart."""
    return name.partition(".")[0] in RELOADED


def terminal_variables() -> dict[str, str]:
    """Return the environment variables that describe the terminal."""
    names = ("NO_COLOR", "TERM", "XTERM_VERSION")
    return {name: os.environ[name] for name in names if name in os.environ}
