"""Private files: who can access them, and what is left when a write fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from segue.system import files


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture(params=[0o000, 0o022, 0o277], ids=oct, autouse=True)
def umask(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[int]:
    assert tmp_path.is_dir()
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_a_folder_is_private_from_the_moment_it_exists(tmp_path: Path):
    files.make_folder(tmp_path / "new")
    assert mode(tmp_path / "new") == 0o700


def test_a_folder_that_exists_becomes_private_only_if_asked(tmp_path: Path):
    tmp_path.chmod(0o755)
    files.make_folder(tmp_path)
    assert mode(tmp_path) == 0o755
    files.make_private_folder(tmp_path)
    assert mode(tmp_path) == 0o700


def test_the_parents_of_a_private_folder_are_not_always_made(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        files.make_private_folder(tmp_path / "missing" / "new", parents=False)


def write_new(path: Path) -> None:
    with files.new_file(path) as file:
        file.write(b"new")


def write_opened(path: Path) -> None:
    os.close(files.open_file(path))


def write_replaced(path: Path) -> None:
    files.replace(path, b"new")


@pytest.mark.parametrize("write", [write_new, write_opened, write_replaced])
def test_a_file_is_private(tmp_path: Path, write: Callable[[Path], None]):
    write(tmp_path / "file")
    assert mode(tmp_path / "file") == 0o600


@pytest.mark.parametrize("write", [write_opened, write_replaced])
def test_a_file_that_exists_becomes_private(tmp_path: Path, write: Callable[[Path], None]):
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(0o644)
    write(tmp_path / "file")
    assert mode(tmp_path / "file") == 0o600


def test_a_private_file_is_not_opened_through_a_link(tmp_path: Path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        files.open_file(tmp_path / "link")


def test_a_new_file_replaces_none(tmp_path: Path):
    write_new(tmp_path / "file")
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_new_file_that_fails_is_removed(tmp_path: Path):
    with pytest.raises(OSError, match="full"), files.new_file(tmp_path / "file"):
        raise OSError("full")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("durable", [True, False])
def test_a_replacement_appears_when_it_is_complete(tmp_path: Path, durable: bool):
    path = tmp_path / "file"
    files.replace(path, b"old", durable=durable)
    with files.replacement(path, durable=durable) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_replacement_that_fails_leaves_the_file_as_it_was(tmp_path: Path):
    path = tmp_path / "file"
    files.replace(path, b"old")
    with pytest.raises(OSError, match="full"), files.replacement(path):
        raise OSError("full")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_replacement_follows_and_keeps_a_link(tmp_path: Path):
    files.make_folder(tmp_path / "elsewhere")
    link, path = tmp_path / "link", tmp_path / "elsewhere" / "file"
    link.symlink_to(path)
    files.replace(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]
