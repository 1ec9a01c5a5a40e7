"""`segue config`, as a user types it."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from tests.config.test_writing import RECORD
from tests.harness.command_line import Command

KEY = "sk-very-secret"
FILE = f"""# mine
model = "work/big"
idle_minutes = 3

[keys]
anthropic = "{KEY}"

[endpoints.work]
url = "http://10.0.0.7/v1"
key = "{KEY}"
"""


class ConfigCommand(Command):
    """`segue config` of a user with a settings file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "config.toml"
        environment = {
            "SEGUE_CONFIG": str(self.path),
            "SEGUE_STORE": f"postgresql://me:{KEY}@h/db",
            "SEGUE_MODELS": str(folder / "models"),
            "HOME": str(folder),
        }
        super().__init__("config", environment, secret=KEY)

    def write(self, text: str) -> None:
        self.path.write_text(text)
        self.path.chmod(0o600)


@pytest.fixture
def person(tmp_path: Path) -> ConfigCommand:
    person = ConfigCommand(tmp_path)
    person.write(FILE)
    return person


# Path


def test_the_path_is_printed_even_if_the_file_is_broken(person: ConfigCommand):
    assert person("path") == f"{person.path}\n"
    person.write("broken")
    assert person.json("path") == {"path": str(person.path), "exists": True}
    person.path.unlink()
    assert person.json("path") == {"path": str(person.path), "exists": False}


# Show and get


def test_every_setting_is_shown_with_its_origin(person: ConfigCommand):
    lines = person("show", SEGUE_MODEL="local", OPENAI_API_KEY=KEY).splitlines()
    rows = {name: (value, origin) for name, value, origin in (x.split("\t") for x in lines)}
    assert rows["model"] == ("local", "SEGUE_MODEL")
    assert rows["idle_minutes"] == ("3", "file")
    assert rows["private_network"] == ("false", "default")
    assert rows["store"] == ("postgresql://h/db", "SEGUE_STORE"), "without user and password"
    assert rows["keys.anthropic"] == ("(hidden)", "file")
    assert rows["keys.openai"] == ("(hidden)", "OPENAI_API_KEY")
    assert rows["keys.groq"] == ("", "default")
    assert rows["endpoints.work.key"] == ("(hidden)", "file")
    assert rows["endpoints.work.context"] == ("32768", "default")
    assert "approvals.platforms.web" not in rows, "it only follows approvals.policy"
    person("set", "approvals.platforms.web", "auto")
    assert "approvals.platforms.web\tauto\tfile\n" in person("show")


def test_settings_are_shown_as_json(person: ConfigCommand):
    rows = {row["name"]: row for row in person.json("show")}
    key = {"name": "keys.anthropic", "value": None, "hidden": True, "origin": "file"}
    assert rows["keys.anthropic"] == key
    assert rows["keys.groq"]["hidden"] is False
    assert rows["idle_minutes"]["value"] == 3
    assert rows["approvals.platforms.web"]["value"] == "ask"
    assert rows["approvals.allowed_commands"]["value"] == []


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_table_of_settings_fits_the_terminal(person: ConfigCommand, columns: int):
    code, shown = person.on_screen("show", columns=columns)
    assert code == 0
    assert max(map(len, shown.splitlines())) <= columns
    assert ("SETTING" in shown) is (columns >= 60)
    assert "keys.groq" in shown
    assert KEY not in shown


def test_one_setting_is_printed_alone(person: ConfigCommand):
    assert person("get", "model") == "work/big\n"
    assert person("get", "keys.anthropic") == "(hidden)\n"
    assert person("get", "keys.groq") == ""
    assert person("get", "private_network") == "false\n"
    assert person("get", "approvals.platforms.web") == "ask\n"
    assert person("get", "store") == "postgresql://h/db\n"
    assert person.json("get", "idle_minutes")["origin"] == "file"
    person("set", "approvals.allowed_commands", "git status", "ls")
    assert person("get", "approvals.allowed_commands") == "git status\nls\n"
    assert "There is no setting 'modle' (there is 'model')." in person.refused("get", "modle")


