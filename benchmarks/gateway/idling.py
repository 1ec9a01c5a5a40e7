"""The cost of an idle gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from benchmarks import bare
from benchmarks.alternation import of_process, of_program
from benchmarks.figures import Base, Figure, median, milliseconds
from benchmarks.gateway.house import House, house

READY = 40.0
"""The most that a start may cost, as a multiple of a bare interpreter."""
MEMORY = 70.0
PROCESSOR = 12.0
"""The most that it may use while idle, as a multiple of a bare asyncio program."""
_SETTLE = 2.0


def measure(*, quick: bool) -> Iterator[Figure]:
    starts, seconds = (3, 3.0) if quick else (10, 20.0)
    alone = min(of_program(bare.INTERPRETER) for _ in range(starts))
    ready, started, memory, used, least = asyncio.run(_measure(starts, seconds))
    yield milliseconds("gateway: from its start until it is connected", median(ready))
    name = "gateway: CPU from its start until it is connected"
    yield milliseconds(name, min(started), bare.interpreter(alone), READY)
    yield Figure(name="gateway: idle memory", value=memory, unit="MB", target=MEMORY)
    base = Base(name="bare asyncio program", value=least)
    yield Figure(name="gateway: idle CPU", value=used, unit="%", base=base, target=PROCESSOR)


async def _measure(
    starts: int, seconds: float
) -> tuple[list[float], list[float], float, float, float]:
    async with house() as place:
        started = [await _start(place) for _ in range(starts)]
        async with place.gateway() as gateway, bare.waiting() as pid:
            await asyncio.sleep(_SETTLE)
            used = of_process(gateway.pid)
            least = of_process(pid)
            await asyncio.sleep(seconds)
            used = 100 * (of_process(gateway.pid) - used) / seconds
            least = 100 * (of_process(pid) - least) / seconds
            ready = [wall for wall, _ in started]
            return ready, [cost for _, cost in started], gateway.memory, used, least


async def _start(place: House) -> tuple[float, float]:
    """Seconds until a gateway is connected, and the processor seconds that it took."""
    async with place.gateway() as gateway:
        return gateway.ready, of_process(gateway.pid)
