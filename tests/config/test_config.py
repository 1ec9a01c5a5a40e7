"""Settings: the file, the environment, and the messages about both."""

from __future__ import annotations

import copy
import importlib.resources
import json
import os
import pickle
import re
import stat
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from segue import config
from segue.config import environment, machine, schema
from segue.core.address import TARGETS, ChatType, Platform
from segue.core.approval import Policy
from segue.core.errors import (
    BadSettings,
    HistoryUnwritable,
)
from segue.core.reset import ResetMode, ResetPolicies, ResetPolicy
from segue.core.secret import Secret
from segue.platforms import registry
from segue.platforms.spec import TOKEN, FieldKind, PlatformSettings, PlatformSpec
from tests.config import settings_tables

ROOT = Path(__file__).parents[2]
SECRET = "sk-very-secret"
FULL = f"""
store = "sqlite:///var/segue.db"
model = "work/big"
private_network = true
models_folder = "/var/models"
idle_minutes = 3
gateway_log = "/var/gateway.log"

[keys]
anthropic = "{SECRET}"

[endpoints.work]
url = "https://models.example.com/v1/"
key = "{SECRET}"
context = 100000
images = true
small = true

[endpoints.plain]
url = "http://10.0.0.7:8000"

[approvals]
policy = "allow-list"
allowed_commands = ["git status", "ls"]

[approvals.platforms]
telegram = "ask"
local = "auto"

[platforms.matrix]
url = "https://matrix.example.com/"
token = "{SECRET}"

[platforms.telegram]
enabled = false
adapter = "mine.telegram:adapter"

[reset]
mode = "both"
idle_minutes = 90
zone = "Europe/Oslo"

[reset.for.dm]
hour = 6

[reset.for.telegram-dm]
mode = "none"
"""


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment that sets only the paths of our files."""
    return {
        "SEGUE_CONFIG": str(tmp_path / "config.toml"),
        "SEGUE_STORE": "sqlite:///tmp/of-the-environment.db",
        "SEGUE_MODELS": str(tmp_path / "models"),
    }


def write(home: Mapping[str, str], text: str | bytes, mode: int = 0o600) -> Path:
    path = Path(home["SEGUE_CONFIG"])
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return path


# Reading


def test_without_a_file_and_variables_there_are_defaults(home: dict[str, str]):
    settings = config.load(home)
    assert settings.model is None
    assert settings.model_from == ""
    assert settings.keys == {}
    assert settings.endpoints == {}
    assert settings.approvals.policy_on(Platform.TELEGRAM) is Policy.ASK
    assert settings.approvals.allowed_commands == ()
    assert settings.private_network is False
    assert settings.idle_minutes == 10
    assert settings.platforms == {}
    assert settings.resets == ResetPolicies()
    assert settings.gateway_log.name == "gateway.log"


def test_every_setting_of_the_file_is_read(home: dict[str, str]):
    path = write(home, FULL)
    del home["SEGUE_STORE"], home["SEGUE_MODELS"]
    settings = config.load(home)
    assert settings.path == path
    assert settings.store == "sqlite:///var/segue.db"
    assert (settings.model, settings.model_from) == ("work/big", f"model in {path}")
    assert settings.private_network is True
    assert settings.models_folder == Path("/var/models")
    assert settings.idle_minutes == 3
    key = settings.keys["anthropic"]
    assert (key.reveal(), key.setting) == (SECRET, f"keys.anthropic in {path}")
    work, plain = settings.endpoints["work"], settings.endpoints["plain"]
    assert work.key is not None
    assert (work.key.reveal(), work.key.setting) == (SECRET, f"endpoints.work.key in {path}")
    assert (work.name, work.url) == ("work", "https://models.example.com/v1")
    assert (work.context, work.images, work.small) == (100_000, True, True)
    assert (plain.key, plain.context, plain.images, plain.small) == (None, 32_768, False, False)
    assert settings.approvals.policy_on(Platform.TELEGRAM) is Policy.ASK
    assert settings.approvals.policy_on(Platform.LOCAL) is Policy.AUTO
    assert settings.approvals.policy_on(Platform.SLACK) is Policy.ALLOW_LIST
    assert settings.approvals.allowed_commands == ("git status", "ls")
    assert settings.gateway_log == Path("/var/gateway.log")
    assert settings.warnings == ()


def test_the_platforms_of_the_file_are_read(home: dict[str, str]):
    path = write(home, FULL)
    platforms = config.load(home).platforms
    assert platforms.keys() == {Platform.MATRIX, Platform.TELEGRAM}
    matrix, telegram = platforms[Platform.MATRIX], platforms[Platform.TELEGRAM]
    token = matrix.values["token"]
    assert isinstance(token, Secret)
    assert (token.reveal(), token.setting) == (SECRET, f"platforms.matrix.token in {path}")
    assert (matrix.platform, matrix.enabled, matrix.adapter) == (Platform.MATRIX, True, "")
    assert matrix.value("url") == "https://matrix.example.com"
    assert telegram == PlatformSettings(
        platform=Platform.TELEGRAM,
        enabled=False,
        adapter="mine.telegram:adapter",
        folder=config.platform_folder(Platform.TELEGRAM),
    )


@pytest.mark.parametrize("platform", [p for p in TARGETS if TOKEN in registry.SPECS[p].fields])
def test_every_platform_can_be_set_by_variables_alone(home: dict[str, str], platform: Platform):
    name = platform.upper()
    more = {f"SEGUE_{name}_TOKEN": " t ", f"SEGUE_{name}_URL": "http://h:1/"}
    found = config.load({**home, **more}).platforms
    assert found.keys() == {platform}
    token = found[platform].values["token"]
    assert isinstance(token, Secret)
    assert (token.reveal(), token.setting) == ("t", f"SEGUE_{name}_TOKEN")
    assert (found[platform].value("url"), found[platform].enabled) == ("http://h:1", True)


def test_a_variable_overrides_the_file_and_does_not_enable_a_platform(home: dict[str, str]):
    write(home, FULL)
    more = {"SEGUE_MATRIX_URL": "http://h", "SEGUE_TELEGRAM_TOKEN": "t"}
    found = config.load({**home, **more}).platforms
    assert found[Platform.MATRIX].value("url") == "http://h"
    assert not found[Platform.TELEGRAM].enabled


def test_a_reset_override_inherits_missing_values_from_the_default(home: dict[str, str]):
    write(home, FULL)
    settings = config.load(home)
    usual = ResetPolicy(mode=ResetMode.BOTH, idle=timedelta(minutes=90), hour=4)
    assert settings.resets == ResetPolicies(
        default=usual,
        overrides={
            (None, ChatType.DM): structs.replace(usual, hour=6),
            (Platform.TELEGRAM, ChatType.DM): structs.replace(usual, mode=ResetMode.NONE),
        },
    )
    assert str(settings.zone) == "Europe/Oslo"


def test_tz_names_the_time_zone(home: dict[str, str]):
    for named in ("Europe/Oslo", ":Europe/Oslo"):
        assert str(config.load({**home, "TZ": named}).zone) == "Europe/Oslo"
    write(home, "[reset]\nzone = 'Asia/Tokyo'\n")
    assert str(config.load({**home, "TZ": "Europe/Oslo"}).zone) == "Asia/Tokyo"


def test_the_time_zone_of_the_system_has_daylight_saving_time(tmp_path: Path):
    tzdata = Path(str(importlib.resources.files("tzdata"))) / "zoneinfo" / "Europe" / "Oslo"
    link = tmp_path / "localtime"
    link.symlink_to(tzdata)
    for found in (machine.time_zone("", link), machine.time_zone(f"{link}", tmp_path / "none")):
        assert str(found) == "Europe/Oslo"
        hours = [datetime(2026, month, 1, tzinfo=found).utcoffset() for month in (1, 7)]
        assert hours == [timedelta(hours=1), timedelta(hours=2)]


@pytest.mark.parametrize("named", ["", "CET-1CEST,M3.5.0,M10.5.0/3", "Not/AZone", "../x"])
def test_an_unreadable_time_zone_falls_back_to_the_current_utc_offset(tmp_path: Path, named: str):
    found = machine.time_zone(named, tmp_path / "none")
    now = datetime.now().astimezone()
    assert now.astimezone(found).utcoffset() == now.utcoffset()


def test_the_environment_overrides_the_file(home: dict[str, str], tmp_path: Path):
    write(home, FULL)
    settings = config.load(
        {**home, "SEGUE_MODEL": " openai/gpt-5.5 ", "ANTHROPIC_API_KEY": " other\n"}
    )
    assert settings.store == home["SEGUE_STORE"]
    assert settings.models_folder == tmp_path / "models"
    assert (settings.model, settings.model_from) == ("openai/gpt-5.5", "SEGUE_MODEL")
    assert settings.keys["anthropic"].reveal() == "other"
    assert settings.keys["anthropic"].setting == "ANTHROPIC_API_KEY"


@pytest.mark.parametrize(
    ("provider", "variable"),
    [(provider, v) for provider, several in config.KEY_VARIABLES.items() for v in several],
)
def test_every_key_can_come_from_its_variable(home: dict[str, str], provider: str, variable: str):
    keys = config.load({**home, variable: "k"}).keys
    assert {name: (key.reveal(), key.setting) for name, key in keys.items()} == {
        provider: ("k", variable)
    }


def test_the_first_of_two_variables_wins(home: dict[str, str]):
    both = {**home, "GEMINI_API_KEY": "a", "GOOGLE_API_KEY": "b"}
    assert config.load(both).keys["gemini"].reveal() == "a"
    assert config.load({**both, "GEMINI_API_KEY": ""}).keys["gemini"].reveal() == "b"


def test_an_empty_variable_counts_as_unset(home: dict[str, str]):
    write(home, FULL)
    empty = {**home, "SEGUE_MODEL": " ", "ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": " "}
    settings = config.load({**empty, "OPENAI_BASE_URL": ""})
    assert settings.model == "work/big"
    assert settings.keys["anthropic"].reveal() == SECRET
    assert settings.keys.keys() == {"anthropic"}
    assert settings.openai_url is None


def test_the_url_of_openai_can_be_changed(home: dict[str, str]):
    settings = config.load({**home, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1/"})
    assert settings.openai_url == "http://127.0.0.1:9/v1"


def test_nothing_is_read_from_the_working_directory(
    home: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("config.toml", "segue.toml", ".env", "pyproject.toml"):
        (folder / name).write_text('model = "evil/model"\nSEGUE_MODEL = "evil/model"\n')
    monkeypatch.chdir(folder)
    assert config.load(home).model is None
    with pytest.raises(BadSettings, match="SEGUE_CONFIG: expected a path that begins with / or ~"):
        config.load({**home, "SEGUE_CONFIG": "config.toml"})


# Invalid settings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\nmodel = 1 2", "this is no TOML: .*line 2"),
        (b"\xff", "this is no TOML"),
        ("modle = 'x'", "there is no setting modle, only store, model, private_network, "),
        ("[web]\nprot = 1", r"web.prot, only enabled, port, lan \(did you mean web.port\?\)\."),
        ("[web]\nxyzzy = 1", r"no setting web.xyzzy, only enabled, port, lan\."),
        ("[keys]\nopneai = 'x'", r"\(did you mean keys.openai\?\)"),
        ("[web]\nlan = 'yes'", "web.lan: expected true or false, got text"),
        ("model = 3", "model: expected text in quotation marks, got"),
        ("private_network = 'yes'", "private_network: expected true or false, got text"),
        ("idle_minutes = 0", "idle_minutes: expected a number > 0"),
        ("models_folder = 'models'", "models_folder: expected a path that begins with / or ~"),
        ("keys = 3", "keys: expected a table, got a whole number"),
        ("[keys]\nantropic = 'x'", "no setting keys.antropic, only anthropic, openai, gemini"),
        ("[keys]\nopenai = 3", "keys.openai: expected text in quotation marks, got"),
        ("[approvals]\npolicy = 'never'", "approvals.policy: expected one of ask, allow-list, au"),
        ("[approvals]\npolice = 'ask'", "no setting approvals.police, only policy, platforms, a"),
        ("[approvals.platforms]\nicq = 'ask'", "approvals.platforms.icq, only local, web, telegr"),
        ("[approvals.platforms]\nweb = 'no'", "approvals.platforms.web: expected one of ask, all"),
        ("[approvals]\nallowed_commands = 'ls'", "approvals.allowed_commands: expected a list"),
        (
            "[endpoints]\nwork = 'x'",
            "endpoints.work: expected a table, got text",
        ),
        ("[endpoints.work]\nkey = 'x'", "endpoints.work.url is missing"),
        ("[endpoints.work]\nurl = 'x'\nspeed = 1", "endpoints.work.speed, only url, key, context"),
        (
            "[endpoints.work]\nurl = 'http://x'\ncontext = 9",
            "endpoints.work.context: expected a whole number >= 10",
        ),
        ("[endpoints.'a/b']\nurl = 'x'", "a name has letters, digits, full stops, - and _ only"),
        ("[endpoints.a]\nurl = 'models.example.com'", "endpoints.a.url: expected http://… or http"),
        ("[endpoints.a]\nurl = 'http://h:x/'", "endpoints.a.url: expected http://… or https://…"),
        ("[endpoints.a]\nurl = 'http://me:pw@h/'", "endpoints.a.url: an address holds no name"),
        ("gateway_log = 'log'", "gateway_log: expected a path that begins with / or ~"),
        ("[platforms.icq]", "no setting platforms.icq, only web, telegram, discord, slack"),
        ("[platforms.local]", "no setting platforms.local, only web"),
        ("[platforms]\nweb = 3", "platforms.web: expected a table, got a whole number"),
        (
            "[platforms.web]\nport = 3",
            "no setting platforms.web.port, only enabled, adapter, groups",
        ),
        ("[platforms.web]\ngroups = 'no'", "platforms.web.groups: expected one of addressed, all"),
        (
            "[platforms.web]\nenabled = 1",
            "platforms.web.enabled: expected true or false, got a whole number",
        ),
        ("[platforms.web]\nurl = 'h'", "platforms.web.url: expected http://… or https://…"),
        ("[platforms.web]\nadapter = 'a.b'", "web.adapter: expected package.module:function"),
        ("[platforms.web]\nadapter = 'a..b:c'", "web.adapter: expected package.module:function"),
        ("[reset]\nmode = 'weekly'", "reset.mode: expected one of none, idle, daily, both"),
        ("[reset]\nhours = 4", "no setting reset.hours, only mode, idle_minutes, hour, zone, for"),
        ("[reset]\nhour = 24", "reset.hour: expected a whole number <= 23"),
        ("[reset]\nidle_minutes = 0", "reset.idle_minutes: expected a number >= 0.001"),
        ("[reset]\nidle_minutes = 1e12", "reset.idle_minutes: expected a number <= 5256"),
        ("[reset]\nzone = 'Mars/Here'", "reset.zone: there is no such time zone; expected one su"),
        ("[reset]\nzone = '../zone'", "reset.zone: there is no such time zone"),
        (
            "[reset]\nhour = 24\n[reset.for.dm]\nmode = 'none'",
            " reset.hour: expected a whole number <= 23",
        ),
        ("[reset.for.team]\nmode = 'none'", "no setting reset.for.team, only web, telegram,"),
        ("[reset.for.dm]\nmode = 'x'", "reset.for.dm.mode: expected one of none, idle, daily, bo"),
        ("[reset.for.dm]\nzone = 'UTC'", "no setting reset.for.dm.zone, only mode, idle_minutes"),
        ("[reset.for]\ndm = 3", "reset.for.dm: expected a table, got a whole number"),
    ],
)
def test_an_invalid_setting_is_reported_with_its_file_name_and_allowed_values(
    home: dict[str, str], text: str | bytes, expected: str
):
    del home["SEGUE_MODELS"]
    path = write(home, text)
    with pytest.raises(BadSettings) as caught:
        config.load(home)
    assert str(path) in str(caught.value)
    assert re.search(expected, str(caught.value))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OPENAI_BASE_URL", "localhost:1234"),
        ("SEGUE_MODELS", "models"),
        ("SEGUE_CONFIG", "x.toml"),
        ("SEGUE_GATEWAY_LOG", "log"),
        ("SEGUE_SIGNAL_URL", "localhost:8080"),
    ],
)
def test_an_invalid_variable_is_named(home: dict[str, str], variable: str, value: str):
    with pytest.raises(BadSettings, match=f"in the environment cannot be used: {variable}: exp"):
        config.load({**home, variable: value})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("store = 3", "store: expected text in quotation marks"),
        ("[keys]\nopenai = 3", "keys.openai: expected text in quotation marks"),
        ("keys = 3", "keys: expected a table"),
        ("platforms = 3", "platforms: expected a table"),
        ("[platforms]\nslack = 3", "platforms.slack: expected a table"),
    ],
)
def test_a_variable_does_not_hide_what_is_wrong_in_the_file(
    home: dict[str, str], text: str, expected: str
):
    path = write(home, text)
    more = {"OPENAI_API_KEY": "k", "SEGUE_SLACK_TOKEN": "t"}
    with pytest.raises(BadSettings) as caught:
        config.load({**home, **more})
    assert str(path) in str(caught.value)
    assert expected in str(caught.value)


@pytest.mark.parametrize("text", ["model = ' '", "[platforms.slack]\ntoken = ' '\nadapter = ''"])
def test_a_blank_text_counts_as_not_set(home: dict[str, str], text: str):
    write(home, text)
    found = config.load(home)
    assert found.model is None
    assert all(it.values == {} and it.adapter == "" for it in found.platforms.values())


def test_an_unreadable_file_is_an_error(home: dict[str, str]):
    Path(home["SEGUE_CONFIG"]).mkdir()
    with pytest.raises(BadSettings, match="cannot be read"):
        config.load(home)


def test_every_misspelt_name_is_reported_at_once(home: dict[str, str]):
    write(home, "modle = 'x'\n[web]\nprot = 1\n[keys]\nopneai = 'x'")
    with pytest.raises(BadSettings) as caught:
        config.load(home)
    for meant in ("model", "web.port", "keys.openai"):
        assert f"(did you mean {meant}?)" in str(caught.value)


def test_an_error_about_an_unknown_name_has_no_control_characters(home: dict[str, str]):
    write(home, '"a\\u001b[2Jb" = 1')
    with pytest.raises(BadSettings) as caught:
        config.load(home)
    assert "\x1b" not in str(caught.value)


# Secrets


def test_no_repr_and_no_dump_shows_a_key(home: dict[str, str]):
    write(home, FULL)
    password = {**home, "SEGUE_STORE": f"postgresql://me:{SECRET}@h/db", "OPENAI_API_KEY": SECRET}
    settings = config.load(password)
    assert SECRET not in repr(settings) + str(settings) + f"{settings}"
    keys = {
        "keys": settings.keys,
        "endpoints": settings.endpoints,
        "platforms": settings.platforms,
    }
    shown = [repr(keys), repr(copy.deepcopy(keys)), json.dumps(keys, default=repr)]
    shown += [repr(structs.asdict(settings)["endpoints"]), json.dumps(keys, default=str)]
    assert SECRET not in "".join(shown)
    for dump in (msgspec.json.encode, msgspec.to_builtins, pickle.dumps):
        with pytest.raises(TypeError):
            dump(settings)


def test_an_error_does_not_show_a_key(home: dict[str, str]):
    write(home, f'[keys]\nopenai = ["{SECRET}"]\n')
    with pytest.raises(BadSettings) as caught:
        config.load(home)
    assert SECRET not in str(caught.value)
    write(home, f'[keys]\nopenai = "{SECRET}')
    with pytest.raises(BadSettings) as caught:
        config.load(home)
    assert SECRET not in str(caught.value)


HIDING = """
import subprocess
from segue import config
config.hide_secrets()
config.hide_secrets()
print(config.load().keys["openai"].reveal())
kept = subprocess.run(["sh", "-c", "echo $OPENAI_API_KEY $PGPASSWORD"], capture_output=True)
print(kept.stdout.decode(), end="", flush=True)
subprocess.run(["sh", "-c", "env; cat /proc/$PPID/environ"], env=config.tool_environment())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_other_processes_cannot_see_secrets_and_the_program_still_reads_them(tmp_path: Path):
    given = {
        "SEGUE_CONFIG": str(tmp_path / "config.toml"),
        "OPENAI_API_KEY": "sk-hidden",
        "PGPASSWORD": "pg-hidden",
        "COLOUR": "blue",
        "PATH": os.defpath,
        "HOME": str(tmp_path),
    }
    ended = subprocess.run(
        [sys.executable, "-c", HIDING], env=given, check=True, capture_output=True, text=True
    )
    key, both, seen = ended.stdout.split("\n", 2)
    assert (key, both) == ("sk-hidden", "sk-hidden pg-hidden")
    assert "hidden" not in seen
    # Only root can read the environment of the process, which contains the rest.
    assert seen.count("COLOUR=blue") == (2 if os.geteuid() == 0 else 1)