def test_invalid_settings_are_reported_in_one_sentence(person: ConfigCommand):
    person.write("modle = 'x'")
    for words in (("show",), ("get", "model")):
        assert "there is no setting modle, only store, model" in person.refused(*words)


@pytest.mark.parametrize("text", ["modle = 'x'", "this is no TOML"])
def test_set_says_how_to_repair_a_file_that_is_not_valid(person: ConfigCommand, text: str):
    person.write(text)
    refused = person.refused("set", "idle_minutes", "5")
    assert f"Nothing was changed: {person.path} has an error already: th" in refused
    assert refused.endswith("Type `segue config edit` to fix it.\n")
    assert person.path.read_text() == text


def test_a_settings_file_that_others_can_read_causes_a_warning(person: ConfigCommand):
    person.path.chmod(0o644)
    assert "holds keys, and others can read it" in person.run("show").stderr


def test_printed_settings_have_no_control_characters(person: ConfigCommand):
    person.write('model = "a\\u001b[2J\\u202eb"\n')
    for words in (("show",), ("get", "model"), ("show", "--json"), ("get", "model", "--json")):
        assert not {"\x1b", "\u202e"} & set(person(*words))
    assert "\x1b" not in person.refused("get", "\x1b[2J")
    assert "\x1b" not in person.refused("set", "\x1b[2J", "x")


# Set


def test_setting_a_value_leaves_the_rest_of_the_file_unchanged(person: ConfigCommand):
    assert person("set", "idle_minutes", "5") == f"Set idle_minutes in {person.path}.\n"
    assert person.path.read_text() == FILE.replace("idle_minutes = 3", "idle_minutes = 5") + RECORD


def test_an_invalid_value_is_not_written(person: ConfigCommand):
    assert "idle_minutes: expected a number > 0" in person.refused("set", "idle_minutes", "0")
    assert "There is no setting 'modle'" in person.refused("set", "modle", "x")
    assert "No value for model. Give one." in person.refused("set", "model")
    assert "is not a store. Use sqlite:///" in person.refused("set", "store", "/x.db")
    assert person.path.read_text() == FILE


def test_set_warns_that_a_variable_overrides_the_value(person: ConfigCommand):
    output = person.run("set", "model", "local", SEGUE_MODEL="other").stderr
    assert output == "The environment variable SEGUE_MODEL is set and overrides it.\n"
    assert person.run("set", "model", "local").stderr == ""


def test_a_key_makes_the_file_private(person: ConfigCommand):
    person.path.chmod(0o644)
    assert person("set", "keys.groq", KEY) == f"Set keys.groq in {person.path}.\n"
    assert stat.S_IMODE(person.path.stat().st_mode) == 0o600
    assert f'groq = "{KEY}"' in person.path.read_text()


def test_a_key_is_read_from_a_pipe(person: ConfigCommand):
    person("set", "keys.groq", given=f" {KEY}\nmore\n")
    assert f'groq = "{KEY}"\n' in person.path.read_text()
    assert "No value for keys.openai. Give one." in person.refused("set", "keys.openai", given="\n")


def test_a_key_is_prompted_for_without_echo(person: ConfigCommand):
    prompt = "endpoints.work.key: "
    code, shown = person.on_screen("set", "endpoints.work.key", keys=b"new\n", prompt=prompt)
    assert code == 0
    assert shown == f"{prompt}\nSet endpoints.work.key in {person.path}.\n"
    assert 'key = "new"\n' in person.path.read_text()


# Edit


def editor(folder: Path, *programs: str) -> str:
    """An editor that runs the first of `programs` on the file the first time, and so on."""
    script = folder / "editor.py"
    count = folder / "count"
    count.write_text("0")
    steps = ",\n".join(repr(program) for program in programs)
    script.write_text(
        "import pathlib, sys\n"
        f"count = pathlib.Path({str(count)!r})\n"
        "number = int(count.read_text())\n"
        "count.write_text(str(number + 1))\n"
        "path = pathlib.Path(sys.argv[-1])\n"
        "text = path.read_text()\n"
        f"exec([{steps}][number])\n"
    )
    return f"{sys.executable} '{script}'"


