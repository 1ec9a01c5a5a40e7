"""Files that are being made: two makers do not meet, and what a killed one left is removed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from segue.store.archives import StagingFolder, part_of, remove_leftovers

KILLED = """
import os, pathlib, signal, sys
from segue.store.archives import StagingFolder, part_of
place = pathlib.Path(sys.argv[1])
staged = StagingFolder(place, "backup")
(staged.parts / "store.db").write_text("half")
with part_of(place / "b") as (_, file):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def test_what_a_killed_program_left_is_removed(tmp_path: Path):
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert len(names(tmp_path)) == 2
    (tmp_path / ".mine.part").write_text("not ours")
    (tmp_path / ".empty-1.parts").mkdir()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [".mine.part"]


def test_what_a_live_program_makes_is_not_removed(tmp_path: Path):
    first = StagingFolder(tmp_path, "backup")
    (first.parts / "store.db").write_text("first")
    second = StagingFolder(tmp_path, "backup")
    assert not list(second.parts.iterdir())
    assert (first.parts / "store.db").read_text() == "first"
    with part_of(tmp_path / "b") as (one, file), part_of(tmp_path / "b") as (other, _):
        file.write(b"one")
        assert one != other
        one.rename(tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"one"
    first.remove()
    second.remove()
    assert names(tmp_path) == ["b"]


def test_a_part_that_fails_is_removed(tmp_path: Path):
    with pytest.raises(OSError, match="full"), part_of(tmp_path / "b"):
        raise OSError("full")
    assert not names(tmp_path)
