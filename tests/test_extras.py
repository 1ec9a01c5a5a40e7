"""The packages of a platform are installed from its lock file, and no text advises otherwise."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from segue.platforms import registry

ROOT = Path(__file__).parents[1]
TEXTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "src").rglob("*.py"),
]
LOCKS = "src/segue/platforms/requirements"
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def make(*words: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--dry-run", "--old-file=.venv/.core", "extra", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", EXTRAS)
def test_every_extra_is_installed_with_its_hashes(name: str):
    lock = f"{LOCKS if name in registry.SPECS else 'requirements'}/{name}.txt"
    assert re.search(
        rf"--require-hashes --no-deps -r {lock}$", make(f"NAME={name}").stdout, re.MULTILINE
    )
    assert (ROOT / lock).is_file()


def test_an_unknown_extra_is_refused():
    command = ["make", "--old-file=.venv/.core", "extra", "NAME=no-such"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "make extra NAME=telegram" in done.stderr


def test_no_message_says_to_install_without_hashes():
    told = [path for path in TEXTS if re.search(r"pip install (?!--)", path.read_text())]
    assert told == []
