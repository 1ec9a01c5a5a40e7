"""Helpers for the tests of the Telegram fake: the fake, a bot of the real library, and Anna."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from telegram import Bot, Update
from telegram.error import TelegramError
from telegram.request import HTTPXRequest

from segue.testing.peers import tls
from segue.testing.telegram import Hands, Kind, Peer, Settings, serving


@dataclass
class Stage:
    peer: Peer
    hands: Hands
    bot: Bot
    http: httpx2.AsyncClient
    anna: int
    forum: int
    """A forum in which the bot manages topics."""

    async def updates(self, **more: Any) -> tuple[Update, ...]:
        """The waiting updates, without confirming any."""
        return await self.bot.get_updates(timeout=0, **more)

    async def post(self, method: str, **parameters: Any) -> tuple[int, str]:
        """Call a method over plain HTTP. Return the status, and the description or `ok`."""
        response = await self.http.post(method, json=parameters)
        return response.status_code, response.json().get("description", "ok")


def bot_of(peer: Peer) -> Bot:
    # Loading certificates, which are not used here, takes longer than most tests.
    first, second = (HTTPXRequest(httpx_kwargs={"verify": False}) for _ in range(2))
    return Bot(
        peer.token,
        base_url=peer.base_url,
        base_file_url=peer.file_url,
        request=first,
        get_updates_request=second,
    )


@contextlib.asynccontextmanager
async def stage(
    settings: Settings = Settings(),  # noqa: B008 - it is frozen
    *,
    errors: int = 0,
    **more: Any,
) -> AsyncGenerator[Stage]:
    """`errors` is the number of errors that the fake must have recorded at the end."""
    async with serving(settings, **more) as peer, peer.hands() as hands:
        anna = await hands.user("Anna", username="anna_b")
        forum = await hands.chat(Kind.FORUM, [anna], manage_topics=True)
        url = f"{peer.base_url}{peer.token}/"
        http = httpx2.AsyncClient(base_url=url, verify=tls(), trust_env=False, timeout=15)
        async with bot_of(peer) as bot, http:
            yield Stage(peer, hands, bot, http, anna, forum)
            assert len(noted := await hands.errors()) == errors, noted


async def refusal(doing: Awaitable[object]) -> str:
    """The name and the text of the library's error that the call raises."""
    with pytest.raises(TelegramError) as caught:
        await doing
    kind, message = type(caught.value).__name__, caught.value.message
    return f"{kind}: {message.removeprefix(f'{kind}: ')}"
