"""Where turns take place: what the agent is told about a chat, and its person."""

from __future__ import annotations

from collections.abc import Callable, Collection

from segue.core.address import Address, Platform
from segue.core.context import Context
from segue.core.session import Session
from segue.gateway import approving
from segue.platforms.base import Inbound
from segue.store import Store
from segue.turns import Held, Place


class Places:
    def __init__(
        self, store: Store, name: str, connected: Callable[[], Collection[Platform]]
    ) -> None:
        self._store = store
        self.name = name
        """As others are told who has a session open."""
        self._connected = connected

    async def place(
        self,
        session: Session,
        address: Address,
        *,
        heard: Inbound | None = None,
        held: Held | None = None,
    ) -> Place:
        """How a turn of the session takes place there. Whoever holds the session can be asked."""
        context = Context(
            source=address,
            topic=heard.topic if heard else "",
            user=heard.sender.name if heard else "",
            connected=tuple(sorted(self._connected())),
            homes=await self._store.owners.homes(session.owner),
        )
        if held is None:
            return Place(context=context, holder=self.name, deliver=address)
        return Place(
            context=context,
            holder=self.name,
            deliver=address,
            approve=approving.asking(self._store, held, session, address),
        )
