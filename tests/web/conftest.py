"""The page harness: a page that a gateway in this process serves, and its browsers, each reduced to
its WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import segue.store
from segue import config
from segue.agent.models.scripted import Script, ScriptedModel
from segue.config import Settings
from segue.core.address import Platform
from segue.core.session import ME
from segue.gateway import connections
from segue.gateway.service import Gateway
from segue.store import Store, gateways, owners
from segue.store.gateways import LinkState
from segue.web import endpoints
from tests.harness.house import Desk, echoing, serve, terminal
from tests.harness.networks import reserved_port
from tests.web.bare_server import Door, opened_door
from tests.web.browser import Browser
from tests.web.handshake import Key, entered, pair


@dataclass
class Site:
    """The page and its parts."""

    settings: Settings
    store: Store
    model: ScriptedModel = field(default_factory=lambda: ScriptedModel(echoing()))
    url: str = ""

    @contextlib.asynccontextmanager
    async def gateway(self, model: ScriptedModel | Script | None = None) -> AsyncGenerator[Gateway]:
        if model is not None:
            self.model = model if isinstance(model, ScriptedModel) else ScriptedModel(model)
        async with await segue.store.open(self.settings.store) as store:
            adapters, server = connections.load_adapters(self.settings, store)
            running = serve(store, self.settings, self.model, adapters, self._is_connected, server)
            async with running as gateway:
                yield gateway

    async def _is_connected(self) -> bool:
        serving = await gateways.serving(self.store, Platform.WEB)
        link = serving and serving.links[Platform.WEB]
        if not (link and link.state is LinkState.CONNECTED and link.link):
            return False
        self.url = link.link.partition("/#")[0]
        return True

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    async def key(self) -> Key:
        """The key of a browser that opened a new link."""
        link = await endpoints.page_link(self.store, ME)
        assert link is not None
        key = await pair(self.url, link.partition("#t=")[2])
        assert key is not None
        return key

    @contextlib.asynccontextmanager
    async def browser(self, key: Key | None = None) -> AsyncGenerator[Browser]:
        async with entered(self.url, key or await self.key()) as (wire, hello):
            yield Browser(wire, hello)

    @contextlib.asynccontextmanager
    async def terminal(self, *exchanges: tuple[str, str], **more: Any) -> AsyncGenerator[Desk]:
        async with terminal(self.settings.store, *exchanges, **more) as desk:
            yield desk


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "config.toml"
    path.write_text("[web]\nport = 0\n")
    path.chmod(0o600)
    environment = {
        "SEGUE_CONFIG": str(path),
        "SEGUE_STORE": f"sqlite://{tmp_path}/segue.db",
        "SEGUE_GATEWAY_LOG": f"{tmp_path}/gateway.log",
    }
    return config.load(environment)


@pytest.fixture
def port() -> Generator[int]:
    with reserved_port() as port:
        yield port


@pytest.fixture
def site(settings: Settings, runner: asyncio.Runner) -> Generator[Site]:
    async def build() -> Site:
        store = await segue.store.open(settings.store)
        await owners.ensure(store, ME)
        await owners.introduced(store, ME)
        return Site(settings, store)

    site = runner.run(build())
    yield site
    runner.run(site.store.close())


@pytest.fixture
def door(tmp_path: Path, runner: asyncio.Runner) -> Generator[Door]:
    with opened_door(tmp_path, runner) as door:
        yield door
