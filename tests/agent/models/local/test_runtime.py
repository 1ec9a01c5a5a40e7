"""The package that runs the weights: detecting and installing it."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pip
import pytest

from segue.agent.models.local import runtime
from segue.core.errors import PullFailed
from tests.agent.models.local.conftest import STAND_IN, bare_python
from tests.agent.models.local.index import wheel

NAME = "segue_tiny_runtime"
ROOT = Path(__file__).parents[4]


def unheard(_: str) -> None:
    pass


@pytest.fixture(params=["stand-in", pytest.param("pip", marks=pytest.mark.real)])
def elsewhere(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A separate environment, with a fake pip or the real one, and a folder to install from."""
    monkeypatch.setattr(sys, "executable", bare_python(tmp_path / "bare"))
    lent = STAND_IN
    if request.param == "pip":
        lent = tmp_path / "lent"
        lent.mkdir()
        (lent / "pip").symlink_to(Path(pip.__file__).parent)
    monkeypatch.setenv("PYTHONPATH", str(lent))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setattr(runtime, "PACKAGE", NAME)
    monkeypatch.setattr(runtime, "REQUIREMENTS", tmp_path / "requirements.txt")
    return tmp_path


def offer(folder: Path, module: str, *, hashed: str | None = None) -> None:
    packed = wheel(NAME.replace("_", "-"), {"__init__.py": module.encode()})
    (folder / "wheels" / f"{NAME}-1.0-py3-none-any.whl").write_bytes(packed)
    sha256 = hashed or hashlib.sha256(packed).hexdigest()
    (folder / "requirements.txt").write_text(f"{NAME}==1.0 --hash=sha256:{sha256}\n")


async def test_the_runtime_is_installed_and_the_output_of_pip_is_shown(elsewhere: Path):
    offer(elsewhere, "")
    said: list[str] = []
    await runtime.install(said.append)
    assert any("Successfully installed" in line for line in said)
    assert list_installed(elsewhere) == [NAME]


def list_installed(folder: Path) -> list[str]:
    return [path.name for path in (folder / "bare").rglob(NAME)]


async def test_a_runtime_with_another_hash_is_not_installed(elsewhere: Path):
    offer(elsewhere, "", hashed="0" * 64)
    with pytest.raises(PullFailed, match="pip says"):
        await runtime.install(unheard)
    assert not list_installed(elsewhere)


async def test_a_missing_system_library_is_named(elsewhere: Path):
    missing = "libgomp.so.1: cannot open shared object file: No such file or directory"
    offer(elsewhere, f"raise ImportError({missing!r})")
    with pytest.raises(PullFailed, match="apt install libgomp1"):
        await runtime.install(unheard)


async def test_a_runtime_that_cannot_be_loaded_reports_the_reason(elsewhere: Path):
    offer(elsewhere, "raise ImportError('made for another machine')")
    with pytest.raises(PullFailed, match=f"{NAME} cannot be loaded: made for another machine"):
        await runtime.install(unheard)


async def test_without_pip_the_error_says_what_to_type(
    no_pip: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runtime, "PACKAGE", NAME)
    with pytest.raises(PullFailed, match="this Python has no pip") as caught:
        await runtime.install(unheard)
    assert f"type `{no_pip} -m ensurepip` first" in str(caught.value)


def test_the_runtime_is_detected_without_loading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runtime, "PACKAGE", NAME)
    assert not runtime.has_package()
    (tmp_path / f"{NAME}.py").write_text("raise SystemExit")
    monkeypatch.syspath_prepend(tmp_path)
    assert runtime.has_package()
    assert NAME not in sys.modules


def test_the_shipped_hashes_match_the_lock_file():
    lock = (ROOT / "requirements" / "local.txt").read_text()
    assert locked(runtime.REQUIREMENTS.read_text()) == locked(lock)


def locked(text: str) -> list[str]:
    """The requirement and its hashes."""
    lines = [line.strip(" \\") for line in text.splitlines()]
    start = next(n for n, line in enumerate(lines) if line.startswith("xllamacpp=="))
    hashes = [line for line in lines[start + 1 :] if line.startswith("--hash")]
    assert hashes
    return [lines[start], *hashes]
