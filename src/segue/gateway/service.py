"""The gateway process: one group of tasks. A failing adapter or item stops nothing else. A gateway
task that dies is restarted; if it keeps dying, the gateway logs the error and exits. When the
settings file changes, the gateway goes on with the new settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial

from msgspec import structs

from segue import config
from segue.agent.models.choice import Models
from segue.config import Settings
from segue.core.address import Platform
from segue.core.errors import BadSettings, NoPage, StoreError
from segue.core.session import ME
from segue.gateway import connections, watchdog
from segue.gateway.access import Gate
from segue.gateway.background import already_serving
from segue.gateway.connections import PlatformConnection
from segue.gateway.containment import cancel, keep_running
from segue.gateway.context import GatewayContext
from segue.gateway.dispatch import Dispatcher
from segue.gateway.expiry import Expiry
from segue.gateway.handoffs import Handoffs
from segue.gateway.inbound import Receiver
from segue.gateway.janitor import Janitor
from segue.gateway.jobs import JobRunner
from segue.gateway.outbound import Outbound
from segue.gateway.turns import ChatTurns
from segue.handoffs.store import open_store
from segue.jobs import reminders
from segue.platforms.base import Adapter
from segue.platforms.spec import Groups, PlatformSettings
from segue.platforms.webhook import Webhook, WebhookServer
from segue.store import Store, gateways, inbox, owners, retries, search
from segue.turns import Turns
from segue.turns.agents import Agents

HEARTBEAT_SECONDS = 4.0
STANDBY_SECONDS = 1.0
"""Seconds between two checks for platforms that have become free."""
OVERLOOKED_SECONDS = 5.0
"""Seconds between two checks for messages that were recorded, but never taken up."""
SETTINGS_SECONDS = 1.0
"""Seconds between two checks of the settings file."""
STOP_TIMEOUT = 30.0
"""Seconds that running turns and handoffs get after a stop signal."""
FLUSH_TIMEOUT = 5.0
"""Seconds after that for outgoing messages."""
CLOSE_TIMEOUT = 5.0
"""Seconds for each of the last steps: closing the adapters, and unregistering."""
PRESENCE_TIMEOUT = 60.0
"""Seconds for one renewal of the presence. Store errors are retried without limit, but a renewal
that hangs would leave the gateway alive and deaf."""
SWITCH_SECONDS = 0.001
"""How long a thread that renders may keep the event loop waiting at a time. Python's default is
five times that."""
_TAKING = ("handoffs", "expiry", "jobs", "overlooked")
"""The tasks that begin new work."""
logger = logging.getLogger(__name__)


async def serve(
    settings: Settings,
    *,
    models: Models | None = None,
    load: Callable[[], Settings] | None = None,
    stopping: Callable[[], None] | None = None,
) -> None:
    """Run the gateway until SIGTERM or SIGINT. Raise UserError if there is already one.
    `models` replace those from the settings. `load` returns the settings after their file has
    changed; without it, changes have no effect. `stopping` is called at a signal."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(watchdog.Exhaustion())
    sys.setswitchinterval(SWITCH_SECONDS)

    def end() -> None:
        stop.set()
        if stopping is not None:
            stopping()

    for ending in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(ending, end)
    async with await open_store(settings.store) as store:
        agents = Agents(store, settings, models, more_tools=reminders.tools)
        async with Turns(store, agents) as turns:
            await owners.ensure(store, ME)
            gateway = Gateway(store, turns, settings, *connections.load_adapters(settings, store))

            def apply(changed: Settings) -> None:
                agents.reload(changed)
                gateway.reload(changed)

            with watchdog.watched(loop):
                await gateway.run(stop, SettingsWatch(settings, load, apply).run if load else None)


