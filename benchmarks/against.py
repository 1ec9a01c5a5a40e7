"""Measures another revision and the working tree by turns, and says what got slower.

The revision is checked out into a temporary git worktree. Both sides run with the same packages,
and with the benchmark code of the working tree as far as it works with the revision; otherwise the
revision runs its own, and figures are joined by name and unit.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import Better, columns, median, number, progress

ROUNDS = 3
NOISE = 0.05
"""A change up to this, as a part of the value, counts as noise."""
_ROOT = Path(__file__).parents[1]
_SCALE = "scale"


class Key(NamedTuple):
    """What two figures have in common that can be compared."""

    name: str
    unit: str
    better: Better


@dataclass(frozen=True, slots=True)
class Measured:
    """The values of one figure in all rounds."""

    before: list[float] = field(default_factory=list[float])
    after: list[float] = field(default_factory=list[float])


Found = dict[Key, Measured]


class Side(NamedTuple):
    """One of the two revisions."""

    name: str
    source: Path
    benchmarks: Path
    """The folder with the benchmark code to run."""
    stores: Path
    """Where its large stores are kept between rounds."""


def compare(revision: str, groups: Sequence[str], options: Sequence[str], rounds: int) -> Found:
    """Measure `groups` at the revision and now, and again what looks slower."""
    signal.signal(signal.SIGTERM, _stop)
    with _worktree(revision) as before, tempfile.TemporaryDirectory(prefix="segue-scale-") as kept:
        older = Side(revision, before / "src", _ROOT, Path(kept) / "before")
        newer = Side("now", _ROOT / "src", _ROOT, Path(kept) / "after")
        found: Found = {}
        for group in groups:
            of_group: Found = {}
            side = _alternate(older, newer, before, group, options, rounds, of_group)
            if slower(of_group):
                progress(f"{group}: something looks slower, measured again")
                _alternate(side, newer, before, group, options, rounds, of_group)
            found |= of_group
    return found


def _stop(number: int, frame: object) -> None:
    sys.exit(128 + number)  # which removes the worktree, too


@contextlib.contextmanager
def _worktree(revision: str) -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="segue-worktree-") as name:
        folder = Path(name) / "tree"
        _git("worktree", "add", "--detach", "--quiet", str(folder), revision)
        try:
            yield folder
        finally:
            _git("worktree", "remove", "--force", str(folder))


def _git(*arguments: str) -> None:
    try:
        subprocess.run(["git", "-C", str(_ROOT), *arguments], check=True)
    except subprocess.CalledProcessError:
        sys.exit("git could not do that. Is the revision right, and is this folder a clone?")


def _alternate(
    older: Side,
    newer: Side,
    own: Path,
    group: str,
    options: Sequence[str],
    rounds: int,
    found: Found,
) -> Side:
    """Measure both sides in each round. Return the older one, with its `own` benchmark code if
    today's does not work with it."""
    for round_ in range(rounds):
        progress(f"{group}: round {round_ + 1} of {rounds}")
        figures = _run(older, group, options)
        if figures is None and older.benchmarks != own:
            progress(f"{group}: the benchmark code of {older.name} itself is used for it")
            older = older._replace(benchmarks=own)
            figures = _run(older, group, options)
        add(found, _present(figures, older), is_before=True)
        if group == _SCALE and "--postgres" not in options and not newer.stores.exists():
            _hand_on(older.stores, newer.stores)
        add(found, _present(_run(newer, group, options), newer), is_before=False)
    return older


def _present(figures: list[dict[str, Any]] | None, side: Side) -> list[dict[str, Any]]:
    if figures is None:
        sys.exit(f"The benchmarks do not run with {side.name}. Type make bench to see why.")
    return figures


def _hand_on(before: Path, after: Path) -> None:
    """Let the newer side upgrade a copy of the older one's stores, as its users do."""
    after.mkdir()
    for path in before.iterdir():
        if path.is_file() and not path.name.endswith("-shm"):
            shutil.copyfile(path, after / path.name)


def _run(side: Side, group: str, options: Sequence[str]) -> list[dict[str, Any]] | None:
    """The figures of one run, or None if it failed."""
    command = [sys.executable, "-m", "benchmarks", "--json", *options, group]
    if group == _SCALE and side.benchmarks == _ROOT and "--postgres" not in options:
        command += ["--stores", str(side.stores)]
    environment = {**os.environ, "PYTHONPATH": str(side.source)}  # noqa: TID251
    done = subprocess.run(
        command, cwd=side.benchmarks, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        progress(f"{group}: failed with {side.name}: {done.stderr.strip().splitlines()[-1:]}")
        return None
    return json.loads(done.stdout)


def add(found: Found, figures: Sequence[Mapping[str, Any]], *, is_before: bool) -> None:
    """Add the figures of one run to those of their name and unit."""
    for figure in figures:
        key = Key(figure["name"], figure["unit"], Better(figure["better"]))
        measured = found.setdefault(key, Measured())
        (measured.before if is_before else measured.after).append(figure["value"])


def slower(found: Found) -> list[Key]:
    """The figures that got slower beyond noise: every value is worse than every one before, and
    the median by more than NOISE."""
    return [key for key, measured in found.items() if _is_worse(key, measured)]


def _is_worse(key: Key, measured: Measured) -> bool:
    before, after = measured.before, measured.after
    if not before or not after:
        return False
    if key.better is Better.LOWER:
        return min(after) > max(before) and median(after) > median(before) * (1 + NOISE)
    return max(after) < min(before) and median(after) < median(before) * (1 - NOISE)


def report(revision: str, found: Found) -> str:
    both = {key: it for key, it in found.items() if it.before and it.after}
    rows = [("figure", "unit", revision, "now", "change")]
    rows += [_cells(key, measured) for key, measured in both.items()]
    lines = columns(rows)
    for side, is_missing in (("now", "after"), (revision, "before")):
        names = [key.name for key, it in found.items() if not getattr(it, is_missing)]
        lines += [f"Not measured {side}: {name}" for name in names]
    worse = [_cells(key, found[key]) for key in slower(found)]
    lines += ["", f"{len(worse)} of {len(both)} figures got slower beyond noise."]
    lines += [f"Slower: {name}: {old} → {new} {unit}" for name, unit, old, new, _ in worse]
    return "\n".join(lines)


def _cells(key: Key, measured: Measured) -> tuple[str, str, str, str, str]:
    before = median(measured.before)
    after = median(measured.after)
    change = f"{number(after / before)} ×" if before else ""
    return key.name, key.unit, number(before), number(after), change
