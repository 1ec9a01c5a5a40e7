"""The platforms that a session can be handed off to, and what each of them still needs."""

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
    """The state that its gateway reports. None if no gateway serves it."""
    home: HomeChannel | None


async def destinations(store: Store, owner: str) -> tuple[Destination, ...] | None:
    """Every platform, or None if no gateway is running, so that none can be reached."""
    if not (gateways := await store.gateways.alive()):
        return None
    served = {platform: health for g in gateways for platform, health in g.links.items()}
    homes = {home.platform: home for home in await store.owners.homes(owner)}
    return tuple(Destination(p, served.get(p), homes.get(p)) for p in TARGETS)
