"""One spec describes a platform: its settings, variables and secrets follow from it."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from segue import config
from segue.config import schema
from segue.core.errors import BadSettings, LibraryMissing, PlatformError
from segue.core.secret import Secret
from segue.platforms import registry
from segue.platforms.spec import FieldKind, PlatformSettings, PlatformSpec
from tests.platforms.specs import MATRIX, OURS, SLACK, SPECS, Examined

ROOT = Path(__file__).parents[2]
OPTIONS = {"owner", "home", "yes", "no_wait"}
"""The options of `segue setup` that every platform has."""


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "SPECS", SPECS)


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with a settings file that has every field of every platform here."""
    path = tmp_path / "config.toml"
    for spec in OURS:
        values = "".join(f'{f.name} = "{in_file(spec)[f.name]}"\n' for f in spec.fields)
        with path.open("a") as settings:
            settings.write(f"[platforms.{spec.platform}]\n{values}\n")
    path.chmod(0o600)
    return {"SEGUE_CONFIG": str(path), "SEGUE_STORE": "sqlite:///tmp/x.db"}


def in_file(spec: PlatformSpec) -> dict[str, str]:
    urls = {FieldKind.URL: "http://of.the.file"}
    return {f.name: urls.get(f.kind, f"{spec.platform}-{f.name}") for f in spec.fields}


def shown(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value


@pytest.mark.parametrize("spec", OURS, ids=lambda spec: spec.platform)
def test_every_field_is_read_from_the_file(home: dict[str, str], spec: PlatformSpec):
    found = config.load(home).platforms[spec.platform]
    assert {name: found.value(name) for name in found.values} == in_file(spec)
    secrets = {name for name, value in found.values.items() if isinstance(value, Secret)}
    assert secrets == {field.name for field in spec.fields if field.kind is FieldKind.SECRET}
    assert not any(shown(found.values[name]) in repr(found) for name in secrets)


@pytest.mark.parametrize("spec", OURS, ids=lambda spec: spec.platform)
def test_every_field_can_come_from_its_variable(home: dict[str, str], spec: PlatformSpec):
    Path(home["SEGUE_CONFIG"]).unlink()
    for field in spec.fields:
        variable = f"SEGUE_{spec.platform.upper()}_{field.name.upper()}"
        given = "http://of.the.environment" if field.kind is FieldKind.URL else "given"
        found = config.load({**home, variable: f" {given} "}).platforms
        assert found.keys() == {spec.platform}
        assert found[spec.platform].value(field.name) == given
        assert (variable in config.secret_names()) is (field.kind is FieldKind.SECRET)
        assert config.overruled(spec.setting(field), {variable: given}) == variable


def test_every_field_is_explained_with_its_origin(home: dict[str, str]):
    more = {"SEGUE_SLACK_APP_TOKEN": "of the environment"}
    found = {setting.name: setting for setting in config.explain({**home, **more})}
    assert found["platforms.slack.app_token"].origin == "SEGUE_SLACK_APP_TOKEN"
    assert found["platforms.slack.bot_token"].origin == "file"
    assert found["platforms.matrix.user_id"].value == "matrix-user_id"
    assert {name for name in found if name.startswith("platforms.")} == {
        name for name in schema.every() if name.startswith("platforms.")
    }


def test_an_unknown_field_is_refused_with_the_existing_ones(home: dict[str, str]):
    with Path(home["SEGUE_CONFIG"]).open("a") as settings:
        settings.write('token = "of whatsapp"\n')
    with pytest.raises(BadSettings) as caught:
        config.load(home)
    fields = "phone_number_id, access_token, app_secret, verify_token"
    assert f"no setting platforms.whatsapp.token, only enabled, adapter, groups, {fields}" in str(
        caught.value
    )


def test_a_file_with_any_secret_of_a_platform_should_be_private(home: dict[str, str]):
    path = Path(home["SEGUE_CONFIG"])
    path.chmod(0o644)
    for name, warns in (("user_id", False), ("access_token", True)):
        path.write_text(f'[platforms.matrix]\n{name} = "x"\n')
        assert bool(config.load(home).warnings) is warns


def test_a_field_is_changed_like_any_other_setting(home: dict[str, str]):
    config.change("platforms.whatsapp.verify_token", ["new"], home)
    written: dict[str, Any] = tomllib.loads(Path(home["SEGUE_CONFIG"]).read_text())
    assert written["platforms"]["whatsapp"]["verify_token"] == "new"
    assert schema.leaf("platforms.whatsapp.verify_token").is_secret
    assert not schema.leaf("platforms.whatsapp.phone_number_id").is_secret


# Adapters


def test_an_adapter_gets_the_values_of_the_fields(home: dict[str, str]):
    settings = config.load(home).platforms[SLACK.platform]
    made = registry.make(SLACK.platform, settings)
    assert isinstance(made, Examined)
    assert made.settings.value("app_token") == "slack-app_token"
    assert made.settings.value("no_such_field") == ""


def test_missing_values_are_named_with_their_variables():
    with pytest.raises(PlatformError) as caught:
        registry.make(MATRIX.platform, PlatformSettings(platform=MATRIX.platform))
    assert str(caught.value) == (
        "matrix has no value for platforms.matrix.url, platforms.matrix.user_id,"
        " platforms.matrix.access_token. Type `segue setup matrix`, or set"
        " SEGUE_MATRIX_URL, SEGUE_MATRIX_USER_ID, SEGUE_MATRIX_ACCESS_TOKEN."
    )


def test_an_external_adapter_checks_its_own_values():
    given = PlatformSettings(platform=SLACK.platform, adapter="tests.harness.quiet_adapter:quiet")
    assert registry.make(SLACK.platform, given).platform is SLACK.platform


def test_without_its_library_the_extra_of_a_platform_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: dict[str, str]
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "speaks_slack.py").write_text("import slack_sdk.of_tomorrow\n")
    monkeypatch.setitem(sys.modules, "slack_sdk", None)
    settings = config.load(home).platforms[SLACK.platform]
    given = PlatformSettings(
        platform=SLACK.platform, adapter="speaks_slack:make", values=settings.values
    )
    with pytest.raises(LibraryMissing, match=r"slack needs packages.*NAME=slack`"):
        registry.make(SLACK.platform, given)


# The specs that we ship


@pytest.mark.parametrize("spec", registry.BUILT_IN, ids=lambda spec: spec.platform)
def test_a_spec_is_complete_and_its_names_are_unique(spec: PlatformSpec):
    own = [field.name for field in spec.fields]
    assert len(own) == len(set(own))
    assert not set(own) & {*PlatformSettings.__struct_fields__, *OPTIONS}
    assert spec.guide or spec.prepare
    assert spec.make
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert spec.extra in extras["optional-dependencies"]
