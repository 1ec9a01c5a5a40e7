"""Settings. Only this package reads files and environment variables that are not the store's.

Settings come from one file, `config.toml` in the user's configuration folder, and from the
environment, which takes precedence. Nothing is ever read from the working directory: a folder made
by someone else must not decide which server receives a conversation.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta, tzinfo
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import platformdirs

from segue.config import environment, file, names, origins, validation, zone
from segue.config.environment import ENVIRONMENT, decides
from segue.config.environment import VARIABLES as VARIABLES
from segue.config.environment import hide_secrets as hide_secrets
from segue.config.environment import secret_names as secret_names
from segue.config.origins import Setting as Setting
from segue.config.values import KEY_VARIABLES as KEY_VARIABLES
from segue.config.values import Approvals as Approvals
from segue.config.values import Endpoint as Endpoint
from segue.config.values import Groups as Groups
from segue.config.values import PlatformSettings as PlatformSettings
from segue.config.values import Secret as Secret
from segue.config.values import Settings as Settings
from segue.config.values import WebSettings as WebSettings
from segue.core.address import Platform
from segue.core.errors import BadSettings, HistoryUnwritable, SettingRefused
from segue.core.handoff import TARGETS
from segue.core.reset import ResetPolicies, ResetPolicy


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings, or raise BadSettings with the setting's name and valid values."""
    environ = os.environ if environ is None else environ
    path = _path(environ)
    found = file.read(path)
    contents = file.parse(found[0], path) if found else file.Contents()
    variable, model = decides(environ, "model")
    given = model or contents.model.strip()
    approvals = contents.approvals
    return Settings(
        path=path,
        store=decides(environ, "store")[1] or contents.store or _default_store(),
        models_folder=_in_data(environ, contents.models_folder, "models_folder", path, "models"),
        idle_minutes=contents.idle_minutes,
        gateway_log=_in_data(environ, contents.gateway_log, "gateway_log", path, "gateway.log"),
        zone=_zone(environ, contents, path),
        model=given or None,
        model_from=variable or (f"model in {path}" if given else ""),
        server_accounts=contents.server_accounts,
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
        platforms=_platforms(environ, contents, path),
        web=WebSettings(
            enabled=contents.web.enabled, port=contents.web.port or None, lan=contents.web.lan
        ),
        resets=_resets(contents.reset),
        private_network=contents.private_network,
        warnings=tuple(
            file.warnings(path, found[1], contents) if found else _missing(environ, path)
        ),
    )


