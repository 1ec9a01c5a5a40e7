"""The table of installed packages says what the lock files say."""

from __future__ import annotations

import tomllib
from pathlib import Path

from benchmarks import sizes

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def test_the_table_has_the_packages_of_every_extra():
    assert sizes.written() == sizes.packages(), "Type `make sizes`, and commit the table."


def test_every_extra_is_in_the_table():
    assert {*sizes.packages()} == {sizes.CORE, *PROJECT["optional-dependencies"]}
