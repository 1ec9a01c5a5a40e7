"""`segue setup` installs the packages of a platform, after asking."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from segue.cli import setup
from segue.cli.setup import SetupOptions, install_packages
from segue.core.errors import LibraryMissing, PlatformError
from tests.agent.models.local.conftest import STAND_IN, bare_python
from tests.agent.models.local.index import wheel
from tests.harness.gateways import segue_says
from tests.harness.terminal import Person
from tests.platforms.needy import PACKAGE, REGISTERED, SPEC, is_there
from tests.program import constants


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of lock files and wheels, and a Python without the package, whose modules this
    process can import."""
    python = Path(bare_python(tmp_path / "bare"))
    monkeypatch.setattr(sys, "executable", str(python))
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setattr(setup, "LOCKS", tmp_path)
    for name in (PACKAGE, "tests.platforms.needy_adapter"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def lock(folder: Path, *, right: bool) -> None:
    packed = wheel(PACKAGE.replace("_", "-"), {"__init__.py": b""})
    (folder / f"{PACKAGE}-1.0-py3-none-any.whl").write_bytes(packed)
    sha256 = hashlib.sha256(packed if right else b"another").hexdigest()
    (folder / "slack.txt").write_text(f"{PACKAGE}==1.0 --hash=sha256:{sha256}\n")


async def test_missing_packages_are_installed_and_used_at_once(
    locks: Path, capsys: pytest.CaptureFixture[str]
):
    lock(locks, right=True)
    assert not is_there()
    await install_packages(SetupOptions(spec=SPEC, values={}, yes=True))
    assert is_there()
    assert "locked versions, checked by their hashes" in capsys.readouterr().out
    await install_packages(SetupOptions(spec=SPEC, values={}))
    assert capsys.readouterr().out == "", "nothing is missing"


async def test_packages_with_other_hashes_are_not_installed(locks: Path):
    lock(locks, right=False)
    with pytest.raises(PlatformError, match="DO NOT MATCH THE HASHES"):
        await install_packages(SetupOptions(spec=SPEC, values={}, yes=True))
    assert not is_there()


async def test_without_a_terminal_nothing_is_installed_automatically(locks: Path):
    lock(locks, right=True)
    with pytest.raises(LibraryMissing, match="`segue setup slack --yes`"):
        await install_packages(SetupOptions(spec=SPEC, values={}))
    assert not is_there()


async def test_a_user_is_asked_and_can_decline(person: Person):
    person.environment.update(constants(REGISTERED))
    async with person.opens("setup", "slack") as shown:
        await shown.shows("Slack needs packages that are not installed. Install them now? [Y/n]:")
        shown.say("n")
        assert await shown.end() == 1
        await shown.shows("`make extra NAME=slack`")
    output = segue_says(person, "setup", "slack", "--token", "x")
    assert (output.returncode, output.stdout) == (1, "")
