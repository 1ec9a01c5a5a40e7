"""PostgreSQL behind a bad network: in the end, every message is answered.

`make fuzz ARGS="--only chaos --minutes 20"` runs it with new seeds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.store import connections
from segue.testing.platform import serving
from tests.crash.chaos import chaos
from tests.fakes import postgres

pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up stalled connections sooner, so that there is time for more of them."""
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 2.0)
    monkeypatch.setattr(connections, "PING_SECONDS", 1.0)
    monkeypatch.setattr(connections, "POLL_SECONDS", 0.5)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("gateways", [1, 2])
async def test_every_message_is_answered_in_spite_of_a_bad_network(
    postgres_server: postgres.Server, tmp_path: Path, seed: int, gateways: int
):
    seconds = 60.0 if seed else 12.0
    with postgres_server.database() as url:
        async with serving() as peer, chaos(url, tmp_path, peer, seed) as round_:
            await round_.run(seconds, gateways)
            print(f"{sum(map(len, round_.said.values()))} messages, {round_.restarts} restarts")
            print(dict(round_.faults))
