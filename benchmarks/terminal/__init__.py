"""The startup time and the memory of the terminal program."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks import bare
from benchmarks.alternation import by_turns, of_process, of_program
from benchmarks.figures import Figure, median, milliseconds, progress

_SEGUE = (sys.executable, "-m", "segue")
_PROMPT = "❯".encode()
_WHERE_IS_THE_CURSOR = b"\x1b[6n"
_SESSIONS = 50
PROMPT = 20.0
"""The most that the program may use to its prompt, as a multiple of a bare interpreter."""
_COMMANDS: dict[str, tuple[float | None, tuple[str, ...]]] = {
    "segue --version": (5.0, ("--version",)),
    "segue sessions list, of 50": (6.0, ("sessions", "list")),
    "segue -p, with a model that takes no time": (None, ("-p", "hello")),
}
"""What is typed, and the most that it may cost, as a multiple of a bare interpreter."""


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
            of_program((*_SEGUE, "-p", f"Session number {number}"), environment)
        progress("terminal: commands")
        ways: dict[str, Callable[[], float]] = {"": partial(of_program, bare.INTERPRETER)}
        for name, (_, arguments) in _COMMANDS.items():
            ways[name] = partial(of_program, (*_SEGUE, *arguments), environment)
        costs = by_turns(ways, runs)
        base = bare.interpreter(costs[""])
        for name, (target, _) in _COMMANDS.items():
            yield milliseconds(f"{name}: CPU", costs[name], base, target)
        progress("terminal: the prompt")
        seen = [_to_prompt(environment) for _ in range(runs + 1)][1:]
        used = min(used for _, used, _ in seen)
        yield milliseconds("to the prompt: CPU", used, base, PROMPT)
        yield milliseconds("time to the prompt", median([took for took, _, _ in seen]))
        memory = median([memory for _, _, memory in seen])
        yield Figure(name="memory at the prompt", value=memory, unit="MB")


def _to_prompt(environment: Mapping[str, str]) -> tuple[float, float, float]:
    """Seconds until the prompt appears, and the program's processor seconds and its memory in
    megabytes at that point."""
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
        used = of_process(process.pid)
        memory = _resident(process.pid)
        process.kill()
    os.close(ours)
    return took, used, memory


def _resident(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    (kilobytes,) = (int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return kilobytes / 1000
