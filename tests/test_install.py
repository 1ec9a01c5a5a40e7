"""`make install` puts the program on the PATH, and `make uninstall` undoes it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
Make = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "my home"
    home.mkdir()
    return home


@pytest.fixture
def make(home: Path) -> Make:
    def run(goal: str, path: str = "/usr/bin:/bin") -> subprocess.CompletedProcess[str]:
        command = ["make", "--no-print-directory", "--old-file=.venv/.core", goal]
        environment = {"HOME": str(home), "PATH": path}
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )

    return run


def link(home: Path) -> Path:
    return home / ".local" / "bin" / "segue"


def test_the_installer_lists_what_it_installs_and_the_program_runs(make: Make, home: Path):
    if Path(sys.prefix) != ROOT / ".venv":
        pytest.skip("the tests do not run in the environment of the project folder")
    done = make("install")
    assert f"Installed segue as {link(home)}" in done.stdout
    assert f"{link(home).parent} is not on your PATH yet" in done.stdout
    assert "make uninstall" in done.stdout
    said = subprocess.run([link(home), "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("segue, version")
    assert "is not on your PATH" not in make("install", f"{link(home).parent}:/usr/bin:/bin").stdout


def test_completion_is_installed_and_uninstalled_with_the_program(make: Make, home: Path):
    assert make("install").returncode == 0
    completion = home / ".local/share/bash-completion/completions/segue"
    assert "complete -o nosort -F _segue_completion segue" in completion.read_text()
    done = make("uninstall")
    assert f"Removed {link(home)}" in done.stdout
    assert [path for path in home.rglob("*") if not path.is_dir()] == []


def test_another_program_of_that_name_is_kept(make: Make, home: Path):
    link(home).parent.mkdir(parents=True)
    link(home).write_text("mine")
    for goal in ("install", "uninstall"):
        done = make(goal)
        assert done.returncode != 0
        assert done.stdout == ""
    assert link(home).read_text() == "mine"
