"""Run the benchmarks: `python -m benchmarks [--json] [--quick] [GROUP …]`."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable
from typing import Protocol, cast

from benchmarks import figures
from benchmarks.figures import Figure

GROUPS = ("store", "agent", "rendering", "terminal", "gateway")
"""Each is a module `benchmarks.<name>` with a function `measure`."""


class Group(Protocol):
    def measure(self, *, quick: bool) -> Iterable[Figure]:
        """Yield each figure of the group as soon as it is measured."""
        ...


def main() -> None:
    options = _parser().parse_args()
    found = [figure for name in options.groups or GROUPS for figure in _measure(name, options)]
    print(figures.as_json(found) if options.json else figures.as_table(found))
    figures.progress("done")


def _measure(name: str, options: argparse.Namespace) -> Iterable[Figure]:
    group = cast(Group, importlib.import_module(f"benchmarks.{name}"))
    return group.measure(quick=options.quick)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure how fast Segue is, beside the figures it has to reach. A missed"
        " target is shown, and is not an error.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument("--quick", action="store_true", help="at most 40 seconds for each group")
    parser.add_argument(
        "groups",
        nargs="*",
        metavar="GROUP",
        type=_group,
        help=f"what to measure: {', '.join(GROUPS)}; everything when none is named",
    )
    return parser


def _group(name: str) -> str:
    if name not in GROUPS:
        raise argparse.ArgumentTypeError(f"no group {name!r}; there is: {', '.join(GROUPS)}")
    return name


if __name__ == "__main__":
    main()