def test_commands_do_not_get_the_keys_of_other_model_services():
    given = {"HF_TOKEN": "hf_1", "XAI_API_KEY": "xai-1", "GITHUB_TOKEN": "gh", "COLOUR": "blue"}
    assert config.tool_environment(given) == {"GITHUB_TOKEN": "gh", "COLOUR": "blue"}


def test_every_variable_with_a_secret_is_known(home: dict[str, str]):
    names = config.secret_names()
    assert {"SEGUE_STORE", "OPENAI_API_KEY", "GOOGLE_API_KEY", "PGPASSWORD"} <= names
    overriding = [name for several in environment.overrides().values() for name in several]
    others = {name for name in names if name.startswith("PG") or name in environment._SERVICES}
    assert names - others <= set(overriding)
    paths = {"SEGUE_CONFIG", "SEGUE_STORE", "SEGUE_MODELS", "SEGUE_GATEWAY_LOG"}
    other = [name for name in overriding if name not in paths and not name.endswith("_URL")]
    held = config.load({**home, **dict.fromkeys(other, "k")})
    values = [value for platform in held.platforms.values() for value in platform.values.values()]
    secrets = [*held.keys.values(), *(value for value in values if isinstance(value, Secret))]
    fields = [field for _, field in registry.fields().values() if field.kind is FieldKind.SECRET]
    assert len(secrets) == len(config.KEY_VARIABLES) + len(fields)
    assert {secret.setting for secret in secrets} <= names


