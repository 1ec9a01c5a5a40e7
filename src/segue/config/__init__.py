"""Settings: the only reader of files and environment that are not the store's own.

They come from one file, `config.toml` in the person's own configuration folder, and from the
environment, which wins. Nothing is ever read from the working directory: a folder that somebody
else made must not decide which server hears a conversation.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

import platformdirs

from segue.config import file
from segue.config.values import KEY_VARIABLES as KEY_VARIABLES
from segue.config.values import Approvals as Approvals
from segue.config.values import Endpoint as Endpoint
from segue.config.values import Secret as Secret
from segue.config.values import Settings as Settings
from segue.core.address import Platform
from segue.core.errors import BadSettings

VARIABLES = (
    "SEGUE_CONFIG",
    "SEGUE_STORE",
    "SEGUE_MODEL",
    "SEGUE_MODELS",
    "OPENAI_BASE_URL",
    *(variable for variables in KEY_VARIABLES.values() for variable in variables),
)
"""Everything that we read from the environment."""

_ENVIRONMENT = "the environment"


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings as they are now, or BadSettings, which names the setting and what it may be."""
    environ = os.environ if environ is None else environ
    path = _path(environ)
    found = file.read(path)
    contents = file.parse(found[0], path) if found else file.Contents()
    model = environ.get("SEGUE_MODEL", "").strip()
    given = model or contents.model.strip()
    approvals = contents.approvals
    return Settings(
        path=path,
        store=environ.get("SEGUE_STORE") or contents.store or _default_store(),
        models_folder=_models_folder(environ, contents, path),
        idle_minutes=contents.idle_minutes,
        model=given or None,
        model_from="SEGUE_MODEL" if model else f"model in {path}" if given else "",
        keys=_keys(environ, contents, path),
        openai_url=_openai_url(environ),
        endpoints={
            name: _endpoint(name, table, path) for name, table in contents.endpoints.items()
        },
        approvals=Approvals(
            policy=approvals.policy,
            platforms={Platform(name): policy for name, policy in approvals.platforms.items()},
            allowed_commands=approvals.allowed_commands,
        ),
        private_network=contents.private_network,
        warnings=tuple(
            file.warnings(path, found[1], contents) if found else _missing(environ, path)
        ),
    )


def set_model(name: str, environ: Mapping[str, str] | None = None) -> Path:
    """Make `name` the model in the settings file; the rest of the file stays as it is."""
    path = _path(os.environ if environ is None else environ)
    file.write(path, "model", name)
    return path


def tool_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment as the agent's commands may see it: without any secret of ours."""
    hidden = secret_names()
    everything = os.environ if environ is None else environ
    return {name: value for name, value in everything.items() if name not in hidden}


def history() -> Path:
    """The file that remembers what was typed, for its person alone."""
    path = Path(platformdirs.user_state_dir("segue", appauthor=False, ensure_exists=True)) / "typed"
    path.touch(mode=0o600)
    return path


def terminal_variables() -> dict[str, str]:
    """What the environment says about the terminal."""
    names = ("NO_COLOR", "TERM")
    return {name: os.environ[name] for name in names if name in os.environ}


def secret_names() -> frozenset[str]:
    """The variables that may hold a secret of ours, which no command of the agent's may see."""
    # The address of a store may hold its password.
    return frozenset({"SEGUE_STORE", *(v for several in KEY_VARIABLES.values() for v in several)})


def _path(environ: Mapping[str, str]) -> Path:
    if named := environ.get("SEGUE_CONFIG"):
        return _absolute(named, "SEGUE_CONFIG", _ENVIRONMENT)
    return Path(platformdirs.user_config_dir("segue", appauthor=False)) / "config.toml"


def _missing(environ: Mapping[str, str], path: Path) -> list[str]:
    named = bool(environ.get("SEGUE_CONFIG"))
    return [f"SEGUE_CONFIG names {path}, but there is no such file."] if named else []


def _keys(environ: Mapping[str, str], contents: file.Contents, path: Path) -> dict[str, Secret]:
    keys: dict[str, Secret] = {}
    for name, variables in KEY_VARIABLES.items():
        held = {variable: environ.get(variable, "") for variable in variables}
        held[f"keys.{name} in {path}"] = contents.keys.get(name, "")
        for setting, value in held.items():
            if value.strip():
                keys[name] = Secret(value.strip(), setting)
                break
    return keys


def _endpoint(name: str, table: file.EndpointTable, path: Path) -> Endpoint:
    key, setting = table.key.strip(), f"endpoints.{name}"
    return Endpoint(
        name=name,
        url=_url(table.url, f"{setting}.url", path),
        key=Secret(key, f"{setting}.key in {path}") if key else None,
        context=table.context,
        images=table.images,
        small=table.small,
    )


def _openai_url(environ: Mapping[str, str]) -> str | None:
    given = environ.get("OPENAI_BASE_URL", "").strip()
    return _url(given, "OPENAI_BASE_URL", _ENVIRONMENT) if given else None


def _url(given: str, setting: str, path: Path | str) -> str:
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


def _absolute(given: str, setting: str, path: Path | str) -> Path:
    try:
        found = Path(given).expanduser()
    except RuntimeError as error:
        raise BadSettings(path=path, reason=f"{setting}: {error}") from error
    if not found.is_absolute():
        raise BadSettings(path=path, reason=f"{setting}: expected a path that begins with / or ~")
    return found


def _models_folder(environ: Mapping[str, str], contents: file.Contents, path: Path) -> Path:
    if named := environ.get("SEGUE_MODELS"):
        return _absolute(named, "SEGUE_MODELS", _ENVIRONMENT)
    if contents.models_folder:
        return _absolute(contents.models_folder, "models_folder", path)
    return Path(platformdirs.user_data_dir("segue", appauthor=False)) / "models"


def _default_store() -> str:
    """A file in the person's own data folder, which is made, for them alone, if need be."""
    folder = Path(platformdirs.user_data_dir("segue", appauthor=False))
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    return f"sqlite://{quote(str(folder / 'segue.db'))}"
