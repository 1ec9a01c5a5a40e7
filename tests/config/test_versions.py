"""Settings files of other versions."""

from __future__ import annotations

from pathlib import Path

import pytest

import segue
from segue import config
from segue.config import file, schema
from segue.core.errors import BadSettings
from tests.config.test_config import home as home
from tests.config.test_config import write

NEWER = "# Written by Segue 99.1.0.\n"
OURS = f"# Written by Segue {segue.__version__}.\n"


@pytest.fixture
def renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"brain": "model", "private": "private_network", "web.open": "web.lan"}
    monkeypatch.setattr(file, "RENAMED", names)


@pytest.mark.usefixtures("renamed")
def test_a_renamed_setting_keeps_working_with_a_warning(home: dict[str, str]):
    path = write(home, "brain = 'a/b'\n[web]\nopen = true\n")
    found = config.load(home)
    assert found.model == "a/b"
    assert found.web.lan
    assert len(found.warnings) == 2
    assert found.warnings[0].startswith(f"brain in {path} is called model now.")
    origins = {setting.name: setting.origin for setting in config.explain(home)}
    assert origins["model"] == origins["web.lan"] == "file"


@pytest.mark.usefixtures("renamed")
def test_the_new_name_of_a_renamed_setting_counts(home: dict[str, str]):
    write(home, "brain = 'a/b'\nmodel = 'c/d'\n")
    found = config.load(home)
    assert found.model == "c/d"
    assert "Remove brain." in found.warnings[0]


@pytest.mark.usefixtures("renamed")
def test_writing_a_renamed_setting_removes_the_old_name(home: dict[str, str]):
    path = write(home, "# mine\nbrain = 'a/b' # for now\n")
    config.change("model", ["c/d"], home)
    assert path.read_text() == f'# mine\nmodel = "c/d"\n{OURS}'
    assert not config.load(home).warnings


def test_a_renamed_setting_leads_to_one_that_exists():
    for new in file.RENAMED.values():
        assert schema.leaf(new)


@pytest.mark.parametrize("old", ["", OURS, "# Written by Segue 0.0.9.\n"])
@pytest.mark.parametrize("unknown", ["modle = 'a'\n", "[web]\nprot = 1\n", "[keys]\nx = 'k'\n"])
def test_a_misspelt_setting_is_an_error(home: dict[str, str], old: str, unknown: str):
    write(home, unknown + old)
    with pytest.raises(BadSettings, match="there is no setting"):
        config.load(home)


def test_settings_of_a_newer_version_are_ignored_with_a_warning(home: dict[str, str]):
    path = write(
        home,
        "model = 'a/b'\nfuture = 1\n[keys]\nnewmodels = 'k'\n[platforms.carrier-pigeon]\nnest = 1\n"
        "[platforms.slack]\nnests = 2\n[reset.for.nest]\nmode = 'daily'\n"
        "[endpoints.work]\nurl = 'http://h'\nmood = 'good'\n[approvals.platforms]\nnest = 'ask'\n"
        + NEWER,
    )
    found = config.load(home)
    assert found.model == "a/b"
    (warning,) = [text for text in found.warnings if "99.1.0" in text]
    assert warning.startswith(f"{path} was written by Segue 99.1.0; this is {segue.__version__},")
    ignored = (
        "future, keys.newmodels, platforms.carrier-pigeon, platforms.slack.nests, reset.for.nest"
    )
    assert f"{ignored}, endpoints.work.mood, approvals.platforms.nest." in warning
    assert config.explain(home)


def test_a_wrong_value_in_the_file_of_a_newer_version_is_an_error(home: dict[str, str]):
    write(home, f"idle_minutes = 'long'\n{NEWER}")
    with pytest.raises(BadSettings, match="idle_minutes"):
        config.load(home)


def test_a_change_to_the_file_of_a_newer_version_keeps_its_settings(home: dict[str, str]):
    path = write(home, f"future = 1\n{NEWER}")
    config.set_model("local", home)
    assert "future = 1\n" in path.read_text()
    assert NEWER in path.read_text()
    assert OURS not in path.read_text()
    assert config.load(home).model == "local"
    config.change("web.port", ["9000"], home)
    assert path.read_text().endswith(f"[web]\nport = 9000\n{NEWER}")
    assert path.read_text().count("Written by") == 1


def test_every_write_records_the_version_once(home: dict[str, str]):
    path = write(home, "# Written by Segue 0.0.1.\nmodel = 'a/b'")
    config.set_model("local", home)
    assert path.read_text() == f'model = "local"\n{OURS}'
    config.change("keys.openai", ["k"], home)
    config.change("keys.groq", ["k"], home)
    assert path.read_text().endswith(f'[keys]\nopenai = "k"\ngroq = "k"\n{OURS}')
    assert path.read_text().count("Written by") == 1
    config.replace(b"model = 'a/b'", home)
    assert path.read_text() == f"model = 'a/b'\n{OURS}"
    Path(path).unlink()
    config.set_model("local", home)
    assert path.read_text() == f'model = "local"\n{OURS}'
