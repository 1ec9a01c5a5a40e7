"""The agent's tools for one session: those for the machine, and those that need the store."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from segue.agent.tools.base import Tool, ToolFailed
from segue.agent.tools.files import FILES
from segue.agent.tools.memory import remember, search_sessions
from segue.agent.tools.messages import SentFile, send_file, send_message
from segue.agent.tools.shell import shell
from segue.agent.tools.web import FETCH
from segue.core.address import Address, Delivery, Platform
from segue.core.context import Context
from segue.core.provenance import Provenance
from segue.core.session import Note, Session
from segue.platforms import registry
from segue.store import Store, gateways, outbox, owners, search, sessions
from segue.store.outbox import Draft
from segue.store.search import Hit

_FOR_SMALL = ("read_file", "list_files", "shell", "remind", "nothing_to_report")
_MAX_CHATS = 1000


def tools(
    store: Store,
    session: Session,
    context: Context,
    environment: dict[str, str],
    *,
    more: Sequence[Tool[Any]] = (),
    small: bool,
) -> Mapping[str, Tool[Any]]:
    """The tools by name, in the order for the model, with `more` at the end. A small model gets
    only a few."""

    async def find(words: str, limit: int) -> Sequence[Hit]:
        return await search.messages(store, session.owner, words, limit=limit, without=session.id)

    async def keep(text: str, by: Provenance) -> Note:
        return await owners.add_note(store, session.owner, text, by)

    channels = _Channels(store, session, context)
    every: list[Tool[Any]] = [
        shell(environment),
        *FILES,
        FETCH,
        search_sessions(find),
        remember(keep),
        send_message(channels),
        send_file(channels),
        *more,
    ]
    named = {tool.name: tool for tool in every}
    return {name: named[name] for name in _FOR_SMALL if name in named} if small else named


class _Channels:
    """Where the agent may send messages: to its owner only."""

    def __init__(self, store: Store, session: Session, context: Context) -> None:
        self._store = store
        self._session = session
        self._context = context

    async def send(self, to: Address, text: str, file: SentFile | None) -> str:
        draft = Draft(
            key=f"sent:{secrets.token_hex(16)}",
            address=to,
            body=text,
            session_id=self._session.id,
            file=None if file is None else str(file.path),
            data=b"" if file is None else file.data,
        )
        await outbox.enqueue(self._store, draft)
        if await gateways.serving(self._store, to.platform) is None:
            return f"It waits for {to}: no gateway is running for {to.platform} now."
        return f"It is on its way to {to}."

    def refusal(self, to: Address, name: str, size: int) -> str:
        rules = registry.SPECS[to.platform].uploads
        return rules.refusal(name, size) if rules else ""

    async def find(self, to: Delivery) -> Address:
        platform = to.platform or self._context.source.platform
        if platform is Platform.LOCAL:
            raise ToolFailed("Your person reads you there already; just say it.")
        if to.platform is None:
            return self._context.source
        homes = [h.address for h in await owners.homes(self._store, self._session.owner)]
        if to.chat_id is None:
            found = next((home for home in homes if home.platform is platform), None)
            why = f"There is no home channel on {platform}."
        else:
            chats = [*homes, *await self._chats(platform)]
            found = next(
                (a for a in chats if (a.platform, a.chat_id) == (platform, to.chat_id)), None
            )
            why = f"{to} is not one of your person's own chats."
        if found is None:
            raise ToolFailed(why)
        return found

    async def _chats(self, platform: Platform) -> list[Address]:
        found = await sessions.list_sessions(
            self._store, self._session.owner, platform=platform, limit=_MAX_CHATS
        )
        return [session.address for session in found if session.address is not None]
