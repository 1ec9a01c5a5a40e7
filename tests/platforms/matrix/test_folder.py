"""The private folder of an adapter."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from segue.platforms.matrix.folder import PrivateFolder


def test_only_the_owner_can_read_the_folder(tmp_path: Path):
    folder = PrivateFolder(tmp_path / "matrix", "@bot", "DEVICE")
    folder.write("since", "s1")
    assert {it.stat().st_mode & 0o077 for it in (tmp_path / "matrix", folder.path / "since")} == {0}
    assert (folder.read("since"), folder.read("nothing")) == ("s1", "")


def test_a_value_is_kept_as_json_and_a_damaged_file_is_none(tmp_path: Path):
    folder = PrivateFolder(tmp_path)
    folder.save("numbers", [1, 2])
    assert folder.load(list[int], "numbers") == [1, 2]
    folder.write("numbers", "[1, ")
    assert folder.load(list[int], "numbers") is None


def test_a_file_says_when_it_was_written(tmp_path: Path):
    folder = PrivateFolder(tmp_path, "device")
    assert abs(datetime.now(UTC) - folder.written("since")) < timedelta(minutes=1)
    folder.write("since", "s1")
    os.utime(folder.path / "since", (0.0, 1_000.0))
    assert folder.written("since") == datetime.fromtimestamp(1_000, UTC)


async def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path):
    first = PrivateFolder(tmp_path)
    second = PrivateFolder(tmp_path)
    order = list[str]()

    async def wait() -> None:
        async with second.locked():
            order.append("second")

    async with first.locked():
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0.05)
        order.append("first")
    await waiting
    assert order == ["first", "second"]
