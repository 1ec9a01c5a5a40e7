"""One server for all programs of the user: found or started, and stopped when idle."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from segue.agent.models.local import serve
from segue.agent.models.local.serve import RunFolder, ServerAddress
from segue.core.errors import ModelError
from segue.system import files, locks
from tests.agent.models.local.conftest import put, server, until

IDLE = 0.2


async def reach(folder: Path, *, idle: float = 600.0) -> ServerAddress:
    async with server(folder, idle=idle).serving() as reached:
        return reached


def running(folder: Path) -> bool:
    return locks.is_locked(server(folder).run.lock)


async def kill(folder: Path, reached: ServerAddress) -> None:
    os.kill(reached.pid, signal.SIGKILL)
    await until(lambda: not running(folder))


async def test_a_started_server_answers_only_requests_with_the_key(shared: Path):
    reached = await reach(shared)
    assert reached.url.startswith("http://127.0.0.1:")
    with httpx2.Client(trust_env=False) as client:
        body = {"messages": [{"role": "user", "content": "hi"}]}
        assert client.post(f"{reached.url}/chat/completions", json=body).status_code == 401
        headers = {"Authorization": f"Bearer {reached.key}"}
        answer = client.post(f"{reached.url}/chat/completions", json=body, headers=headers)
        assert answer.status_code == 200


async def test_the_files_of_the_server_are_readable_by_their_owner_only(shared: Path):
    await reach(shared)
    run = server(shared).run
    assert run.folder.stat().st_mode & 0o777 == 0o700
    for path in (run.state, run.lock, run.use, run.log):
        assert path.stat().st_mode & 0o777 == 0o600


async def test_concurrent_callers_share_one_server(here: Path):
    found = await asyncio.gather(*(reach(here) for _ in range(5)))
    assert len(set(found)) == 1
    assert await reach(here) == found[0]


async def test_concurrent_processes_share_one_server(here: Path):
    script = (
        "import asyncio, sys; from pathlib import Path;"
        "from segue.agent.models.local.serve import RunFolder;"
        "from segue.agent.models.local.model import LocalServer;"
        "folder = Path(sys.argv[1]);"
        "ours = LocalServer(run=RunFolder(folder / 'run'), weights=folder / 'tiny.gguf', idle=600);"
        "print(asyncio.run(ours.serving().__aenter__()).pid)"
    )
    command = (sys.executable, "-c", script, str(here))
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [
        await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=asyncio.subprocess.PIPE
        )
        for _ in range(2)
    ]
    pids = {(await process.communicate())[0] for process in processes}
    assert len(pids) == 1
    assert int(pids.pop()) == (await reach(here)).pid


async def test_the_server_is_detached_from_terminal_and_parent(shared: Path):
    reached = await reach(shared)
    session, parent = shown(reached, "sess="), shown(reached, "ppid=")
    assert session != shown(ServerAddress("", "", os.getpid()), "sess=")
    assert int(parent) != os.getpid()


async def test_the_server_does_not_inherit_our_secrets(shared: Path):
    reached = await reach(shared)
    environment = shown(reached, "command=")
    assert "GOMP_SPINCOUNT=" in environment, "the environment is to be seen at all"
    assert "secret" not in environment
    assert reached.key not in environment


def shown(reached: ServerAddress, column: str) -> str:
    """What `ps` shows to all users."""
    command = ["ps", "eww", "-o", column, "-p", str(reached.pid)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


async def test_a_killed_server_is_replaced_despite_its_state_file(here: Path):
    first = await reach(here)
    await kill(here, first)
    assert server(here).run.state.exists()
    second = await reach(here)
    assert second.pid != first.pid
    assert second.key != first.key


async def test_the_state_file_of_a_killed_server_is_not_used_for_the_next(here: Path):
    await kill(here, await reach(here))
    put(here, b"slow")
    with pytest.raises(ModelError, match="longer than 1 seconds"):
        async with server(here, patience=0.6).serving():
            pass


async def test_a_terminated_server_removes_its_state_file(here: Path):
    os.kill((await reach(here)).pid, signal.SIGTERM)
    await until(lambda: not running(here))
    assert not server(here).run.state.exists()


async def test_an_idle_server_stops(here: Path):
    await reach(here, idle=IDLE)
    await until(lambda: not running(here))
    assert not server(here).run.state.exists()
    assert (await reach(here)).pid


class Clock:
    """Replaces the module `time`."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


async def test_a_server_in_use_does_not_stop(here: Path, monkeypatch: pytest.MonkeyPatch):
    clock, run, use = watched(here, monkeypatch)
    async with locks.locked(run.use, shared=True):
        clock.seconds += 1000
        assert not use.over()
    assert use.over()


async def test_each_use_restarts_the_idle_time(here: Path, monkeypatch: pytest.MonkeyPatch):
    clock, run, use = watched(here, monkeypatch)
    clock.seconds += 9
    assert not use.over()
    os.utime(run.use, (1, 1))
    clock.seconds += 9
    assert not use.over()
    clock.seconds += 11
    assert use.over()


def watched(here: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Clock, RunFolder, serve._Use]:
    """The part of the server that decides whether it is still needed, for 10 seconds more."""
    clock, run = Clock(), server(here).run
    monkeypatch.setattr(serve, "time", clock)
    files.make_private_folder(run.folder)
    files.replace(run.state, b"{}")
    return clock, run, serve._Use(run, here / "tiny.gguf", 10)


async def test_a_use_is_seen_by_the_server(shared: Path):
    first = await reach(shared)
    os.utime(server(shared).run.use, (0, 0))
    assert await reach(shared) == first
    assert server(shared).run.use.stat().st_mtime > 0


@pytest.mark.parametrize("what", ["weights", "run folder"])
async def test_a_server_whose_files_are_deleted_stops(here: Path, what: str):
    async with server(here, idle=IDLE).serving():  # while it is in use, only this stops it
        lock = files.open_file(server(here).run.lock)
        try:
            if what == "weights":
                (here / "tiny.gguf").unlink()
            else:
                shutil.rmtree(here / "run")
            await until(lambda: locks.try_lock(lock))
        finally:
            os.close(lock)


async def test_a_server_that_cannot_load_its_weights_reports_it(here: Path):
    put(here, b"junk")
    with pytest.raises(ModelError, match=r"tiny.gguf cannot be loaded: .*server.log"):
        await reach(here)
    assert not running(here)


async def test_a_server_without_a_system_library_names_it(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    missing = "libgomp.so.1: cannot open shared object file"
    (tmp_path / "xllamacpp.py").write_text(f"raise ImportError({missing!r})")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelError, match="apt install libgomp1"):
        await reach(here)


async def test_a_server_that_starts_too_slowly_times_out(here: Path):
    put(here, b"slow")
    with pytest.raises(ModelError, match="longer than 1 seconds"):
        async with server(here, patience=0.6).serving():
            pass
