"""Where a session can be handed off to, and what is still in the way of that."""

from __future__ import annotations

from dataclasses import dataclass

from segue.core.address import HomeChannel, Platform
from segue.core.handoff import TARGETS
from segue.store import Store
from segue.store.gateways import PlatformHealth


@dataclass(frozen=True, slots=True)
class Destination:
    platform: Platform
    health: PlatformHealth | None
    """How it is, as the gateway that serves it says; None when none does."""
    home: HomeChannel | None


async def destinations(store: Store, owner: str) -> tuple[Destination, ...] | None:
    """Every platform; None when no gateway is running, so that none can be reached."""
    if not (gateways := await store.gateways.alive()):
        return None
    served = {platform: health for g in gateways for platform, health in g.links.items()}
    homes = {home.platform: home for home in await store.owners.homes(owner)}
    return tuple(Destination(p, served.get(p), homes.get(p)) for p in TARGETS)
