"""The startup cost of a process that uses the store, in processor time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from benchmarks import bare
from benchmarks.alternation import by_turns, of_program
from benchmarks.figures import Figure, milliseconds
from benchmarks.store.places import Place

IMPORT = 14.0
OPEN = {"sqlite": 18.0, "postgres": 24.0}
"""The most that each may cost, as a multiple of a bare interpreter. Creating a store may cost the
same as opening it."""

_IMPORT = "from segue import store"
_OPEN = """
import asyncio, sys
from segue import store
async def main():
    await (await store.open(sys.argv[1])).close()
asyncio.run(main())
"""


def measure(place: Place, *, quick: bool) -> Iterator[Figure]:
    def created() -> float:
        with place.empty() as url:
            return _cost(_OPEN, url)

    with place.empty() as known:
        ways: dict[str, Callable[[], float]] = {
            "nothing": lambda: of_program(bare.INTERPRETER),
            "import": lambda: _cost(_IMPORT),
            "create": created,
            "open": lambda: _cost(_OPEN, known),
        }
        costs = by_turns(ways, 1 if quick else 10)
    base = bare.interpreter(costs["nothing"])
    name = f"{place.name} {{}} in a new process: CPU"
    yield milliseconds(name.format("import segue.store"), costs["import"], base, IMPORT)
    yield milliseconds(name.format("create a store"), costs["create"], base, OPEN[place.name])
    yield milliseconds(name.format("open a store"), costs["open"], base, OPEN[place.name])


def _cost(program: str, *arguments: str) -> float:
    return of_program((sys.executable, "-c", program, *arguments))