@pytest.mark.parametrize(
    ("text", "store", "log"),
    [
        ("modle = 'x'", "", ""),
        ("store = 'sqlite:///s.db'\nmodle = 'x'", "sqlite:///s.db", ""),
        ("gateway_log = '/g.log'\nmodle = 'x'", "", "/g.log"),
        ("store = 'sqlite:///s.db'\ngateway_log = '/g.log'\n[web]\nport = 'x'", "s.db", "/g.log"),
        ("model = ", "", ""),
        ("store = 3", None, ""),
        ("stroe = 'sqlite:///s.db'", None, ""),
        ("gateway_log = 'g.log'", "", None),
        ("store = 'sqlite:///s.db'\nmodel = ", None, ""),
    ],
)
def test_store_and_log_are_found_despite_other_errors_unless_they_are_not_clear(
    monkeypatch: pytest.MonkeyPatch,
    home: dict[str, str],
    text: str,
    store: str | None,
    log: str | None,
):
    path = write(home, text)
    for name in ("SEGUE_STORE", "SEGUE_GATEWAY_LOG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SEGUE_CONFIG", str(path))
    with pytest.raises(BadSettings):
        config.load()
    if store is None:
        with pytest.raises(BadSettings, match="it is not clear what store is"):
            config.store_address()
    else:
        assert config.store_address().endswith(store or "segue/segue.db")
        assert config.store_address(path) == config.store_address()
    if log is None:
        with pytest.raises(BadSettings, match="gateway_log"):
            config.gateway_log()
    else:
        assert str(config.gateway_log()).endswith(log or "segue/gateway.log")
    monkeypatch.setenv("SEGUE_STORE", "sqlite:///named.db")
    monkeypatch.setenv("SEGUE_GATEWAY_LOG", "/named.log")
    assert config.store_address() == "sqlite:///named.db"
    assert config.gateway_log() == Path("/named.log")


