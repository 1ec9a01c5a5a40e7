"""A hundred handoffs to the real Synapse, while one gateway after another is killed."""

from __future__ import annotations

import pytest

from segue.testing.synapse import Server
from tests.crash.chapters import Chapter
from tests.crash.rounds import Round, storm
from tests.crash.world import Nursery
from tests.harness.matrix import server as server
from tests.harness.rigs.matrix import MatrixRig

TESTS, ROUNDS, LIVES = 5, 2, 10


@pytest.mark.real
@pytest.mark.parametrize("test", range(TESTS))
async def test_no_event_is_doubled_when_gateways_are_killed(
    test: int, nursery: Nursery, server: Server
):
    rounds = [Round(f"storm {test} {number}", storm(LIVES)) for number in range(ROUNDS)]
    await Chapter("on Matrix", MatrixRig, tuple(rounds)).play(server, nursery, seed=test)  # pyright: ignore[reportArgumentType]