def path(environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the settings file, which may not exist."""
    return _path(os.environ if environ is None else environ)


def explain(environ: Mapping[str, str] | None = None) -> tuple[Setting, ...]:
    """Return each setting with its value and origin. Raises BadSettings like `load`."""
    environ = os.environ if environ is None else environ
    settings = load(environ)
    found = file.read(settings.path)
    return origins.explain(
        settings,
        file.tables(found[0], settings.path) if found else {},
        {origins.OPENAI_URL: origins.OPENAI_URL}
        | {name: decides(environ, name)[0] for name in environment.OVERRULE},
    )


def change(name: str, given: Sequence[str], environ: Mapping[str, str] | None = None) -> Path:
    """Set the setting `name` in the file to `given`, and leave the rest of the file unchanged.

    Raises UnknownSetting, or SettingRefused if the file would become invalid.
    """
    path = _path(os.environ if environ is None else environ)
    found = file.read(path)
    after = names.changed(found[0] if found else b"", name, names.value(name, given), path)
    try:
        _check(after, path)
    except BadSettings as error:
        raise SettingRefused(reason=error.fields["reason"]) from error
    file.replace(path, after)
    return path


def set_model(name: str, environ: Mapping[str, str] | None = None) -> Path:
    """Set the model in the settings file, and leave the rest of the file unchanged."""
    return change("model", [name], environ)


def overruled(name: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the environment variable that overrides `name` in the file, or an empty string."""
    environ = os.environ if environ is None else environ
    return decides(environ, name)[0]


def text(environ: Mapping[str, str] | None = None) -> bytes:
    """Return the contents of the settings file, valid or not; empty if there is no file."""
    found = file.read(path(environ))
    return found[0] if found else b""


def replace(raw: bytes, environ: Mapping[str, str] | None = None) -> Path:
    """Replace the settings file with `raw`, or raise BadSettings and change nothing."""
    whole = path(environ)
    _check(raw, whole)
    file.replace(whole, raw)
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


def private_places(settings: Settings) -> tuple[Path, ...]:
    """Return Segue's own files and folders: keys, conversations, logs and input history."""
    places = [
        settings.path,
        Path(platformdirs.user_config_dir("segue", appauthor=False)),
        Path(platformdirs.user_data_dir("segue", appauthor=False)),
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


def terminal_variables() -> dict[str, str]:
    """Return the environment variables that describe the terminal."""
    names = ("NO_COLOR", "TERM")
    return {name: os.environ[name] for name in names if name in os.environ}


def _path(environ: Mapping[str, str]) -> Path:
    if named := environ.get("SEGUE_CONFIG"):
        return validation.absolute(named, "SEGUE_CONFIG", ENVIRONMENT)
    return Path(platformdirs.user_config_dir("segue", appauthor=False)) / "config.toml"


def _check(raw: bytes, path: Path) -> None:
    """Raise BadSettings if `raw` is not a valid settings file. The environment is ignored."""
    contents = file.parse(raw, path)
    for name, table in contents.endpoints.items():
        _endpoint(name, table, path)
    _in_data({}, contents.models_folder, "models_folder", path, "")
    _in_data({}, contents.gateway_log, "gateway_log", path, "")
    _platforms({}, contents, path)
    _zone({}, contents, path)


def _missing(environ: Mapping[str, str], path: Path) -> list[str]:
    named = bool(environ.get("SEGUE_CONFIG"))
    return [f"SEGUE_CONFIG names {path}, but there is no such file."] if named else []


def _keys(environ: Mapping[str, str], contents: file.Contents, path: Path) -> dict[str, Secret]:
    keys: dict[str, Secret] = {}
    for name in KEY_VARIABLES:
        variable, value = decides(environ, f"keys.{name}")
        if key := value or contents.keys.get(name, "").strip():
            keys[name] = Secret(key, variable or f"keys.{name} in {path}")
    return keys


def _endpoint(name: str, table: file.EndpointTable, path: Path) -> Endpoint:
    key, setting = table.key.strip(), f"endpoints.{name}"
    return Endpoint(
        name=name,
        url=validation.url(table.url, f"{setting}.url", path),
        key=Secret(key, f"{setting}.key in {path}") if key else None,
        context=table.context,
        images=table.images,
        small=table.small,
    )


def _openai_url(environ: Mapping[str, str]) -> str | None:
    given = environ.get("OPENAI_BASE_URL", "").strip()
    return validation.url(given, "OPENAI_BASE_URL", ENVIRONMENT) if given else None


def _in_data(environ: Mapping[str, str], given: str, setting: str, path: Path, usual: str) -> Path:
    """Return the configured path, or `usual` in the user's data folder."""
    variable, named = decides(environ, setting)
    if named:
        return validation.absolute(named, variable, ENVIRONMENT)
    if given:
        return validation.absolute(given, setting, path)
    return Path(platformdirs.user_data_dir("segue", appauthor=False)) / usual


def _platforms(
    environ: Mapping[str, str], contents: file.Contents, path: Path
) -> dict[Platform, PlatformSettings]:
    found: dict[Platform, PlatformSettings] = {}
    for platform in TARGETS:
        name = f"platforms.{platform}"
        table = contents.platforms.get(platform)
        url_from, url = decides(environ, f"{name}.url")
        token_from, token = decides(environ, f"{name}.token")
        if table is None and not url and not token:
            continue
        table = table or file.PlatformTable()
        token = token or table.token.strip()
        where = (url_from, ENVIRONMENT) if url else (f"{name}.url", path)
        url = url or table.url
        found[platform] = PlatformSettings(
            platform=platform,
            enabled=table.enabled,
            adapter=validation.adapter(table.adapter, f"{name}.adapter", path),
            url=validation.url(url, *where) if url else None,
            token=Secret(token, token_from or f"{name}.token in {path}") if token else None,
            groups=table.groups,
        )
    return found


def _resets(table: file.ResetTable) -> ResetPolicies:
    return ResetPolicies(
        default=_policy(table),
        overrides={file.RESET_KEYS[name]: _policy(chats) for name, chats in table.chats.items()},
    )


def _policy(table: file.PolicyTable) -> ResetPolicy:
    idle = timedelta(minutes=table.idle_minutes)
    return ResetPolicy(mode=table.mode, idle=idle, hour=table.hour)


def _zone(environ: Mapping[str, str], contents: file.Contents, path: Path) -> tzinfo:
    if named := contents.reset.zone.strip():
        return validation.zone(named, "reset.zone", path)
    return zone.of_machine(environ.get("TZ", ""))


def _default_store() -> str:
    """Return the URL of a file in the user's data folder, and create the folder with mode 0700.

    If the folder cannot be created, opening the store reports it.
    """
    folder = Path(platformdirs.user_data_dir("segue", appauthor=False))
    if not folder.is_dir():
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
    return f"sqlite://{quote(str(folder / 'segue.db'))}"
