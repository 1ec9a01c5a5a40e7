"""Shell commands, well behaved and not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import sys
import textwrap
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from segue.agent.tools import shell as module
from segue.agent.tools.base import OUTPUT_LIMIT, ToolFailed, Workplace
from segue.agent.tools.shell import _hand_over, shell
from tests.agent.tools.calls import use

ENVIRONMENT = {"PATH": os.defpath, "GREETING": "hello"}
SHELL = shell(ENVIRONMENT)


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(cwd=tmp_path.resolve())


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GRACE", 0.3)
    monkeypatch.setattr(module, "_LINGER", 0.3)


def gone(pid: int) -> bool:
    """Whether the process has ended, or ends within a few seconds."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 5)[0])
    finally:
        os.close(process)


def pids(folder: Path) -> list[int]:
    return [int(file.read_text()) for file in sorted(folder.glob("pid*"))]


def living_in(folder: Path) -> list[int]:
    """The processes with that working directory."""
    found: list[int] = []
    for process in Path("/proc").iterdir():
        # Some processes belong to other users, or have ended.
        with contextlib.suppress(OSError):
            if process.name.isdigit() and (process / "cwd").readlink() == folder:
                found.append(int(process.name))
    return found


# Results


async def test_a_command_runs_in_the_working_directory(place: Workplace) -> None:
    assert await use(SHELL, place, command="pwd -P") == str(place.cwd)


async def test_stdout_and_stderr_are_in_order_and_the_exit_code_is_named(place: Workplace) -> None:
    printed = await use(SHELL, place, command="echo one; echo two >&2; echo three; exit 3")
    assert printed == "one\ntwo\nthree\n[exit code 3]"


async def test_a_command_without_output_says_so(place: Workplace) -> None:
    assert await use(SHELL, place, command="true") == "[no output]"
    assert await use(SHELL, place, command="false") == "[exit code 1]"


async def test_the_signal_that_killed_a_command_is_named(place: Workplace) -> None:
    assert await use(SHELL, place, command="kill -9 $$") == "[ended by signal 9: Killed]"


async def test_the_middle_of_long_output_is_cut_and_the_command_continues(place: Workplace) -> None:
    printed = await use(SHELL, place, command="echo first; seq 200000; echo last; exit 1")
    assert printed.startswith("first\n1\n2\n")
    assert printed.endswith("\n200000\nlast\n[exit code 1]")
    assert "[… it printed 1,288,906 bytes; the middle is left out …]" in printed
    assert len(printed) < OUTPUT_LIMIT + 200


async def test_output_slightly_over_the_limit_is_shortened(place: Workplace) -> None:
    printed = await use(SHELL, place, command="seq 10000")
    assert printed.startswith("1\n2\n")
    assert printed.endswith("\n10000")
    assert "characters left out" in printed
    assert len(printed) < OUTPUT_LIMIT + 200


async def test_binary_output_becomes_text_that_can_be_sent(place: Workplace) -> None:
    printed = await use(SHELL, place, command=r"printf 'a\377\376\000b'")
    assert printed.encode() == "a\ufffd\ufffd\0b".encode()


async def test_standard_input_is_empty(place: Workplace) -> None:
    assert await use(SHELL, place, command="cat; read x || echo none") == "none"


async def test_a_command_has_no_terminal(place: Workplace) -> None:
    printed = await use(SHELL, place, command="(: </dev/tty) 2>/dev/null || echo none")
    assert printed == "none"


async def test_a_broken_pipe_ends_quietly(place: Workplace) -> None:
    assert await use(SHELL, place, command="yes | head -n 1") == "y"


