"""`make fuzz`: search for failures with new seeds, for a given time.

Each search runs a part of the suite with its own seed. A failure is printed with the command that
repeats it; add it to the tests as a fixed example.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

_MOST = 1_000_000
_HERE = "not real"
_RACES = ("tests/store", "tests/handoffs")
_SHOWN = 60
"""The number of output lines to show for a failure."""


@dataclass(frozen=True, slots=True)
class Search:
    name: str
    arguments: tuple[str, ...]

    def command(self, seed: int) -> list[str]:
        """The command for one run."""
        return [
            *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
            *(f"--seed={seed}", "--hypothesis-profile=fuzz", f"--hypothesis-seed={seed}"),
            *self.arguments,
        ]


SEARCHES = (
    Search("examples", ("-n", "2", "-m", "hypothesis and not real", "tests")),
    Search("conversations", ("-k", "conversations", "-m", "not real", "tests/store")),
    Search("kills at every step", ("-n", "2", "-m", "kill and not real", "tests/crash")),
    Search("kills at any moment", ("-m", "fuzz and not real", "tests/crash")),
    Search("deaths behind the page", ("-m", "kill", "tests/web")),
    Search("malformed updates", ("-k", "malformed", "tests/platforms", "tests/web")),
    Search("races", ("-k", "one_wins or any_moment or races", "-m", _HERE, *_RACES)),
    Search("changes of the clock", ("-m", "fuzz", "tests/core/test_schedule.py")),
    Search("killed upgrades", ("-n", "2", "-m", "kill", "tests/store/test_old_stores.py")),
    Search("power cuts", ("-m", "fuzz", "tests/store/test_power_cuts.py")),
    Search("chaos", ("-m", "real", "tests/crash/test_chaos_postgres.py")),
    Search("soak", ("-m", "fuzz", "tests/gateway")),
)


def main() -> int:
    names = {search.name: search for search in SEARCHES}
    parser = argparse.ArgumentParser(prog="make fuzz", description="Search with new seeds.")
    parser.add_argument("--minutes", type=float, default=10.0, help="for so long (10)")
    parser.add_argument("--seed", type=int, help="of the first search (a new one)")
    parser.add_argument("--only", choices=names, help="one search")
    given = parser.parse_args()
    searches = [names[given.only]] if given.only else SEARCHES
    seed = random.randrange(_MOST) if given.seed is None else given.seed
    return 1 if _search(searches, seed, given.minutes * 60) else 0


def _search(searches: tuple[Search, ...] | list[Search], first: int, seconds: float) -> int:
    """Run the searches and return the number of failures."""
    began, findings = time.monotonic(), 0
    for number, search in enumerate(itertools.cycle(searches)):
        seed, left = first + number, seconds - (time.monotonic() - began)
        if left <= 0:
            break
        print(f"{_clock(seconds - left)}  {search.name}, seed {seed} … ", end="", flush=True)
        try:
            found = _found(search.command(seed), left)
        except subprocess.TimeoutExpired:
            print("not over in time")
            break
        print("FOUND" if found else "nothing", flush=True)
        if found:
            findings += 1
            print(f"{found}\n\nTo repeat it: {shlex.join(search.command(seed))}\n", flush=True)
    print(f"{_clock(time.monotonic() - began)}  {findings} found")
    return findings


def _found(command: list[str], seconds: float) -> str:
    """Return the end of a failed run's output, or an empty string if it passed.

    A run that takes longer than `seconds` is killed and raises TimeoutExpired.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as run:
        try:
            output, errors = run.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)  # and all processes that it has started
            raise
    return "\n".join([*output.splitlines()[-_SHOWN:], errors]) if run.returncode else ""


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:3d}:{int(seconds) % 60:02d}"


if __name__ == "__main__":
    sys.exit(main())
