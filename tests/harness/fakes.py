"""Platform fakes in separate processes, forked as `tests.program` forks the program.

Tests of the fakes' own startup use `running` instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import AsyncGenerator, Generator
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import pytest

from segue.testing.contract.fake import FakeRig
from segue.testing.contract.suite import RemoteContract
from segue.testing.peers import Peer
from segue.testing.peers.process import Fake
from tests import program

_STOP_SECONDS = 10.0

AnyPeer = TypeVar("AnyPeer", bound=Peer)


@contextlib.contextmanager
def forked(fake: Fake[Any, AnyPeer]) -> Generator[AnyPeer]:
    """Run the fake until the end of the `with`, or of this process."""
    ours, its = program.PROCESSES.Pipe()
    process = program.PROCESSES.Process(target=_serve, args=(fake.package, its), daemon=True)
    process.start()
    its.close()
    try:
        url, control = ours.recv()
        yield fake.peer(url=url, control=control, token=fake.token)
    finally:
        ours.close()
        process.join(_STOP_SECONDS)
        process.kill()


def fixtures(fake: Fake[Any, AnyPeer], rig: type[FakeRig]) -> tuple[Any, Any]:
    """The fixtures `peer`, which is the fake in a process of its own, and `rig`, on that fake."""

    @pytest.fixture(scope="session")
    def peer() -> Generator[AnyPeer]:
        with forked(fake) as peer:
            yield peer

    @pytest.fixture(name="rig")
    def plugged_in(peer: AnyPeer, runner: asyncio.Runner) -> Generator[FakeRig]:
        plugged = rig.plugged_in(peer)
        yield runner.run(plugged.__aenter__())
        runner.run(plugged.__aexit__(None, None, None))

    return peer, plugged_in


def contract(on: type[FakeRig]) -> type[RemoteContract]:
    """The contract suite on that rig, in a module with the fixture `peer`."""

    class Suite(RemoteContract):
        @pytest.fixture
        async def rig(self, peer: Peer) -> AsyncGenerator[FakeRig]:
            async with on.plugged_in(peer) as rig:
                yield rig

    return Suite


def _serve(package: str, test: Connection) -> None:
    asyncio.run(_until_the_end(importlib.import_module(package).FAKE, test))


async def _until_the_end(fake: Fake[Any, Any], test: Connection) -> None:
    over = asyncio.Event()
    async with fake.serving() as peer:
        test.send((peer.url, peer.control))
        asyncio.get_running_loop().add_reader(test.fileno(), over.set)
        await over.wait()