@pytest.mark.parametrize(
    ("text", "mode", "expected"),
    [
        (FULL, 0o644, "holds keys, and others can read it. Type `chmod 600 "),
        (FULL, 0o640, "holds keys, and others can read it"),
        ("[endpoints.a]\nurl = 'http://h'\nkey = 'k'\n", 0o604, "holds keys"),
        ("[platforms.slack]\ntoken = 't'\n", 0o604, "holds keys"),
        ("model = 'local'", 0o620, "Others can change "),
        (FULL, 0o600, ""),
        (FULL, 0o400, ""),
        ("model = 'local'", 0o644, ""),
        ("[endpoints.a]\nurl = 'http://h'\n", 0o644, ""),
    ],
)
def test_a_file_that_others_can_read_or_change_causes_a_warning(
    home: dict[str, str], text: str, mode: int, expected: str
):
    write(home, text, mode)
    warnings = config.load(home).warnings
    assert len(warnings) == bool(expected)
    assert expected in "".join(warnings)


def test_a_named_file_that_does_not_exist_causes_a_warning(home: dict[str, str]):
    (warning,) = config.load(home).warnings
    assert warning == f"SEGUE_CONFIG names {home['SEGUE_CONFIG']}, but there is no such file."


# Origins


def test_every_setting_has_its_origin(home: dict[str, str]):
    write(home, FULL)
    more = {**home, "GOOGLE_API_KEY": "k", "SEGUE_MODEL": "local", "OPENAI_BASE_URL": "http://h"}
    found = {setting.name: setting for setting in config.explain(more)}
    known = schema.every(["work", "plain"], ["dm", "telegram-dm"])
    assert set(found) == {*known, "OPENAI_BASE_URL"}
    origins = {name: setting.origin for name, setting in found.items()}
    assert origins["store"] == "SEGUE_STORE"
    assert origins["model"] == "SEGUE_MODEL"
    assert origins["keys.gemini"] == "GOOGLE_API_KEY"
    assert origins["OPENAI_BASE_URL"] == "OPENAI_BASE_URL"
    assert origins["keys.openai"] == origins["endpoints.plain.key"] == "default"
    assert origins["keys.anthropic"] == origins["endpoints.plain.url"] == "file"
    assert origins["approvals.platforms.web"] == "default"
    assert found["approvals.platforms.web"].value == "allow-list"
    assert found["approvals.allowed_commands"].value == ("git status", "ls")
    assert origins["platforms.matrix.token"] == origins["platforms.telegram.enabled"] == "file"
    assert origins["platforms.slack.enabled"] == origins["reset.for.dm.mode"] == "default"
    assert origins["reset.for.dm.hour"] == origins["reset.zone"] == "file"
    assert found["platforms.slack.enabled"].value is False
    assert found["reset.for.dm.mode"].value == "both"
    assert found["reset.for.dm.idle_minutes"].value == 90
    assert found["reset.zone"].value == "Europe/Oslo"
    assert found["model"].value == "local"
    assert found["keys.mistral"].value is None
    assert SECRET not in repr(found)


