"""What a command that changes settings says about gateways that are running."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from segue import config
from segue.cli.store_access import with_store
from segue.core.errors import StoreError
from segue.gateway import background
from segue.store import Store, gateways
from segue.store.gateways import GatewayRecord


def effect(names: Collection[str]) -> str:
    """Return whether the running gateway uses new values of these settings; empty if there is no
    gateway on this machine."""
    try:
        gateways = with_store(_alive)
    except StoreError:  # which other commands report
        return ""
    if not names or not background.here(gateways):
        return ""
    if later := sorted(name for name in names if not config.is_reloaded(name)):
        restart = "`segue gateway stop`, then `segue gateway start`"
        return f"The running gateway uses {', '.join(later)} only after a restart: {restart}."
    return "The running gateway uses this from now on."


async def _alive(store: Store) -> Sequence[GatewayRecord]:
    return await gateways.alive(store)
