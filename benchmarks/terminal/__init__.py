"""The startup time and the memory of the terminal program."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.figures import Figure, median, milliseconds, progress

_SEGUE = (sys.executable, "-m", "segue")
_PROMPT = "❯".encode()
_WHERE_IS_THE_CURSOR = b"\x1b[6n"
_SESSIONS = 50


def measure(*, quick: bool) -> Iterator[Figure]:
    runs = 5 if quick else 20
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "HOME": folder,
            "PATH": "/usr/bin:/bin",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "SEGUE_STORE": f"sqlite://{folder}/segue.db",
            "SEGUE_MODEL": "scripted",
        }
        progress(f"terminal: {_SESSIONS} sessions to list")
        for number in range(_SESSIONS):
            _run(environment, "-p", f"Session number {number}")
        progress("terminal: commands")
        for name, target, arguments in (
            ("segue --version", 120.0, ("--version",)),
            ("segue sessions list, of 50", 50.0, ("sessions", "list")),
            ("segue -p, with a model that takes no time", None, ("-p", "hello")),
        ):
            took = median([_run(environment, *arguments) for _ in range(runs + 1)][1:])
            yield milliseconds(name, took, target)
        progress("terminal: the prompt")
        seen = [_to_prompt(environment) for _ in range(runs + 1)][1:]
        yield milliseconds("time to the prompt", median([took for took, _ in seen]), 350.0)
        yield Figure(name="memory at the prompt", value=median([m for _, m in seen]), unit="MB")


def _run(environment: Mapping[str, str], *arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run([*_SEGUE, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _to_prompt(environment: Mapping[str, str]) -> tuple[float, float]:
    """Seconds until the prompt appears, and the program's memory in megabytes at that point."""
    ours, theirs = pty.openpty()
    began = time.perf_counter()
    with subprocess.Popen(
        _SEGUE, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        shown = b""
        while _PROMPT not in shown:
            shown += (more := os.read(ours, 4096))
            if _WHERE_IS_THE_CURSOR in more:
                os.write(ours, b"\x1b[1;1R")
        took = time.perf_counter() - began
        memory = _resident(process.pid)
        process.kill()
    os.close(ours)
    return took, memory


def _resident(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    (kilobytes,) = (int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return kilobytes / 1000
