"""The gateway harness: a platform with users, a store, and gateways that run in this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import segue.store
from segue.agent.models.base import Model, Piece, Prompt
from segue.agent.models.scripted import Script, ScriptedModel, Step
from segue.config import Settings
from segue.core.address import Address, ChatType, HomeChannel, Platform, Sender
from segue.core.errors import NoModel
from segue.core.session import ME, Session
from segue.core.transcript import Message, Role, spoken
from segue.gateway.service import Gateway
from segue.handoffs import Completed, Failed, HandoffRequest, Progress, hand_off
from segue.handoffs.values import Handoff
from segue.jobs import reminders
from segue.platforms.base import Adapter
from segue.platforms.webhook import WebhookServer
from segue.store import (
    Store,
    Topic,
    bindings,
    gateways,
    inbox,
    outbox,
    owners,
    sessions,
    transcripts,
)
from segue.store.gateways import LinkState
from segue.testing.platform import Driver, Peer, PeerAdapter, Shape, Shown, serving
from segue.turns import HeldLease, Turns, hold
from segue.turns.agents import Agents

TELEGRAM = Platform.TELEGRAM
WITHIN = 40.0


def echo(prompt: Prompt) -> str:
    """Repeat the last user message, after the number of user messages so far."""
    asked = [m for m in prompt.messages if m.role is Role.USER]
    return f"({len(asked)}) {asked[-1].content}"


def echoing() -> Generator[Callable[[Prompt], Step]]:
    while True:
        yield echo


@dataclass
class House:
    peer: Peer
    driver: Driver
    url: str
    settings: Settings
    store: Store
    """The test's own connection to the store."""
    anna: str = ""
    """The owner's user id on the platform."""
    eve: str = ""
    """The user id of a stranger."""
    model: ScriptedModel = field(default_factory=lambda: ScriptedModel(echoing()))

    @contextlib.asynccontextmanager
    async def gateway(
        self,
        platform: Platform = TELEGRAM,
        model: ScriptedModel | Script | None = None,
        speaks: type[PeerAdapter] = PeerAdapter,
    ) -> AsyncGenerator[Gateway]:
        """Run a gateway and yield once it is connected. It is stopped at the end."""
        if model is not None:
            self.model = model if isinstance(model, ScriptedModel) else ScriptedModel(model)
        async with (
            await segue.store.open(self.url) as store,
            self.serve(store, self.adapter(platform, speaks)) as gateway,
        ):
            yield gateway

    @contextlib.asynccontextmanager
    async def serve(self, store: Store, *adapters: Adapter) -> AsyncGenerator[Gateway]:
        """Run a gateway on that store and yield once the last adapter is connected."""
        platform = adapters[-1].platform

        async def is_connected() -> bool:
            return await self.link(platform) is LinkState.CONNECTED

        running = serve(store, self.settings, self.model, adapters, is_connected)
        async with running as gateway:
            yield gateway

    def adapter(
        self, platform: Platform = TELEGRAM, speaks: type[PeerAdapter] = PeerAdapter
    ) -> PeerAdapter:
        """An unconnected adapter of the house's platform, which stands in for `platform`."""
        return speaks(platform, self.peer.url, self.peer.token)

    async def link(self, platform: Platform = TELEGRAM) -> LinkState | None:
        """The state of a platform that a gateway reports, or None if no gateway serves it."""
        serving = await gateways.serving(self.store, platform)
        return serving.links[platform].state if serving else None

    async def until_link(self, state: LinkState, platform: Platform = TELEGRAM) -> None:
        """Wait until the gateway reports that state of its platform."""
        async with asyncio.timeout(WITHIN):
            while True:
                if await self.link(platform) is state:
                    return
                await asyncio.sleep(0.005)

    async def pair(self, user: str, platform: Platform = TELEGRAM) -> None:
        await owners.link(self.store, Sender(platform=platform, user_id=user), ME)

    async def chat(self, shape: Shape = Shape.DM, *members: str, **more: Any) -> str:
        return await self.driver.chat(shape, [self.anna, *members], **more)

    async def address(self, chat: str) -> Address:
        """Wait for a session in the chat and return its address."""
        async with asyncio.timeout(WITHIN):
            while True:
                for binding in await bindings.list_bindings(self.store, ME):
                    if binding.address.chat_id == chat:
                        return binding.address
                await asyncio.sleep(0.01)

    async def home(self, chat: str, shape: str = "dm", platform: Platform = TELEGRAM) -> Address:
        """Make that chat the home channel."""
        address = Address(platform=platform, chat_type=ChatType(shape), chat_id=chat)
        await owners.set_home(self.store, ME, HomeChannel(address=address, name="Home"))
        return address

    async def session_at(self, address: Address) -> Session:
        binding = await bindings.get(self.store, address)
        assert binding is not None
        found = await sessions.get(self.store, binding.session_id)
        assert found is not None
        return found

    async def said(self, session_id: str) -> list[tuple[str, str]]:
        return [(m.role.value, m.content) for m in await transcripts.load(self.store, session_id)]

    async def idle(self) -> None:
        """Wait until all inbound messages are finished and all outbound messages are sent."""
        await self.idle_but_for(0)

    async def idle_but_for(self, waiting: int) -> None:
        """The same, except for `waiting` messages that are not answered yet."""
        await self.driver.until(lambda shown: shown.unconfirmed == 0)
        async with (
            asyncio.timeout(WITHIN),
            self.store.listen(Topic.INBOX, Topic.SENT) as wake,
        ):
            while len(await inbox.waiting(self.store)) > waiting or await outbox.is_due(
                self.store, [*Platform]
            ):
                await wake.wait(0.05)

    @contextlib.asynccontextmanager
    async def terminal(self, *exchanges: tuple[str, str], **more: Any) -> AsyncGenerator[Desk]:
        """A terminal with a session that contains these exchanges."""
        async with terminal(self.url, *exchanges, **more) as desk:
            yield desk


