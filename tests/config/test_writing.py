"""Changes of the settings file, which leave the rest of it as it is."""

from __future__ import annotations

import stat
import tomllib
import typing
from pathlib import Path

import pytest

import segue
from segue import config
from segue.config import schema
from segue.core.errors import BadSettings, SettingsError
from tests.config.test_config import FULL, SECRET, write
from tests.config.test_config import home as home

RECORD = f"# Written by Segue {segue.__version__}.\n"

# Writing


def test_writing_a_model_leaves_the_rest_of_the_file_unchanged(home: dict[str, str]):
    rest = FULL[FULL.index("[keys]") :]
    before = f'# mine\nmodel = "a/b"  # for now\n\nidle_minutes = 3 # short\n{rest}'
    path = write(home, before)
    assert config.set_model("openrouter/x/y", home) == path
    assert path.read_text() == before.replace('"a/b"', '"openrouter/x/y"') + RECORD


@pytest.mark.parametrize("before", ["", "# only words\n", "[keys]\nopenai = 'k'\n", "[endpoints]"])
def test_a_first_model_is_written_before_the_first_table(home: dict[str, str], before: str):
    path = write(home, before)
    config.set_model("local", home)
    assert tomllib.loads(path.read_text()) == {"model": "local", **tomllib.loads(before)}
    assert all(line in path.read_text() for line in before.splitlines())


def test_a_new_file_is_readable_by_its_owner_only(tmp_path: Path):
    path = tmp_path / "new" / "folder" / "config.toml"
    config.set_model("we\"ird'/näme", {"SEGUE_CONFIG": str(path)})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert tomllib.loads(path.read_text()) == {"model": "we\"ird'/näme"}
    assert list(path.parent.iterdir()) == [path], "nothing else is left"


