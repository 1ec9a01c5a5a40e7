"""What `segue status` tells."""

from __future__ import annotations

from dataclasses import dataclass

import segue
import segue.store
from segue.config import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    version: str
    store: str
    owners: int
    sessions: int
    pending_handoffs: int
    gateways: tuple[str, ...]

    def text(self) -> str:
        return "\n".join(
            (
                f"Segue {self.version}",
                f"  store      {self.store}",
                f"  owners     {self.owners}",
                f"  sessions   {self.sessions}",
                f"  handoffs   {self.pending_handoffs} pending",
                f"  gateways   {', '.join(self.gateways) or 'none running'}",
            )
        )


async def look(settings: Settings) -> Status:
    async with await segue.store.open(settings.store) as store:
        owners = await store.owners.all()
        return Status(
            version=segue.__version__,
            store=segue.store.shown(settings.store),
            owners=len(owners),
            sessions=await store.sessions.count(),
            pending_handoffs=len(await store.list_pending_handoffs()),
            gateways=tuple(gateway.name for gateway in await store.gateways.alive()),
        )
