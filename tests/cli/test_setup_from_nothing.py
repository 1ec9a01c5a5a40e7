"""`segue setup PLATFORM` installs what the platform needs into an environment that has only Segue,
from a clone and from a wheel, with the real pip."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from segue.cli.setup import LOCKS
from segue.platforms import registry

ROOT = Path(__file__).parents[2]
REACHES = {
    name: value
    for name, value in os.environ.items()  # noqa: TID251 - how this machine reaches the index
    if name.startswith(("PIP_", "SSL_")) or name.lower().endswith("_proxy")
}
QUICK = {"PIP_CACHE_DIR": str(ROOT / ".venv" / "pip-cache"), "PIP_NO_COMPILE": "1"}
CLONED = ("src", "requirements", "pyproject.toml", "README.md", "LICENSE")


def test_every_platform_has_a_lock_file_in_the_package():
    assert {spec.extra for spec in registry.BUILT_IN} == {lock.stem for lock in LOCKS.iterdir()}


def run(command: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of a user who has nothing but this folder as home."""
    return subprocess.run(
        command,
        cwd=folder,
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **REACHES, **QUICK},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def pip(python: Path, folder: Path, *words: str | Path) -> None:
    done = run([python, "-m", "pip", "--disable-pip-version-check", *words], folder)
    assert done.returncode == 0, done.stdout + done.stderr


def _python(folder: Path) -> Path:
    venv.create(folder, with_pip=True, symlinks=True)
    return folder / "bin" / "python"


def from_clone(folder: Path) -> Path:
    """As `make run` installs it."""
    clone = folder / "clone"
    clone.mkdir()
    for name in CLONED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, clone)
    python = _python(folder / "environment")
    locks = ("-r", clone / "requirements/core.txt", "-r", clone / "requirements/build.txt")
    pip(python, folder, "install", "--require-hashes", "--no-deps", *locks)
    pip(python, folder, "install", "--no-deps", "--no-build-isolation", "--editable", clone)
    return python


def from_wheel(folder: Path) -> Path:
    """As `pip install` installs it."""
    build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    pip(Path(sys.executable), folder, *build)
    (wheel,) = folder.glob("segue-*.whl")
    python = _python(folder / "environment")
    pip(python, folder, "install", wheel)
    return python


@pytest.mark.real
@pytest.mark.timeout(1800)  # it downloads and unpacks packages, which a busy machine does slowly
@pytest.mark.parametrize("install", [from_clone, from_wheel])
def test_every_platform_is_installed_from_nothing(tmp_path: Path, install: Callable[[Path], Path]):
    bare = install(tmp_path).parents[1]
    for spec in registry.BUILT_IN:
        environment = bare
        adapter = f"import {spec.make.partition(':')[0]}"
        if spec.libraries:  # a copy, which has no packages of another platform
            environment = tmp_path / f"with-{spec.platform}"
            shutil.copytree(bare, environment, symlinks=True)
            assert run([environment / "bin/python", "-c", adapter], tmp_path).returncode != 0
        python = environment / "bin/python"
        done = run([python, "-m", "segue", "setup", spec.platform, "--yes"], tmp_path)
        said = done.stdout + done.stderr
        assert ("Installed." in said) == bool(spec.libraries), said
        assert done.returncode == 1, said  # there is nobody to ask for a token
        loaded = run([python, "-c", adapter], tmp_path)
        assert loaded.returncode == 0, loaded.stderr
