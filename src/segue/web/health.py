"""The state of the gateway and its handoffs, for the owner."""

from __future__ import annotations

from segue.core.address import Platform
from segue.core.handoff import STEPS
from segue.core.session import Session
from segue.store import Store
from segue.web import frames

_LAST = 20


async def look(store: Store, owner: str) -> frames.Healthy:
    serving = await store.gateways.serving(Platform.WEB)
    gateway = serving and frames.GatewayState(
        name=serving.name,
        since=serving.started,
        platforms=tuple(
            frames.PlatformState(platform.value, link.state, link.detail)
            for platform, link in sorted(serving.links.items())
        ),
    )

    async def owned(session_id: str | None) -> Session | None:
        session = await store.sessions.get(session_id) if session_id else None
        return session if session and session.owner == owner else None

    handoffs = [
        frames.HandoffState(
            session=session.id,
            title=session.name,
            platform=handoff.platform.value,
            state=handoff.state,
            step=STEPS[handoff.step] if handoff.step else None,
            error=handoff.error or handoff.warning or None,
            at=handoff.requested,
        )
        for handoff in await store.recent_handoffs(_LAST)
        if (session := await owned(handoff.session_id))
    ]
    troubles = [
        frames.Trouble(address=str(trouble.address), error=trouble.error or "", at=trouble.queued)
        for trouble in await store.outbox.troubled(limit=_LAST)
        if await owned(trouble.session_id)
    ]
    return frames.Healthy(gateway=gateway, handoffs=tuple(handoffs), troubles=tuple(troubles))
