"""The chats of sessions.

`Places` describes a chat and its user to the agent. `Audiences` checks, before a handoff or a
question goes to a chat, that nobody new can read there. See `segue.core.address.Audience`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from segue.core.address import Address, Audience, HomeChannel, Platform, audience_growth
from segue.core.approval import Approve
from segue.core.context import Context
from segue.core.errors import AudienceChanged
from segue.jobs.service import unattended
from segue.jobs.values import Job
from segue.platforms.base import Adapter, Inbound
from segue.store import Store, owners
from segue.turns import Place
from segue.turns.brain import deny_all
from segue.turns.runner import HERE

FRESH_SECONDS = 60.0
"""How long a good answer of the platform counts."""
PlatformsNow = Callable[[], Collection[Platform]]
"""Returns platforms in their current state, such as those that are connected."""
logger = logging.getLogger(__name__)


class Places:
    def __init__(self, name: str, connected: PlatformsNow) -> None:
        self.name = name
        """Shown to other processes as the holder of a session."""
        self._connected = connected

    def place(
        self, address: Address, *, inbound: Inbound | None = None, approve: Approve = deny_all
    ) -> Place:
        """The place for a turn at `address`. Without `approve`, every approval is denied."""
        context = Context(
            source=address,
            topic=inbound.topic if inbound else "",
            user=inbound.sender.name if inbound else "",
            connected=tuple(sorted(self._connected())),
        )
        return Place(context=context, holder=self.name, deliver_to=address, approve=approve)

    def run(self, job: Job, address: Address | None, approve: Approve) -> Place:
        """The place for a run of `job`, which asks for approvals at `address`. Without one, every
        approval is denied. Nothing that the agent says there is sent by itself."""
        rules = unattended(job)
        if address is None:
            terminal = replace(HERE.context, connected=tuple(sorted(self._connected())))
            return Place(context=terminal, holder=self.name, unattended=rules)
        here = self.place(address, approve=approve)
        return replace(here, deliver_to=None, unattended=rules)


class Audiences:
    def __init__(
        self,
        store: Store,
        adapters: Mapping[Platform, Adapter],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._adapters = adapters
        self._clock = clock
        self._good_until: dict[tuple[str, Address], float] = {}
        """When to look again, by owner and chat."""

    async def look(self, owner: str, chat: Address) -> Audience | None:
        """Who can read the chat now. None if only the owner can, or if the platform does not say.
        Raise DeliveryFailed or ConnectFailed."""
        known = await owners.identities(self._store, owner)
        users = [it.sender.user_id for it in known if it.sender.platform is chat.platform]
        return await self._adapters[chat.platform].audience(chat, users)

    async def check(self, owner: str, at: Address) -> None:
        """Raise AudienceChanged if the owner is not in that chat any more, or if it is a home
        channel that more can read than when they chose it. Raise DeliveryFailed or ConnectFailed if
        the platform cannot be asked."""
        chat = replace(at, thread_id=None)
        now = self._clock()
        if self._good_until.get((owner, chat), now) > now:
            return
        audience = await self.look(owner, chat)
        if audience is not None:
            await self._compare(owner, chat, audience)
        self._good_until = {key: end for key, end in self._good_until.items() if end > now}
        self._good_until[owner, chat] = now + FRESH_SECONDS

    async def _compare(self, owner: str, chat: Address, audience: Audience) -> None:
        homes = await owners.homes(self._store, owner)
        same = (home for home in homes if _is_same(home.address, chat))
        home = next(same, None)
        if not audience.has_owner:
            raise AudienceChanged(
                f"You are not in {home or HomeChannel(address=chat)} any more, where others may"
                " read. Send /sethome in another chat, or join that one again."
            )
        if home is None:
            return
        if home.audience is None:  # it was chosen without a look, or by an older version
            await owners.record_audience(self._store, owner, home.address, audience)
            return
        grown = audience_growth(home.audience, audience)
        if grown:
            logger.warning("home channel has more readers address=%s: %s", chat, grown)
            raise AudienceChanged(
                f"More can read {home} than when you made it your home channel: {grown}. Send"
                " /sethome there if that is right, or send it in another chat."
            )


def _is_same(one: Address, other: Address) -> bool:
    return one.platform is other.platform and one.chat_id == other.chat_id
