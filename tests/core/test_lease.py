from __future__ import annotations

from segue.core.lease import SECOND, Lease, Ticks


def test_a_lease_is_alive_until_its_end():
    lease = Lease(
        session_id="s",
        holder="a terminal",
        process="p",
        epoch=1,
        until=Ticks(SECOND),
    )
    assert lease.alive(Ticks(SECOND - 1))
    assert not lease.alive(Ticks(SECOND))
    assert not lease.alive(Ticks(SECOND + 1))
