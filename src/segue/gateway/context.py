"""What the parts of a gateway share, and what it knows about chats.

`Audiences` checks, before a handoff or a question goes to a chat, that no one new can read there.
See `segue.core.address.Audience`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from segue.config import Settings
from segue.core.address import Address, Audience, HomeChannel, Platform, audience_growth
from segue.core.approval import Approve
from segue.core.context import Context
from segue.core.errors import AudienceChanged
from segue.platforms.base import Adapter, Inbound
from segue.platforms.spec import Groups
from segue.store import Store, owners
from segue.turns import Place, Turns
from segue.turns.brain import deny_all

FRESH_SECONDS = 60.0
"""How long a good answer of the platform counts."""
logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Link:
    """The connection to a platform."""

    tried: bool = False
    """Whether the first attempt to connect has finished, successfully or not."""
    connected: bool = False


@dataclass(slots=True, eq=False)
class GatewayContext:
    """What the parts of a gateway share. They see each change."""

    store: Store
    turns: Turns
    settings: Settings
    """Replaced when the settings file changes."""
    adapters: dict[Platform, Adapter]
    name: str
    """Shown to other processes as the holder of a session."""
    serving: frozenset[Platform] = frozenset()
    """The platforms that this gateway serves."""
    links: dict[Platform, Link] = field(default_factory=dict[Platform, Link])
    """The connections to these platforms."""
    audiences: Audiences = field(init=False)

    def __post_init__(self) -> None:
        self.audiences = Audiences(self.store, self.adapters)

    def connected(self) -> Collection[Platform]:
        """The served platforms that can be written to now."""
        return [platform for platform, link in self.links.items() if link.connected]

    def tried(self) -> Collection[Platform]:
        """The served platforms whose first attempt to connect has finished."""
        return [platform for platform, link in self.links.items() if link.tried]

    def place(
        self, address: Address, *, inbound: Inbound | None = None, approve: Approve = deny_all
    ) -> Place:
        """The place for a turn at `address`. Without `approve`, every approval is denied."""
        context = Context(
            source=address,
            topic=inbound.topic if inbound else "",
            user=inbound.sender.name if inbound else "",
            connected=tuple(sorted(self.connected())),
        )
        return Place(context=context, holder=self.name, deliver_to=address, approve=approve)

    def answers_all(self, platform: Platform) -> bool:
        """Whether the agent also answers messages in groups that are not addressed to it."""
        settings = self.settings.platforms.get(platform)
        return settings is not None and settings.groups is Groups.ALL

    def how_to_address(self, address: Address) -> str:
        """How users address the agent there, or "" where it answers every message."""
        if self.answers_all(address.platform):
            return ""
        return self.adapters[address.platform].how_to_address(address)


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
        """When to ask the platform again, by owner and chat."""

    async def current(self, owner: str, chat: Address) -> Audience | None:
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
        audience = await self.current(owner, chat)
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
        if home.audience is None:  # not known then, or chosen by an older version
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
