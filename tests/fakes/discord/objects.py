"""The objects of the API as JSON. `objects.json` has their shapes.

Fields are those of `resources/*.mdx`, `events/gateway-events.mdx` and
`interactions/receiving-and-responding.mdx` of discord/discord-api-docs, and those that the models
of discord.py (`types/*.py`), hikari (`impl/entity_factory.py`) and twilight-model require.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.testing import peers
from segue.testing.peers import File, Interaction
from segue.testing.peers.templates import Json, Templates
from tests.fakes.discord.snapshot import BOT, Chat, Kind, Message, Thread

if TYPE_CHECKING:
    from tests.fakes.discord.state import Place, State

SIGNED = "00ff"
"""The signature in the URL of an attachment."""
_CONTENT_LIMITED = 1 << 19
"""The application's flag for the Message Content intent of a bot in few guilds."""


class Objects(Templates):
    """Most are made of an id, or of what the state has under it."""

    def __init__(self, state: State) -> None:
        super().__init__(Path(__file__).with_suffix(".json"))
        self._state = state

    def born(self, name: int) -> str | None:
        """The date in a snowflake: `reference.mdx` (Snowflakes)."""
        return self.date(self._state.snowflakes.time(name))

    def user(self, name: int) -> Json:
        it = self._state.users[name]
        shown = None if it.bot else it.name
        return self("user", it=it, username=it.username or it.name.lower(), name=shown)

    def member(self, guild: int, user: int | None) -> Json:
        return self("member", guild=guild, user=user)

    def application(self, name: int) -> Json:
        settings, guilds = self._state.settings, self._state.guilds.values()
        more = {"flags": _CONTENT_LIMITED if settings.content else 0}
        more["guilds"] = sum(it.joined for it in guilds)
        return self("application", bot=name, settings=settings, **more)

    def guild(self, it: peers.Chat[int]) -> Json:
        """As in GUILD_CREATE. Without the GUILD_PRESENCES intent, the bot is its only member."""
        chats = {name: chat for name, chat in self._state.chats.items() if chat.guild == it.id}
        inside = [one for one in self._state.threads.values() if one.chat in chats]
        active, bot = [one for one in inside if not one.closed], self.member(it.id, BOT)
        return self("guild", it=it, bot=bot, chats=chats.values(), active=active)

    def place(self, at: Place) -> Json:
        return self.channel(at.chat) if at.thread is None else self.thread(at.thread)

    def channel(self, it: Chat) -> Json:
        """A channel. The bot's permissions are in an overwrite for it."""
        shape, denied = "dm" if it.kind is Kind.DM else "channel", ~it.permissions & (1 << 50) - 1
        inside = self._state.replies(it.id, None)
        made = self(shape, it=it, last=inside and inside[-1].id, bot=BOT, denied=denied)
        for name, allow, deny in it.overwrites:
            kind = 0 if name in self._state.guilds else 1
            more = {"id": str(name), "type": kind, "allow": str(allow), "deny": str(deny)}
            made["permission_overwrites"].append(more)
        return made

    def thread(self, it: Thread) -> Json:
        chat, inside = self._state.chats[it.chat], self._state.replies(it.chat, it.id)
        more = {"count": len(inside), "people": len(it.members)}
        more["last"] = inside[-1].id if inside else 0
        mine = self("thread_member", it=it, bot=BOT) if BOT in it.members else None
        return self("thread", it=it, chat=chat, member=mine, **more)

    def attachment(self, it: File) -> Json:
        """`reference.mdx` (Signed Attachment CDN URLs): only a signed URL works, for some time."""
        now, path = int(time.time()), f"{self._state.url}/attachments/1/{it.id}/{it.name}"
        url = f"{path}?ex={now + 86400:x}&is={now:x}&hm={SIGNED}"
        return self("attachment", it=it, url=url)

    def message(self, it: Message, *, event: bool = False) -> Json:
        """A message; in an `event` with the guild and the author's member."""
        chat, (where, name) = self._state.chats[it.chat], it.reference or (0, 0)
        forwards = it.forwarded is not None
        refers = self("reference", chat=chat, type=int(forwards), where=where, name=name)
        made = self(
            "message",
            it=it,
            where=it.thread or it.chat,
            reference=refers if where else None,
            replied=None if forwards else self._state.messages.get((chat.id, name)),
            forward=[self("forward", it=it)] if forwards else None,
        )
        if event and chat.guild:
            kind = self._state.threads.get((chat.id, it.thread or 0), chat).kind
            made |= {"guild_id": str(chat.guild), "channel_type": kind}
            made["member"] = self.member(chat.guild, None)
        return made

    def concealed(self, data: Json) -> Json:
        """A guild's message as a bot without the Message Content intent gets it, unless it is its
        own or mentions the bot: `events/gateway.mdx` (Message Content Intent)."""
        involved = msgspec.json.encode([data.get("author"), data.get("mentions")])
        hidden = {} if f'"{BOT}"'.encode() in involved else self("hidden")
        return data | {name: it for name, it in hidden.items() if name in data}

    def interaction(self, it: Interaction[int], at: Message | None) -> Json:
        where = self._state.place(it.place)
        guild, more = where.chat.guild, {"chat": where.chat, "place": self.place(where)}
        who = {"member": self.member(guild, it.user)} if guild else {"user": self.user(it.user)}
        made = self("interaction", it=it, bot=BOT, context=int(not guild), message=at, **more)
        return {**made, **who}
