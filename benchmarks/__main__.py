"""Run the benchmarks: `python -m benchmarks [options] [GROUP …]`."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, cast

from benchmarks import against, figures, scale
from benchmarks.figures import Figure

SCALE = "scale"
GROUPS = ("store", "agent", "rendering", "terminal", "gateway")
"""Each is a module `benchmarks.<name>` with a function `measure`. SCALE is run by its name alone:
it takes longer than all others."""


class Group(Protocol):
    def measure(self, *, quick: bool) -> Iterable[Figure]:
        """Yield each figure of the group as soon as it is measured."""
        ...


def main() -> None:
    options = _parser().parse_args()
    groups: Sequence[str] = options.groups or GROUPS
    if options.against:
        compared = against.compare(options.against, groups, _passed_on(options), options.rounds)
        print(against.report(options.against, compared))
        if options.docs:
            from benchmarks import documents  # noqa: PLC0415 - only what is used

            documents.write_change(compared)
        return
    found = {name: list(_measure(name, options)) for name in groups}
    everything = [figure for group in found.values() for figure in group]
    if options.json:
        print(figures.as_json(everything))
    else:
        plain = [figure for name, group in found.items() if name != SCALE for figure in group]
        tables = [figures.as_table(plain)] if plain else []
        if SCALE in found:
            tables.append(scale.table(found[SCALE]))
        print("\n\n".join(tables))
    if options.docs:
        from benchmarks import documents  # noqa: PLC0415 - only what is used

        documents.write(found.get(SCALE, ()))
    figures.progress("done")


def _measure(name: str, options: argparse.Namespace) -> Iterable[Figure]:
    if name == SCALE:
        return scale.measure(
            quick=options.quick,
            on_postgres=options.postgres,
            folder=options.stores,
            most=options.sessions,
        )
    group = cast(Group, importlib.import_module(f"benchmarks.{name}"))
    return group.measure(quick=options.quick)


def _passed_on(options: argparse.Namespace) -> list[str]:
    """The options for each run of a comparison."""
    passed: list[str] = []
    if options.quick:
        passed.append("--quick")
    if options.postgres:
        passed.append("--postgres")
    if options.sessions != scale.MOST:
        passed += ["--sessions", str(options.sessions)]
    return passed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure how fast Segue is. A target is a ratio to something bare that is"
        " measured by turns in the same run. A missed target is shown, and is not an error.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument(
        "--quick",
        "--small",
        action="store_true",
        help="at most 40 seconds for each group; scale builds small stores only",
    )
    parser.add_argument("--postgres", action="store_true", help="scale: on PostgreSQL")
    parser.add_argument(
        "--sessions",
        metavar="N",
        type=int,
        default=scale.MOST,
        help="scale: leave out larger stores",
    )
    parser.add_argument(
        "--stores",
        metavar="FOLDER",
        type=Path,
        help="scale: use the SQLite stores in this folder, and leave them there",
    )
    parser.add_argument(
        "--against",
        metavar="REV",
        help="measure this revision and the working tree by turns, and print what got slower",
    )
    parser.add_argument(
        "--rounds",
        metavar="N",
        type=int,
        default=against.ROUNDS,
        help=f"with --against: how often to measure both at first, {against.ROUNDS} if not given",
    )
    parser.add_argument(
        "--docs",
        action="store_true",
        help="scale: put the table and the plots into docs/performance.md",
    )
    parser.add_argument(
        "groups",
        nargs="*",
        metavar="GROUP",
        type=_group,
        help=f"what to measure: {', '.join(GROUPS)}; all of them when none is named. {SCALE}: what"
        " a store of a million sessions costs",
    )
    return parser


def _group(name: str) -> str:
    known = (*GROUPS, SCALE)
    if name not in known:
        raise argparse.ArgumentTypeError(f"no group {name!r}; there is: {', '.join(known)}")
    return name


if __name__ == "__main__":
    main()
