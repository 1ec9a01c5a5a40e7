"""Gateways behind a network that stalls, delays and drops, on a server that cancels statements and
ends connections, while the user keeps writing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

import segue.store
from segue import config
from segue.agent.models.scripted import ScriptedModel
from segue.config import Settings
from segue.core.address import Platform, Sender
from segue.core.session import ME
from segue.gateway.service import Gateway
from segue.store import Store, owners
from segue.testing.platform import Driver, Peer, PeerAdapter, Shape, Shown
from segue.turns import Turns
from segue.turns.agents import Agents
from tests.harness.database_proxy import DatabaseProxy
from tests.harness.house import Offered, echoing

TELEGRAM = Platform.TELEGRAM
ROLE = "gateways"
"""The database role of the gateways, by which their connections are found."""
CHATS = 5
SETTLED = 90.0
"""Seconds after the last fault until everything must be answered."""

logger = logging.getLogger(__name__)


@dataclass
class Chaos:
    """One round."""

    random: random.Random
    proxy: DatabaseProxy
    admin: psycopg.Connection[Any]
    driver: Driver
    peer: Peer
    settings: Settings
    users: dict[str, str] = field(default_factory=dict[str, str])
    """The owner's account in each chat."""
    said: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """What the user has written in each chat."""
    restarts: int = 0
    faults: Counter[str] = field(default_factory=Counter[str])

    async def run(self, seconds: float, gateways: int) -> None:
        """Write and break things for that long, then wait until everything is answered."""
        stop = asyncio.Event()
        running = [asyncio.create_task(self._supervise(stop)) for _ in range(gateways)]
        try:
            ends = time.monotonic() + seconds
            await asyncio.gather(self._write(ends), self._break(ends))
            self.proxy.is_up = True
            self.proxy.flow()
            await self._settle()
            await self._require_no_repetition()
            stop.set()
            done, left = await asyncio.wait(running, timeout=SETTLED)
            assert not left, "a gateway does not stop"
            for task in done:
                task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.wait(running)

    # Gateways

    async def _supervise(self, stop: asyncio.Event) -> None:
        """Run a gateway, and start it again when it exits with an error."""
        while not stop.is_set():
            try:
                async with self._opened() as (store, turns):
                    adapter = PeerAdapter(TELEGRAM, self.peer.url, self.peer.token)
                    await Gateway(store, turns, self.settings, [adapter]).run(stop)
            except Exception:
                logger.exception("gateway exited")
                self.restarts += 1
                await asyncio.sleep(0.2)

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncGenerator[tuple[Store, Turns]]:
        model = ScriptedModel(echoing())
        async with await segue.store.open(self.proxy.url) as store:
            agents = Agents(store, self.settings, Offered(model))
            async with Turns(store, agents, titles=False) as turns:
                yield store, turns

    # The user

    async def _write(self, ends: float) -> None:
        number = 0
        while time.monotonic() < ends:
            number += 1
            chat = self.random.choice(list(self.users))
            text = f"word-{number}-"
            self.said[chat].append(text)
            await self.driver.say(self.users[chat], chat, text)
            await asyncio.sleep(self.random.uniform(0.1, 0.8))

    async def _settle(self) -> None:
        for chat, said in self.said.items():

            def is_answered(shown: Shown, said: list[str] = said) -> bool:
                return not unanswered(shown, said)

            try:
                await self.driver.until(is_answered, chat=chat, within=SETTLED)
            except AssertionError:
                shown = await self.driver.look(chat)
                left = unanswered(shown, said)
                told = "\n".join([*shown.texts, *(str(row) for row in self._rows(left))])
                raise AssertionError(f"unanswered: {left}\n{told}") from None

    async def _require_no_repetition(self) -> None:
        for chat, said in self.said.items():
            shown = await self.driver.look(chat)
            repeated = [text for text in said if len(answers(shown, text)) > 1]
            assert not repeated, (repeated, shown.texts)

    def _rows(self, left: list[str]) -> list[tuple[Any, ...]]:
        """What the store knows of those messages, for the report of a failure."""
        rows: list[tuple[Any, ...]] = []
        for text in left:
            for table in ("inbox", "outbox", "messages"):
                column = "content" if table == "messages" else "body"
                sql = f"SELECT '{table}', t.* FROM segue.{table} t WHERE t.{column}::text LIKE %s"
                rows += self.admin.execute(sql.encode(), (f"%{text}%",)).fetchall()
        rows += self.admin.execute("SELECT * FROM segue.gateways").fetchall()
        rows += self.admin.execute("SELECT * FROM segue.inbox WHERE finished IS NULL").fetchall()
        return rows

    # Faults

    async def _break(self, ends: float) -> None:
        faults: list[Callable[[], Awaitable[None]]] = [
            self._cut_all,
            self._cut_one,
            self._stall_all,
            self._stall_one,
            self._refuse,
            self._delay,
            self._cancel,
            self._terminate,
            self._terminate_all,
        ]
        while time.monotonic() < ends:
            fault = self.random.choice(faults)
            self.faults[fault.__name__] += 1
            await fault()
            await asyncio.sleep(self.random.uniform(0.0, 1.0))

    async def _cut_all(self) -> None:
        self.proxy.cut()

    async def _cut_one(self) -> None:
        if self.proxy.links:
            self.random.choice(self.proxy.links).cut()

    async def _stall_all(self) -> None:
        self.proxy.stall()
        await asyncio.sleep(self.random.uniform(0.1, 4.0))
        self.proxy.flow()

    async def _stall_one(self) -> None:
        """Stall a connection for good."""
        if self.proxy.links:
            self.random.choice(self.proxy.links).flows.clear()

    async def _refuse(self) -> None:
        self.proxy.is_up = False
        if self.random.random() < 0.5:
            self.proxy.cut()
        await asyncio.sleep(self.random.uniform(0.1, 3.0))
        self.proxy.is_up = True

    async def _delay(self) -> None:
        self.proxy.delay = self.random.uniform(0.0, 0.05)
        await asyncio.sleep(self.random.uniform(0.1, 1.0))
        self.proxy.delay = 0.0

    async def _cancel(self) -> None:
        """Cancel the running statements, again and again for a while."""
        for _ in range(self.random.randrange(1, 200)):
            await self._signal("pg_cancel_backend", "state = 'active'")

    async def _terminate(self) -> None:
        await self._signal("pg_terminate_backend", "random() < 0.3")

    async def _terminate_all(self) -> None:
        await self._signal("pg_terminate_backend", "true")

    async def _signal(self, function: str, which: str) -> None:
        sql = f"SELECT {function}(pid) FROM pg_stat_activity WHERE usename = '{ROLE}' AND {which}"
        await asyncio.to_thread(self.admin.execute, sql.encode())


