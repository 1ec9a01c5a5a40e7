"""The part of a rig that is the same for all fakes that are built on `segue.testing.peers`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from segue.testing.contract.rig import Act, RemoteRig
from segue.testing.peers import Trouble


class FakeRig(RemoteRig):
    driver: Any
    """The fake's own kind of `segue.testing.peers.Driver`."""
    methods: Mapping[Act, str] = {act: act.value for act in Act}
    """The platform's method for each operation."""

    async def fail(self, act: Act, trouble: Trouble, *, seconds: float) -> None:
        await self.driver.fail(self.methods[act], trouble, seconds=seconds)

    async def calm(self) -> None:
        await self.driver.calm()

    async def down(self) -> None:
        await self.driver.down()

    async def up(self) -> None:
        await self.driver.up()

    async def repeat(self) -> None:
        await self.driver.repeat()

    async def inject(self, updates: Iterable[str]) -> None:
        await self.driver.inject(updates)