async def test_a_command_gets_only_the_given_environment(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEGUE_TEST_API_KEY", "secret-marker")
    printed = await use(SHELL, place, command="env")
    assert "secret-marker" not in printed
    seen = dict(line.split("=", 1) for line in printed.splitlines())
    made_by_the_shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    assert {k: v for k, v in seen.items() if k not in made_by_the_shell} == ENVIRONMENT


async def test_the_environment_of_the_supervisor_has_no_secrets(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEGUE_TEST_API_KEY", "secret-marker")
    printed = await use(SHELL, place, command="tr '\\0' ' ' </proc/$PPID/environ; echo .")
    assert printed == "."


async def test_a_command_does_not_inherit_open_files(place: Workplace) -> None:
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    try:
        printed = await use(
            SHELL, place, command=f"(echo stolen >&{theirs}) 2>/dev/null || echo no"
        )
    finally:
        os.close(theirs)
        os.close(ours)
    assert printed == "no"


async def test_a_working_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match=r"could not be started: No such file.*nowhere"):
        await use(SHELL, Workplace(cwd=tmp_path / "nowhere"), command="true")


LONGER = 32 * os.sysconf("SC_PAGE_SIZE")
"""More characters than any system accepts in one argument."""


@pytest.mark.parametrize("command", ["echo \0", "echo " + "x" * LONGER], ids=["NUL", "long"])
async def test_a_command_that_cannot_be_executed_is_refused(place: Workplace, command: str) -> None:
    with pytest.raises(ToolFailed, match="could not be started"):
        await use(SHELL, place, command=command)


# Limits


async def over_time(place: Workplace, monkeypatch: pytest.MonkeyPatch, command: str) -> str:
    """Run it, and end its time limit as soon as it has written to `ready`."""
    limits: asyncio.Queue[asyncio.Timeout] = asyncio.Queue()

    @contextlib.asynccontextmanager
    async def limit(seconds: float) -> AsyncGenerator[None]:
        assert seconds == 1
        async with asyncio.timeout(None) as begun:
            limits.put_nowait(begun)
            yield

    monkeypatch.setattr(module, "_limit", limit)
    os.mkfifo(place.cwd / "ready")
    running = asyncio.create_task(use(SHELL, place, command=command, seconds=1))
    await asyncio.to_thread((place.cwd / "ready").read_text)
    (await limits.get()).reschedule(0)
    return await running


async def test_the_time_limit_kills_the_whole_group_even_if_it_ignores_signals(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = """
        (trap '' TERM; echo $$ >pid0; sh -c 'echo $$ >pid1; exec sleep 600') &
        trap '' TERM
        sh -c 'trap "" TERM; echo $$ >pid2; sleep 600; sleep 600' &
        echo before
        until [ -s pid0 ] && [ -s pid1 ] && [ -s pid2 ]; do :; done; echo >ready
        sleep 600; sleep 600
    """
    printed = await over_time(place, monkeypatch, command)
    assert printed == "before\n[stopped: it took longer than 1 seconds]"
    assert len(pids(place.cwd)) == 3
    assert all(gone(pid) for pid in pids(place.cwd))


async def test_a_command_stops_at_the_time_limit(place: Workplace) -> None:
    printed = await use(SHELL, place, command="exec sleep 600", seconds=1)
    assert printed == "[stopped: it took longer than 1 seconds]"


async def test_a_command_with_endless_output_is_stopped(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PRINTED", 1_000_000)
    printed = await use(SHELL, place, command="echo $$ >pid; exec yes")
    assert printed.startswith("y\ny\n")
    assert printed.endswith("\n[stopped: it printed more than 1,000,000 bytes]")
    assert len(printed) < OUTPUT_LIMIT + 200
    assert all(gone(pid) for pid in pids(place.cwd))


async def test_a_command_with_slow_endless_output_stops_at_the_time_limit(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "echo again; echo again; echo >ready; while :; do echo again; sleep 0.05; done"
    printed = await over_time(place, monkeypatch, command)
    assert printed.startswith("again\nagain\n")
    assert printed.endswith("again\n[stopped: it took longer than 1 seconds]")


async def test_children_that_outlive_the_shell_are_killed(place: Workplace) -> None:
    command = """
        for i in 1 2 3 4 5; do
            sh -c "trap '' HUP TERM; echo \\$\\$ >pid$i; sleep 600" >/dev/null 2>&1 &
        done
        until [ -s pid1 ] && [ -s pid2 ] && [ -s pid3 ] && [ -s pid4 ] && [ -s pid5 ]; do :; done
        echo done
    """
    printed = await use(SHELL, place, command=command)
    assert printed == "done"
    assert len(pids(place.cwd)) == 5
    assert all(gone(pid) for pid in pids(place.cwd))


async def test_a_child_that_keeps_the_output_open_does_not_block(place: Workplace) -> None:
    before = time.monotonic()
    printed = await use(SHELL, place, command="sleep 600 & echo $! >pid; echo up", seconds=60)
    assert printed == "up\n[what it left in the background was stopped]"
    assert time.monotonic() - before < 10
    assert all(gone(pid) for pid in pids(place.cwd))


async def test_a_child_that_is_nearly_done_can_finish_its_output(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LINGER", 20.0)
    assert await use(SHELL, place, command="(sleep 0.1; echo late) & echo soon") == "soon\nlate"


ESCAPES = {
    "setsid": "setsid sh -c 'echo $$ >pid; exec sleep 600' &",
    "forked twice": "(setsid sh -c 'echo $$ >pid; exec sleep 600' &)",
    "stubborn": """(setsid sh -c 'trap "" TERM HUP; echo $$ >pid; sleep 600; sleep 600' &)""",
    "quiet": "(setsid sh -c 'echo $$ >pid; exec sleep 600' >/dev/null 2>&1 &)",
    "bare": "(setsid env -i sh -c 'echo $$ >pid; exec sleep 600' >/dev/null 2>&1 &)",
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
@pytest.mark.parametrize("end", ["", "exec yes"], ids=["ended", "stopped"])
async def test_a_child_that_left_the_group_is_ended(
    place: Workplace, monkeypatch: pytest.MonkeyPatch, escape: str, end: str
) -> None:
    monkeypatch.setattr(module, "MAX_PRINTED", 100_000)
    command = f"{escape}\nuntil [ -s pid ]; do :; done; echo up; {end}"
    printed = await use(SHELL, place, command=command)
    assert printed.startswith("up")
    assert len(pids(place.cwd)) == 1
    assert all(gone(pid) for pid in pids(place.cwd))


async def test_a_command_ends_when_the_process_that_runs_it_is_killed(place: Workplace) -> None:
    program = f"""
        import asyncio, pathlib
        from segue.agent.tools.base import Workplace
        from segue.agent.tools.shell import ShellArguments, shell
        place = Workplace(cwd=pathlib.Path({str(place.cwd)!r}))
        given = ShellArguments(command="setsid sh -c 'echo $$ >pid; exec sleep 600' & wait")
        asyncio.run(shell({{"PATH": {os.defpath!r}}}).propose(given, place).work())
    """
    script = place.cwd / "program.py"
    script.write_text(textwrap.dedent(program))
    os.mkfifo(place.cwd / "pid")
    process = await asyncio.create_subprocess_exec(sys.executable, script)
    pid = int(await asyncio.to_thread((place.cwd / "pid").read_text))
    process.kill()
    await process.wait()
    assert gone(pid)


async def test_supervisors_that_were_killed_are_replaced(place: Workplace) -> None:
    kill = "read -r _ _ _ all _ </proc/$PPID/stat; kill -9 $all"
    until_its_files_are_closed = "while [ -e /proc/$all/fd/0 ]; do :; done"
    killing = f"{kill}; {until_its_files_are_closed}; echo killed"
    assert await use(SHELL, place, command=killing) == "killed"
    assert await use(SHELL, place, command="echo again") == "again"


async def test_a_command_that_kills_its_supervisor_says_so(place: Workplace) -> None:
    printed = await use(SHELL, place, command="kill -9 $PPID; sleep 0.1; echo no", seconds=60)
    assert printed.endswith("[ended in a way that is not known]")


async def test_a_command_that_closes_its_output_is_run_to_its_end(place: Workplace) -> None:
    assert await use(SHELL, place, command="exec >&- 2>&-; sleep 0.2; exit 4") == "[exit code 4]"


STUBBORN = """
    sh -c 'trap "" TERM; sleep 600; sleep 600' &
    trap '' TERM
    echo ready >ready
    wait
"""


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_repeated_interrupts_end_the_whole_group(place: Workplace, times: int) -> None:
    os.mkfifo(place.cwd / "ready")
    running = asyncio.create_task(use(SHELL, place, command=STUBBORN))
    left = await asyncio.to_thread(living_once_ready, place.cwd)
    assert len(left) >= 2
    for _ in range(times):
        running.cancel()
        for _ in range(5):  # it is being stopped when the next interrupt arrives
            await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert all(gone(pid) for pid in left)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5])
async def test_an_interrupt_during_the_start_leaves_nothing_running(
    place: Workplace, steps: int
) -> None:
    os.mkfifo(place.cwd / "ready")
    running = asyncio.create_task(use(SHELL, place, command=STUBBORN))
    for _ in range(100):
        await asyncio.sleep(0)
        if living_in(place.cwd):
            break
    # The loop is blocked before asyncio has reported that the shell runs.
    left = living_once_ready(place.cwd)
    assert len(left) >= 2
    for _ in range(steps):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert all(gone(pid) for pid in left)


def test_a_command_that_is_stopped_before_it_has_started_gets_the_signal(place: Workplace) -> None:
    ours, theirs = socket.socketpair()
    request = b"\0".join(map(os.fsencode, (place.cwd, "exec sleep 60")))
    with ours, theirs, Path(os.devnull).open("wb") as output:
        ours.sendall(b"%d\n%b" % (len(request), request) + b"t")
        _hand_over(theirs.fileno(), output.fileno())
        theirs.close()
        ours.settimeout(10)
        assert ours.recv(100) == b"-15\n"


def living_once_ready(folder: Path) -> list[int]:
    assert (folder / "ready").read_text() == "ready\n"
    return living_in(folder)