def test_the_edited_text_replaces_the_file(person: ConfigCommand, tmp_path: Path):
    step = "path.write_text(text.replace('= 3', '= 4')); print(oct(path.stat().st_mode & 0o777))"
    code, shown = person.on_screen("edit", VISUAL=editor(tmp_path, step), EDITOR="false")
    assert (code, shown) == (0, f"0o600\nChanged {person.path}.\n")
    assert person.path.read_text() == FILE.replace("= 3", "= 4") + RECORD
    assert stat.S_IMODE(person.path.stat().st_mode) == 0o600


def test_a_settings_file_that_does_not_exist_yet_can_be_edited(
    person: ConfigCommand, tmp_path: Path
):
    person.path.unlink()
    code, _ = person.on_screen("edit", EDITOR=editor(tmp_path, "pass"))
    assert code == 0
    assert not person.path.exists(), "nothing was changed"
    step = "path.write_text(text + 'model = \"local\"')"
    assert person.on_screen("edit", EDITOR=editor(tmp_path, step))[0] == 0
    assert person("get", "model") == "local\n"


def test_a_broken_file_can_be_repaired(person: ConfigCommand, tmp_path: Path):
    person.write("modle = 'x'\n")
    step = "path.write_text(text.replace('modle', 'model'))"
    assert person.on_screen("edit", EDITOR=editor(tmp_path, step))[0] == 0
    assert person.path.read_text() == f"model = 'x'\n{RECORD}"


def test_an_invalid_edit_can_be_corrected(person: ConfigCommand, tmp_path: Path):
    wrong = "path.write_text(text.replace('= 3', '= 0'))"
    right = "path.write_text(text.replace('= 0', '= 7'))"
    steps = editor(tmp_path, wrong, right)
    code, shown = person.on_screen("edit", EDITOR=steps, keys=b"\n")
    assert code == 0
    assert "The settings are not valid: idle_minutes: expected a number > 0.0.\n" in shown
    assert "Edit it again? [Y/n]:" in shown
    assert person("get", "idle_minutes") == "7\n"


def test_an_invalid_edit_that_is_not_corrected_changes_nothing(
    person: ConfigCommand, tmp_path: Path
):
    wrong = "path.write_text('broken')"
    code, shown = person.on_screen("edit", EDITOR=editor(tmp_path, wrong), keys=b"n\n")
    assert code == 1
    assert "The settings are not valid: this is no TOML" in shown
    assert person.path.read_text() == FILE
    assert "this is no TOML" in person.refused("edit", EDITOR=editor(tmp_path, wrong))
    assert person.path.read_text() == FILE


def test_edit_asks_before_it_replaces_a_file_that_has_changed(
    person: ConfigCommand, tmp_path: Path
):
    other = f"pathlib.Path({str(person.path)!r}).write_text('model = \"other\"\\n')"
    step = f"{other}; path.write_text(text + '# more\\n')"
    code, shown = person.on_screen("edit", EDITOR=editor(tmp_path, step), keys=b"\n")
    assert code == 1
    assert "has changed since you opened it. Replace it with yours? [y/N]:" in shown
    assert person.path.read_text() == 'model = "other"\n'


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/nowhere/editor", "The editor /nowhere/editor cannot be started (No such file or dir"),
        ("false", "The editor false failed; nothing was changed. Set EDITOR to your editor"),
    ],
)
def test_an_editor_that_does_not_work_is_reported(
    person: ConfigCommand, command: str, expected: str
):
    assert expected in person.refused("edit", EDITOR=command, VISUAL="")
    assert person.path.read_text() == FILE


def test_without_an_editor_the_error_names_the_variable_to_set(
    person: ConfigCommand, tmp_path: Path
):
    output = person.refused("edit", EDITOR="", VISUAL="", PATH=str(tmp_path))
    assert "No editor was found. Set EDITOR to your editor" in output