@contextlib.asynccontextmanager
async def build(settings: Settings) -> AsyncGenerator[House]:
    """A house with Anna, who is paired, and Eve, who is not."""
    async with (
        serving() as peer,
        peer.driver() as driver,
        await segue.store.open(settings.store) as store,
    ):
        await owners.ensure(store, ME)
        await owners.introduced(store, ME)
        house = House(peer, driver, settings.store, settings, store)
        house.anna = await driver.user("Anna")
        house.eve = await driver.user("Eve")
        await house.pair(house.anna)
        yield house


@dataclass
class Desk:
    """A terminal that holds a session."""

    store: Store
    held: HeldLease
    session: Session
    seen: list[Progress] = field(default_factory=list[Progress])

    async def hand_off(
        self,
        platform: str = "telegram",
        *,
        mid_turn: bool = False,
        interrupt: asyncio.Event | None = None,
        **more: Any,
    ) -> Handoff:
        """Hand off the session and return the finished handoff."""
        request = HandoffRequest(Platform(platform), **more)
        async for progress in hand_off(
            self.store, self.held, request, mid_turn=mid_turn, interrupt=interrupt
        ):
            self.seen.append(progress)
        last = self.seen[-1]
        assert isinstance(last, Completed | Failed), last
        return last.handoff


class Slow(ScriptedModel):
    """A model for a `house`: answers like `echo`, but waits before it answers certain words."""

    def __init__(self, words: str) -> None:
        super().__init__(echoing())
        self.go = asyncio.Event()
        """Set it to let the model answer."""
        self.thinks = asyncio.Event()
        """Set when the model is waiting."""
        self._words = words
        self._once = False

    def only_once(self) -> None:
        """Answer everything at once from now on.

        An answer that is already waiting keeps waiting.
        """
        self._once = True

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        if self._words in prompt.messages[-1].content and not self._once:
            self.thinks.set()
            await self.go.wait()
        async for piece in super().stream(prompt):
            yield piece


@contextlib.asynccontextmanager
async def terminal(url: str, *exchanges: tuple[str, str], **more: Any) -> AsyncGenerator[Desk]:
    """A terminal with a session that contains these exchanges, in the store at `url`."""
    async with await segue.store.open(url) as store:
        session = await sessions.create(store, ME, Platform.LOCAL, **more)
        here = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=session.id)
        async with hold(store, session.id, "a terminal on desk", address=here) as held:
            for asked, answered in exchanges:
                now = session.started
                messages = [spoken(asked, now), Message(Role.ASSISTANT, answered, now)]
                await transcripts.append(store, held.lease, messages)
            yield Desk(store, held, session)


def texts(shown: Shown) -> list[str]:
    return [message.text for message in shown.messages]


@contextlib.asynccontextmanager
async def serve(
    store: Store,
    settings: Settings,
    model: Model,
    adapters: Sequence[Adapter],
    is_connected: Callable[[], Awaitable[bool]],
    webhooks: WebhookServer | None = None,
) -> AsyncGenerator[Gateway]:
    """Run a gateway and yield once it is connected. It is stopped at the end."""
    stop = asyncio.Event()
    async with Turns(
        store, Agents(store, settings, Offered(model), more_tools=reminders.tools), titles=False
    ) as turns:
        gateway = Gateway(store, turns, settings, adapters, webhooks)
        running = asyncio.create_task(gateway.run(stop))
        try:
            async with asyncio.timeout(WITHIN):
                while not await is_connected():
                    if running.done():
                        running.result()
                    await asyncio.sleep(0.005)
            yield gateway
        finally:
            stop.set()
            await running


@dataclass
class Offered:
    """The models of a test, by name. `usual` is the default."""

    usual: Model | None = None
    others: dict[str, Model] | None = None

    async def get(self, wanted: str | None) -> Model:
        found = self.usual if wanted is None else (self.others or {}).get(wanted)
        if found is None:
            raise NoModel(reason=f"there is no {wanted}")
        return found

    async def close(self) -> None: ...
