"""The state of the gateway and its handoffs, for the owner."""

from __future__ import annotations

from segue.core.address import Platform
from segue.handoff import STEPS
from segue.store import Store
from segue.web import frames

_LAST = 20


async def look(store: Store, owner: str) -> frames.Healthy:
    serving = await store.gateways.serving(Platform.WEB)
    gateway = serving and frames.GatewayState(
        name=serving.name,
        since=serving.started,
        platforms=tuple(
            frames.PlatformState(platform.value, link.state.value, link.detail)
            for platform, link in sorted(serving.links.items())
        ),
    )
    handoffs: list[frames.HandoffState] = []
    for handoff in await store.recent_handoffs(_LAST):
        session = await store.sessions.get(handoff.session_id)
        if session is not None and session.owner == owner:
            handoffs.append(
                frames.HandoffState(
                    session=session.id,
                    title=session.name,
                    platform=handoff.platform.value,
                    state=handoff.state.value,
                    step=STEPS[handoff.step] if handoff.step else None,
                    error=handoff.error or handoff.warning or None,
                    at=handoff.requested,
                )
            )
    troubles: list[frames.Trouble] = []
    for trouble in await store.outbox.troubled(limit=_LAST):
        session = await store.sessions.get(trouble.session_id) if trouble.session_id else None
        if session is not None and session.owner == owner:
            troubles.append(
                frames.Trouble(
                    address=str(trouble.address), error=trouble.error or "", at=trouble.queued
                )
            )
    return frames.Healthy(gateway=gateway, handoffs=tuple(handoffs), troubles=tuple(troubles))