def test_a_setting_in_the_file_that_equals_the_default_has_the_origin_file(home: dict[str, str]):
    write(home, "private_network = false\nmodel = ''\n")
    found = {setting.name: setting for setting in config.explain(home)}
    assert found["private_network"].origin == "file"
    assert found["model"].origin == "default", "an empty name is none"


def test_every_secret_setting_is_marked_as_secret():
    secret = {name for name, leaf in schema.every(["work"]).items() if leaf.is_secret}
    tokens = {f"platforms.{p}.token" for p in TARGETS} - {"platforms.signal.token"}
    more = {"platforms.slack.app_token", "platforms.whatsapp.app_secret"}
    keys = {f"keys.{p}" for p in config.KEY_VARIABLES} | tokens
    assert secret == keys | {"endpoints.work.key"} | more


def test_the_editor_comes_from_visual_or_editor():
    assert config.editor({}) == ""
    assert config.editor({"VISUAL": " ", "EDITOR": "ed"}) == "ed"
    assert config.editor({"VISUAL": "vim -n", "EDITOR": "ed"}) == "vim -n"


# Cost and docs


def test_reading_settings_loads_nothing_heavy(home: dict[str, str]):
    write(home, "model = 'local'")
    program = (
        "import sys; from segue import config;"
        "config.load(dict(a.split('=') for a in sys.argv[1:]));"
        "heavy = {'tomlkit', 'httpx2', 'asyncio', 'telegram', 'segue.platforms.base'};"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    given = [f"{name}={value}" for name, value in home.items()]
    ran = subprocess.run(
        [sys.executable, "-c", program, *given], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"


def test_the_tables_in_the_docs_are_those_of_the_code():
    text = settings_tables.DOCS.read_text()
    assert settings_tables.written(text) == text, (
        "Type `.venv/bin/python -m tests.config.settings_tables`."
    )


def test_every_setting_and_variable_is_in_the_docs():
    text = settings_tables.DOCS.read_text()
    for name, leaf in schema.every(["NAME"], ["CHATS"]).items():
        general = re.sub(r"^(approvals\.)?platforms\.\w+", r"\1platforms.PLATFORM", name)
        if f"`{general}`" not in text:
            assert name in registry.fields(), name
        elif not general.startswith("platforms."):
            assert all(f"`{variable}`" in text for variable in leaf.description.variables)


@pytest.mark.parametrize("spec", registry.BUILT_IN, ids=lambda spec: spec.platform)
def test_the_docs_of_a_platform_list_its_settings_and_how_to_install_it(spec: PlatformSpec):
    text = (ROOT / "docs" / f"{spec.platform}.md").read_text()
    for field in spec.fields:
        assert f"`{spec.setting(field)}`" in text
        assert f"`{spec.variable(field)}`" in text
    assert f"make extra NAME={spec.extra}" in text or not spec.libraries
    assert f"segue setup {spec.platform}" in text


def test_the_example_in_the_docs_is_a_valid_settings_file(home: dict[str, str]):
    text = settings_tables.DOCS.read_text()
    (example,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    write(home, example)
    assert config.load(home).model


# A home folder that is not writable


def test_settings_can_be_read_if_the_data_folder_cannot_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", f"{tmp_path}/file/share")
    assert config.load({}).store == f"sqlite://{tmp_path}/file/share/segue/segue.db"


def test_the_history_file_is_readable_by_its_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_STATE_HOME", f"{tmp_path}/state")
    path = config.history()
    assert path == tmp_path / "state" / "segue" / "typed"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_unwritable_history_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", f"{tmp_path}/file/state")
    with pytest.raises(HistoryUnwritable, match="set XDG_STATE_HOME to another folder"):
        config.history()