def unanswered(shown: Shown, said: list[str]) -> list[str]:
    """The messages without an answer."""
    return [text for text in said if not answers(shown, text)]


def answers(shown: Shown, text: str) -> list[str]:
    return [m.text for m in shown.messages if m.text.startswith("(") and m.text.endswith(text)]


@contextlib.asynccontextmanager
async def chaos(url: str, folder: Path, peer: Peer, seed: int) -> AsyncGenerator[Chaos]:
    """A user who is paired, with some chats, in the store at `url`."""
    with psycopg.connect(url, autocommit=True) as admin:
        known = admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone()
        if known is None:
            admin.execute(f"CREATE ROLE {ROLE} LOGIN SUPERUSER".encode())
        theirs = url.replace("postgresql://postgres@", f"postgresql://{ROLE}@")
        async with DatabaseProxy(theirs).running() as proxy, peer.driver() as driver:
            environment = {
                "SEGUE_CONFIG": f"{folder}/config.toml",
                "SEGUE_STORE": proxy.url,
                "SEGUE_GATEWAY_LOG": f"{folder}/gateway.log",
            }
            round_ = Chaos(
                random.Random(seed), proxy, admin, driver, peer, config.load(environment)
            )
            async with await segue.store.open(url) as store:
                await owners.ensure(store, ME)
                await owners.introduced(store, ME)
                for number in range(CHATS):
                    user = await driver.user(f"Anna {number}")
                    await owners.link(store, Sender(platform=TELEGRAM, user_id=user), ME)
                    round_.users[await driver.chat(Shape.DM, [user])] = user
            round_.said = {chat: [] for chat in round_.users}
            yield round_
