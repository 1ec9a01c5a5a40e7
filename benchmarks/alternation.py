"""Measuring several ways of doing something by turns, in processor time.

What else the machine does, and how fast it is at the moment, then disturbs all of them alike.
"""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

K = TypeVar("K")

TRY = 0.05
"""Seconds of processor time that one try of a quick operation should last."""
SLOW = 0.5
"""What takes longer is measured once, after a first time: the machine disturbs it little."""
MOST = 2_000
"""How often an operation is repeated at most for one try."""


def by_turns(ways: Mapping[K, Callable[[], float]], rounds: int) -> dict[K, float]:
    """Run each of `ways` once in each round, and return the least that each has returned: what
    else the machine does only adds to it. The first round only fills caches."""
    found: dict[K, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            cost = way()
            if number:
                found[name].append(cost)
    return {name: min(costs) for name, costs in found.items()}


async def costs_by_turns(
    ways: Mapping[K, Callable[[], Awaitable[object]]],
    rounds: int,
    used: Callable[[], float] = time.process_time,
) -> dict[K, float]:
    """The processor seconds of each of `ways`, the least of all rounds. `used` says how many were
    used so far."""
    found: dict[K, list[float]] = {}
    for name, way in ways.items():
        found[name] = [await _cost(way, 1, used)]
    for number in range(rounds):
        for name, way in ways.items():
            cost = min(found[name])
            if cost > SLOW and number:
                continue
            if not number:
                found[name] = []  # that was to fill caches
            found[name].append(await _cost(way, fitting(cost), used))
    return {name: min(costs) for name, costs in found.items()}


def fitting(cost: float) -> int:
    """How often to repeat an operation of that cost for one try."""
    return max(1, min(MOST, int(TRY / max(cost, 1e-9))))


async def _cost(
    way: Callable[[], Awaitable[object]], times: int, used: Callable[[], float]
) -> float:
    before = used()
    for _ in range(times):
        await way()
    return (used() - before) / times


def processor(run: Callable[[], object], times: int = 1) -> float:
    """The processor seconds of this process for one run."""
    began = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - began) / times


def of_program(command: Sequence[str], environment: Mapping[str, str] | None = None) -> float:
    """The processor seconds of a program, from its start to its end, with its children."""
    began = _of_children()
    subprocess.run(
        command,
        env=None if environment is None else dict(environment),
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    return _of_children() - began


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def of_process(pid: int) -> float:
    """The processor seconds that another process has used so far. /proc counts them in hundredths,
    which is too coarse."""
    return time.clock_gettime((~pid << 3) | 2)  # the kernel's clock id of a process
