"""Locks on files: who holds them, and until when."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from segue.system import files, locks

HOLDER = """
import pathlib, sys
from segue.system import files, locks
fd = files.open_file(pathlib.Path(sys.argv[1]))
locks.lock(fd)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_has_one_holder(tmp_path: Path):
    path = tmp_path / "lock"
    first, second = files.open_file(path), files.open_file(path)
    assert locks.try_lock(first)
    assert not locks.try_lock(second)
    assert not locks.try_lock(second, shared=True)
    locks.unlock(first)
    assert locks.try_lock(second)
    os.close(first)
    os.close(second)


def test_a_shared_lock_has_many_holders(tmp_path: Path):
    path = tmp_path / "lock"
    first, second, third = (files.open_file(path) for _ in range(3))
    assert locks.try_lock(first, shared=True)
    assert locks.try_lock(second, shared=True)
    assert not locks.try_lock(third)
    assert locks.is_locked(path)
    for fd in (first, second, third):
        os.close(fd)
    assert not locks.is_locked(path)


def test_a_lock_is_free_when_its_holder_is_killed(tmp_path: Path):
    path = tmp_path / "lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert locks.is_locked(path)
        holder.kill()
        holder.wait()
    assert not locks.is_locked(path)


async def test_those_who_wait_for_a_lock_are_told_and_get_it_afterwards(tmp_path: Path):
    path, order = tmp_path / "lock", list[str]()
    is_waiting = asyncio.Event()

    async def wait() -> None:
        async with locks.locked(path, waiting=is_waiting.set):
            order.append("second")

    async with locks.locked(path):
        waiting = asyncio.create_task(wait())
        await is_waiting.wait()
        order.append("first")
    await waiting
    assert order == ["first", "second"]