class Gateway:
    def __init__(
        self,
        store: Store,
        turns: Turns,
        settings: Settings,
        adapters: Sequence[Adapter],
        webhooks: WebhookServer | None = None,
    ) -> None:
        """`webhooks` is needed by adapters that receive webhooks."""
        self.context = GatewayContext(
            store=store,
            turns=turns,
            settings=settings,
            adapters={adapter.platform: adapter for adapter in adapters},
            name=f"the gateway on {socket.gethostname()}",
        )
        self._name = f"a gateway on {socket.gethostname()} (process {os.getpid()})"
        self._store = store
        self._webhooks = webhooks
        self._configured = _enabled(settings)
        """The settings that the adapters were made from."""
        self._read_again = False
        """Whether the settings were read again since the adapters were made."""
        self._is_shared = not settings.store.startswith("sqlite")
        """Whether gateways on other machines can use the same store."""
        self._connections: dict[Platform, asyncio.Task[None]] = {}
        self._due = asyncio.Event()
        """Set when another gateway turns out to serve one of our platforms, or settings change."""
        self._outbound = Outbound(self.context)
        self._expiry = Expiry(self.context)
        self._chat_turns = ChatTurns(self.context, self._outbound, self._expiry)
        self._dispatcher = Dispatcher(self.context, self._chat_turns)
        self.receiver = Receiver(self.context, Gate(store), self._dispatcher)
        self._handoffs = Handoffs(self.context, self._dispatcher.continue_turn)
        self._janitor = Janitor(store)
        self._jobs = JobRunner(self.context, self._outbound, self._chat_turns.note)

    def reload(self, settings: Settings) -> None:
        """Use new settings from now on. Platforms whose settings changed are connected again, and
        those that are down: the user may have fixed the cause, or installed packages."""
        self.context.settings = settings
        self._read_again = True
        self._due.set()

    async def run(
        self, stop: asyncio.Event, watch: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Serve until `stop` is set, then shut down in order. `watch` waits for new settings."""
        await self._announce()
        while not self.context.serving and not self._may_stand_by():
            await self._give_way()
            await self._announce()  # the other gateway was just exiting
        logger.info("gateway serves platforms=%s: %s", _listed(self.context.serving), self._name)
        work = {
            asyncio.create_task(keep_running(name, task), name=name)
            for name, task in {
                "presence": self._presence,
                "outbound": self._outbound.run,
                "handoffs": self._handoffs.run,
                "expiry": self._expiry.run,
                "jobs": self._jobs.run,
                "reports": self._jobs.deliver,
                "janitor": self._janitor.run,
                "overlooked": self._take_up_overlooked,
                "search index": partial(search.keep_indexed, self._store),
                **({"settings": watch} if watch else {}),
            }.items()
        }
        stopping = asyncio.create_task(stop.wait())
        try:
            await self._until_over(work, stopping)
        finally:
            stopping.cancel()
            await self._end(work, graceful=stop.is_set())

    async def _until_over(
        self, work: set[asyncio.Task[None]], stopping: asyncio.Task[bool]
    ) -> None:
        """Return when `stopping` is done. Raise the error of a gateway task that died."""
        while not stopping.done():
            tasks = {*work, *self._connections.values(), stopping}
            done, _ = await asyncio.wait(
                tasks, timeout=STANDBY_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done & {*work, *self._connections.values()}:  # the rest were given up
                logger.critical("gateway stops, a task has ended task=%s", task.get_name())
                task.result()
                raise RuntimeError(f"{task.get_name()} has ended")

    async def _end(self, work: set[asyncio.Task[None]], *, graceful: bool) -> None:
        """Accept no new work and give running work some time. The next gateway resumes the rest."""
        names = {task.get_name(): task for task in work}
        await cancel(*self._connections.values(), *(names[n] for n in _TAKING))
        if graceful:
            logger.info("gateway stops: no new work")
        grace = STOP_TIMEOUT if graceful else 0.0
        await asyncio.gather(
            self._dispatcher.finish(grace), self._handoffs.finish(grace), self._jobs.finish(grace)
        )
        await self._chat_turns.close()
        if graceful:
            await _last_step("flush", self._outbound.flush(FLUSH_TIMEOUT))
        await cancel(*work)
        await self._outbound.finish(FLUSH_TIMEOUT)
        closing = (adapter.close() for adapter in self.context.adapters.values())
        await asyncio.gather(*(_last_step("close", it) for it in closing))
        if graceful:
            await _last_step("hand back", inbox.reset_starts(self._store, self.context.serving))
        await _last_step("withdraw", gateways.withdraw(self._store))
        logger.info("gateway has stopped")

    # Presence

    async def _presence(self) -> None:
        """Send heartbeats, and take over platforms that have become free."""
        while True:
            # Without a heartbeat we lose our platforms, so announce first when the store is back.
            async with asyncio.timeout(PRESENCE_TIMEOUT) as limit:
                await retries.until_stored("presence", partial(self._renew, limit))
            wanted = len(self.context.serving) < len(self.context.adapters)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STANDBY_SECONDS if wanted else HEARTBEAT_SECONDS):
                    await self._due.wait()
            self._due.clear()

    async def _take_up_overlooked(self) -> None:
        """Take up messages that were recorded without the gateway's knowledge."""
        while True:
            await asyncio.sleep(OVERLOOKED_SECONDS)
            await self._dispatcher.take_up_overlooked(self._connections.keys())

    async def _renew(self, limit: asyncio.Timeout) -> None:
        limit.reschedule(asyncio.get_running_loop().time() + PRESENCE_TIMEOUT)
        await self._reconfigure()
        await self._announce()

    async def _reconfigure(self) -> None:
        """Replace the adapters whose settings have changed, and close those no longer enabled. If
        the settings were read again, replace those that are not connected, too."""
        read_again = self._read_again
        self._read_again = False
        before = self._configured
        after = _enabled(self.context.settings)
        for platform in sorted(before.keys() | after.keys()):
            link = self.context.links.get(platform)
            waits = link is not None and link.tried and not link.connected
            if before.get(platform) == after.get(platform) and not (read_again and waits):
                continue
            if platform in self._connections:
                await self._give_up(platform)
            await gateways.leave(self._store, platform)
            self.context.adapters.pop(platform, None)
            if platform in after:
                adapter = connections.make_adapter(platform, after[platform])
                self.context.adapters[platform] = adapter
                if self._webhooks is None and isinstance(adapter, Webhook):
                    self._webhooks = connections.http_server(self.context.settings, self._store)
            logger.info("platform reconfigured platform=%s", platform)
        self._configured = after

    async def _announce(self) -> None:
        me = await gateways.announce(self._store, self._name, self.context.adapters)
        self.context.serving = me.platforms
        lost = sorted(self._connections.keys() - me.platforms)
        for platform in lost:
            logger.warning("platform lost to another gateway platform=%s", platform)
        await asyncio.gather(*(self._give_up(platform) for platform in lost))
        if new := me.platforms - self._connections.keys():
            await self._outbound.writer.take_over(new)
            await self._dispatcher.resume(new)
        for platform in sorted(new):
            adapter = self.context.adapters[platform]
            connection = PlatformConnection(
                self._store, adapter, self.receiver, self._due.set, webhooks=self._webhooks
            )
            self.context.links[platform] = connection.link
            self._connections[platform] = asyncio.create_task(connection.run(), name=f"{platform}")

    async def _give_up(self, platform: Platform) -> None:
        """Disconnect `platform`, and leave its work to the gateway that serves it from now on."""
        del self.context.links[platform]
        await cancel(self._connections.pop(platform))
        try:
            await asyncio.gather(
                self._dispatcher.release(platform),
                self._handoffs.release(platform),
                self._outbound.release(platform, FLUSH_TIMEOUT),
            )
        finally:
            await self.context.adapters[platform].close()

    def _may_stand_by(self) -> bool:
        return self._is_shared or not self.context.adapters

    async def _give_way(self) -> None:
        """Raise UserError if another gateway serves one of our platforms."""
        alive = await gateways.alive(self._store)
        if others := [g for g in alive if g.platforms & self.context.adapters.keys()]:
            await gateways.withdraw(self._store)
            served = frozenset[Platform]().union(*(g.platforms for g in others))
            name = ", ".join(g.name for g in others)
            raise already_serving(name, _listed(served & self.context.adapters.keys()))


def _enabled(settings: Settings) -> Mapping[Platform, PlatformSettings]:
    """The platforms that have an adapter of their own, with what it is made from."""
    return {
        platform: structs.replace(given, groups=Groups.ADDRESSED)  # it concerns the gateway alone
        for platform, given in settings.platforms.items()
        if given.enabled and platform is not Platform.WEB
    }


def _listed(platforms: Collection[Platform]) -> str:
    return ", ".join(sorted(platforms))


async def _last_step(name: str, work: Awaitable[object]) -> None:
    """Do one of the last steps of a gateway that stops, for a limited time. The store
    records what is left undone, and the next gateway does it."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT):
            await work
    except TimeoutError:
        logger.warning("gateway stops without waiting for step=%s", name)
    except StoreError as error:
        logger.warning(
            "gateway stops without the store, the next one does step=%s: %s", name, error
        )
    except Exception:
        logger.exception("gateway stops, a step has failed step=%s", name)


class SettingsWatch:
    """Applies the settings again whenever their file was written, even if it says the same: `segue
    setup` does that after it installed packages."""

    def __init__(
        self, used: Settings, load: Callable[[], Settings], apply: Callable[[Settings], None]
    ) -> None:
        """`used` are the settings that the gateway started with."""
        self._used = used
        self._load = load
        self._apply = apply

    async def run(self) -> None:
        seen = None
        while True:
            try:
                found = config.text(), config.written()
                if found != seen:
                    is_first = seen is None
                    seen = found
                    self._reload(is_first=is_first)
            except (BadSettings, NoPage) as error:  # the gateway keeps the settings that it has
                logger.warning("settings not reloaded: %s", error)
            await asyncio.sleep(SETTINGS_SECONDS)

    def _reload(self, *, is_first: bool) -> None:
        settings = self._load()
        changed = config.changed(self._used, settings)
        self._used = settings
        if now := sorted(changed & config.RELOADED):
            self._apply(settings)
            logger.info("settings reloaded changed=%s", ", ".join(now))
        elif not changed and not is_first:
            self._apply(settings)
            logger.info("settings read again, unchanged")
        if later := sorted(changed - config.RELOADED):
            logger.warning("settings changed, restart to use them changed=%s", ", ".join(later))
