"""Settings from the file and the environment, which takes precedence."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta, tzinfo
from pathlib import Path

from segue.config import file, places, validation, versions, zone
from segue.config.environment import ENVIRONMENT, decides
from segue.config.values import KEY_VARIABLES, Approvals, Endpoint, Settings, WebSettings
from segue.core.address import Platform
from segue.core.errors import BadSettings
from segue.core.reset import ResetPolicies, ResetPolicy
from segue.core.secret import Secret
from segue.platforms import registry
from segue.platforms.spec import FieldKind, PlatformSettings, PlatformSpec

_LOG = "gateway.log"


def load(environ: Mapping[str, str]) -> Settings:
    """Return the settings, or raise BadSettings with the setting's name and valid values."""
    path = places.settings_file(environ)
    found = file.read(path)
    tables, warnings = versions.adapt(found[0] if found else b"", path)
    contents = file.validate(tables, path)
    variable, model = decides(environ, "model")
    given = model or contents.model.strip()
    approvals = contents.approvals
    return Settings(
        path=path,
        store=decides(environ, "store")[1] or contents.store or places.default_store(),
        models_folder=_in_data(environ, contents.models_folder, "models_folder", path, "models"),
        idle_minutes=contents.idle_minutes,
        gateway_log=_in_data(environ, contents.gateway_log, "gateway_log", path, _LOG),
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
        warnings=(
            *warnings,
            *(file.warnings(path, found[1], contents) if found else _missing(environ, path)),
        ),
    )


def store_address(environ: Mapping[str, str]) -> str:
    """Return the store's address even if other settings have errors, or raise BadSettings."""
    try:
        return load(environ).store
    except BadSettings as error:
        return _despite(error, environ, "store") or places.default_store()


def gateway_log(environ: Mapping[str, str]) -> Path:
    """Return the gateway's log file even if other settings have errors, or raise BadSettings."""
    try:
        return load(environ).gateway_log
    except BadSettings as error:
        given, path = _despite(error, environ, "gateway_log"), places.settings_file(environ)
        return _in_data(environ, given, "gateway_log", path, _LOG)


def _despite(error: BadSettings, environ: Mapping[str, str], name: str) -> str:
    """Return the setting `name` although the file has an `error`; empty if it is not set.

    Raise BadSettings if the file may mean a value that cannot be read.
    """
    import difflib  # noqa: PLC0415 - only when something is wrong

    variable, value = decides(environ, name)
    if variable:
        return value
    path = places.settings_file(environ)
    reason = f"{error.fields['reason']}. So it is not clear what {name} is"
    unclear = BadSettings(path=path, reason=reason)
    found = file.read(path)
    raw = found[0] if found else b""
    try:
        tables, _ = versions.adapt(raw, path)
    except BadSettings:  # it is no TOML
        if name.encode() in raw:
            raise unclear from error
        return ""
    given = tables.get(name, "")
    unknown = tables.keys() - set(file.Contents.__struct_fields__)
    if not isinstance(given, str) or difflib.get_close_matches(name, unknown):
        raise unclear from error
    return given


def check(raw: bytes, path: Path) -> None:
    """Raise BadSettings if `raw` is not a valid settings file. The environment is ignored."""
    contents = file.validate(versions.adapt(raw, path)[0], path)
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
    return places.data() / usual


def _platforms(
    environ: Mapping[str, str], contents: file.Contents, path: Path
) -> dict[Platform, PlatformSettings]:
    """Return the platforms that have a table or the value of a field."""
    found: dict[Platform, PlatformSettings] = {}
    for spec in registry.SPECS.values():
        table = contents.platform(spec)
        values = _values(environ, spec, table, path)
        if table is None and not values:
            continue
        table = table or file.PlatformTable()
        found[spec.platform] = PlatformSettings(
            platform=spec.platform,
            enabled=table.enabled,
            adapter=validation.adapter(table.adapter, f"platforms.{spec.platform}.adapter", path),
            groups=table.groups,
            values=values,
            folder=places.platform_folder(spec.platform),
        )
    return found


def _values(
    environ: Mapping[str, str], spec: PlatformSpec, table: file.PlatformTable | None, path: Path
) -> dict[str, str | Secret]:
    """Return the fields that are set."""
    values: dict[str, str | Secret] = {}
    for field in spec.fields:
        setting, variable = spec.setting(field), spec.variable(field)
        given = environ.get(variable, "").strip()
        value = given or getattr(table, field.name, "").strip()
        if value and field.kind is FieldKind.URL:
            value = validation.url(value, *((variable, ENVIRONMENT) if given else (setting, path)))
        if value:
            values[field.name] = field.held(value, variable if given else f"{setting} in {path}")
    return values


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
