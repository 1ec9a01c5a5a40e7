"""The gateway: which events a session gets.

`events/gateway.mdx`, `events/gateway-events.mdx` and `topics/opcodes-and-status-codes.mdx` of
discord/discord-api-docs; what clients make of it is in discord.py's `gateway.py`, in hikari's
`impl/shard.py` and its tests, and in twilight-gateway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from segue.testing.discord.snapshot import BOT
from segue.testing.peers import Pulse
from segue.testing.peers.gateway import Event, Gateway, GatewaySession

if TYPE_CHECKING:
    from segue.testing.discord.state import State

_GUILDS, _GUILD_MESSAGES, _DIRECT_MESSAGES, _CONTENT = 1 << 0, 1 << 9, 1 << 12, 1 << 15
_PRIVILEGED = 1 << 1 | 1 << 8 | _CONTENT
_INTENTS = sum(1 << bit for bit in (*range(17), 20, 21, 24, 25))
_FREE = ("READY", "RESUMED", "INTERACTION_CREATE")


class Events(Gateway):
    def __init__(self, pulse: Pulse, state: State) -> None:
        super().__init__(pulse)
        self._state = state

    def identify(self, intents: int) -> tuple[int, str] | None:
        if intents & ~_INTENTS:
            self._state.errors.append(f"gateway: there are no intents {intents:b}")
            return 4013, "Invalid intent(s)"
        allowed = _CONTENT if self._state.settings.content else 0
        return (4014, "Disallowed intent(s)") if intents & _PRIVILEGED & ~allowed else None

    def greet(self, session: GatewaySession) -> None:
        guilds = [it for it in self._state.guilds.values() if it.joined]
        there = [{"id": str(it.id), "unavailable": True} for it in guilds]
        more = {"url": self._state.gateway, "bot": BOT, "session": session.name}
        session.tell("READY", self._state.objects("ready", guilds=there, **more))
        for it in guilds:
            session.tell("GUILD_CREATE", self._state.objects.guild(it))

    def wanted(self, event: Event, intents: int) -> Event | None:
        need = 0 if event.t in _FREE else _GUILDS
        if event.t in ("MESSAGE_CREATE", "MESSAGE_UPDATE"):
            need = _GUILD_MESSAGES if "guild_id" in event.d else _DIRECT_MESSAGES
            if "guild_id" in event.d and not intents & _CONTENT:
                event = replace(event, d=self._state.objects.concealed(event.d))
        return event if need & intents == need else None
