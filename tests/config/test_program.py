"""The name of the program in a shell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from segue import config

PROGRAM = Path(sys.prefix) / "bin" / "segue"
CLONE = str(Path(sys.prefix).parent)


@pytest.mark.parametrize(
    ("path", "directory", "name"),
    [
        (str(PROGRAM.parent), CLONE, "segue"),
        ("/nowhere", CLONE, f"{Path(sys.prefix).name}/bin/segue"),
        ("/nowhere", "/nowhere", str(PROGRAM)),
        ("/nowhere", str(PROGRAM.parent), str(PROGRAM)),
        ("/nowhere", "", str(PROGRAM)),
        ("", CLONE, f"{Path(sys.prefix).name}/bin/segue"),
    ],
)
def test_the_command_name_is_segue_if_on_the_path_or_else_its_path(
    path: str, directory: str, name: str
):
    assert config.command_name({"PATH": path, "PWD": directory}) == name


def test_a_path_with_spaces_is_quoted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "prefix", "/home/me/my clone/.venv")
    assert config.command_name({}) == "'/home/me/my clone/.venv/bin/segue'"
