"""The cost of an idle gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from benchmarks.figures import Figure, median, milliseconds
from benchmarks.gateway.house import House, house

READY, MEMORY, PROCESSOR = 1000.0, 70.0, 0.5
_SETTLE = 2.0


def measure(*, quick: bool) -> Iterator[Figure]:
    starts, seconds = (3, 5.0) if quick else (10, 20.0)
    ready, memory, used = asyncio.run(_measure(starts, seconds))
    yield milliseconds("gateway: from its start until it is connected", median(ready), READY)
    yield Figure(name="gateway: idle memory", value=memory, unit="MB", target=MEMORY)
    yield Figure(name="gateway: idle CPU", value=used, unit="%", target=PROCESSOR)


async def _measure(starts: int, seconds: float) -> tuple[list[float], float, float]:
    async with house() as place:
        ready = [await _start(place) for _ in range(starts)]
        async with place.gateway() as gateway:
            await asyncio.sleep(_SETTLE)
            used = gateway.processor
            await asyncio.sleep(seconds)
            used = 100 * (gateway.processor - used) / seconds
            return ready, gateway.memory, used


async def _start(place: House) -> float:
    async with place.gateway() as gateway:
        return gateway.ready