def test_writing_makes_the_file_private(home: dict[str, str]):
    path = write(home, FULL, 0o644)
    config.set_model("local", home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_writing_through_a_symlink_keeps_the_symlink(home: dict[str, str], tmp_path: Path):
    target = tmp_path / "dotfiles" / "segue.toml"
    target.parent.mkdir()
    target.write_text("# here\n")
    path = Path(home["SEGUE_CONFIG"])
    path.symlink_to(target)
    config.set_model("local", home)
    assert path.is_symlink()
    assert target.read_text() == f'# here\nmodel = "local"\n{RECORD}'


def test_a_broken_file_is_not_written(home: dict[str, str]):
    path = write(home, "model = ")
    with pytest.raises(BadSettings):
        config.set_model("local", home)
    assert path.read_text() == "model = "


def test_a_special_file_is_not_replaced():
    with pytest.raises(SettingsError, match="no ordinary file"):
        config.set_model("local", {"SEGUE_CONFIG": "/dev/null"})


def test_a_folder_that_cannot_be_created_is_reported(home: dict[str, str]):
    path = write(home, "")
    inside = {"SEGUE_CONFIG": str(path / "config.toml")}
    with pytest.raises(SettingsError, match="Not a directory"):
        config.set_model("local", inside)


def test_a_reader_sees_a_whole_file_while_it_is_written(home: dict[str, str]):
    path = write(home, FULL)
    with path.open() as reader:
        config.set_model("local", home)
        assert reader.read() == FULL, "the old file is left alone"
    assert config.load(home).model == "local"


@pytest.mark.parametrize(
    ("name", "given", "written"),
    [
        ("model", ["anthropic"], "anthropic"),
        ("store", ["sqlite:///x.db"], "sqlite:///x.db"),
        ("private_network", ["false"], False),
        ("idle_minutes", ["5"], 5),
        ("idle_minutes", ["2.5"], 2.5),
        ("models_folder", ["~/models"], "~/models"),
        ("keys.groq", ["k"], "k"),
        ("endpoints.work.context", ["4096"], 4096),
        ("endpoints.my.own-server.url", ["http://h"], "http://h"),
        ("approvals.policy", ["auto"], "auto"),
        ("approvals.platforms.matrix", ["allow-list"], "allow-list"),
        ("approvals.allowed_commands", ["make", "git log"], ["make", "git log"]),
        ("approvals.allowed_commands", ["make"], ["make"]),
        ("approvals.allowed_commands", ['["make", "[x"]'], ["make", "[x"]),
        ("approvals.allowed_commands", ["[]"], []),
        ("gateway_log", ["~/log"], "~/log"),
        ("platforms.slack.enabled", ["false"], False),
        ("platforms.slack.adapter", ["a.b:c"], "a.b:c"),
        ("platforms.matrix.token", ["k"], "k"),
        ("reset.mode", ["daily"], "daily"),
        ("reset.hour", ["0"], 0),
        ("reset.zone", ["UTC"], "UTC"),
        ("reset.for.slack-thread.idle_minutes", ["15"], 15),
    ],
)
def test_changing_a_setting_changes_nothing_else(
    home: dict[str, str], name: str, given: list[str], written: object
):
    path = write(home, f"# mine\n{FULL}# the end\n", 0o644)
    wanted = tomllib.loads(path.read_text())
    config.change(name, given, home)
    found: typing.Any = tomllib.loads(path.read_text())
    table = wanted
    *tables, last = schema.parts(name)
    for part in tables:
        table = table.setdefault(part, {})
    table[last] = written
    assert found == wanted
    assert path.read_text().startswith("# mine\n")
    assert "# the end\n" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "before",
    [
        "",
        "[approvals.platforms]\nweb = 'ask'\n",
        "approvals.policy = 'ask'\n[keys]\n",
        "approvals = {policy = 'ask'}\n",
        "[endpoints.a]\nurl = 'http://h'\n[keys]\nopenai = 'k'\n[endpoints.b]\nurl = 'http://i'\n",
        "model = 'x'\r\n[approvals]\r\n",
    ],
)
def test_a_setting_is_written_in_the_right_table_of_any_file(home: dict[str, str], before: str):
    path = write(home, before)
    config.change("approvals.allowed_commands", ["ls"], home)
    config.change("endpoints.c.url", ["http://j"], home)
    config.change("endpoints.c.key", ["k"], home)
    wanted = tomllib.loads(before)
    wanted.setdefault("approvals", {})["allowed_commands"] = ["ls"]
    wanted.setdefault("endpoints", {})["c"] = {"url": "http://j", "key": "k"}
    assert tomllib.loads(path.read_text()) == wanted
    assert config.load(home).endpoints["c"].url == "http://j"


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("modle", ["x"], "There is no setting 'modle' (there is 'model')."),
        ("keys", ["x"], "There is no setting 'keys'"),
        ("endpoints.work", ["x"], "There is no setting 'endpoints.work'"),
        ("endpoints.work.speed", ["x"], "There is no setting 'endpoints.work.speed'"),
        ("model.x", ["x"], "There is no setting 'model.x'"),
        ("keys.icq", ["x"], "there is no setting keys.icq, only anthropic"),
        ("approvals.platforms.icq", ["ask"], "approvals.platforms.icq, only local, web"),
        ("approvals.policy", ["never"], "approvals.policy: expected one of ask, allow-list, auto"),
        ("idle_minutes", ["0"], "idle_minutes: expected a number > 0"),
        ("idle_minutes", ["soon"], "idle_minutes: expected a number"),
        ("private_network", ["maybe"], "private_network: expected true or false, got text."),
        ("endpoints.new.key", ["x"], "endpoints.new.url is missing"),
        ("endpoints.work.url", ["models.example.com"], "endpoints.work.url: expected http://"),
        (
            "endpoints.work.context",
            ["9"],
            "endpoints.work.context: expected a whole number >= 1024",
        ),
        ("endpoints.a/b.url", ["http://h"], "a name has letters, digits"),
        ("models_folder", ["models"], "models_folder: expected a path that begins with / or ~"),
        ("model", ["a", "b"], "model takes one value, not 2"),
        ("model", ["a\x1b[2J"], "only characters that can be seen"),
        ("model", ["\udcff"], "only characters that can be seen"),
        ("approvals.allowed_commands", ["[1, 2]"], "expected text in quotation marks, got"),
        ("approvals.allowed_commands", ["[ls"], "that is no list in TOML"),
        ("platforms.icq.token", ["x"], "there is no setting platforms.icq, only web"),
        ("platforms.slack", ["x"], "There is no setting 'platforms.slack'"),
        ("platforms.slack.url", ["h"], "platforms.slack.url: expected http://"),
        ("platforms.slack.adapter", ["h"], "expected package.module:function"),
        ("gateway_log", ["log"], "gateway_log: expected a path that begins with / or ~"),
        ("reset.for", ["x"], "There is no setting 'reset.for'"),
        ("reset.chats.dm.mode", ["none"], "There is no setting 'reset.chats.dm.mode'"),
        ("reset.for.all.mode", ["none"], "there is no setting reset.for.all, only web"),
        ("reset.for.dm.mode", ["x"], "reset.for.dm.mode: expected one of none, idle, daily"),
        ("reset.zone", ["Mars"], "reset.zone: there is no such time zone"),
    ],
)
def test_a_change_that_would_make_the_file_invalid_is_refused(
    home: dict[str, str], name: str, given: list[str], expected: str
):
    path = write(home, FULL)
    with pytest.raises(SettingsError) as caught:
        config.change(name, given, home)
    assert expected in str(caught.value)
    assert path.read_text() == FULL


def test_a_wrong_setting_can_be_fixed_by_setting_it(home: dict[str, str]):
    path = write(home, "idle_minutes = 0\n")
    config.change("idle_minutes", ["3"], home)
    assert path.read_text() == f"idle_minutes = 3\n{RECORD}"


def test_a_refusal_does_not_show_a_key(home: dict[str, str]):
    write(home, FULL)
    with pytest.raises(SettingsError, match="Nothing was changed: ") as caught:
        config.change("endpoints.new.key", [SECRET], home)
    assert SECRET not in str(caught.value)
