"""A platform whose settings or packages are missing: tried once, and again when the settings are
read again."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from msgspec import structs

import segue.store
from segue import config
from segue.config import Settings
from segue.gateway import connections, service
from segue.gateway.service import SettingsWatch
from segue.platforms.spec import PlatformSettings
from segue.store import gateways
from segue.store.gateways import LinkState
from tests.harness.house import TELEGRAM, House, serve

MODULE = "an_adapter_that_is_installed_later"


async def test_a_package_that_is_installed_later_is_used_when_the_settings_are_read_again(
    house: House,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.syspath_prepend(tmp_path)
    given = PlatformSettings(platform=TELEGRAM, enabled=True, adapter=f"{MODULE}:quiet")
    settings = structs.replace(house.settings, platforms={TELEGRAM: given})
    house.settings = settings

    async def is_down() -> bool:
        return await house.link() is LinkState.DOWN

    with caplog.at_level(logging.INFO):
        async with await segue.store.open(house.url) as store:
            adapter = connections.make_adapter(TELEGRAM, given)
            running = serve(store, settings, house.model, [adapter], is_down)
            async with running as gateway:
                [record] = await gateways.alive(house.store)
                assert MODULE in record.links[TELEGRAM].detail
                source = "from tests.harness.quiet_adapter import quiet as quiet\n"
                (tmp_path / f"{MODULE}.py").write_text(source)
                gateway.reload(settings)
                await house.until_link(LinkState.CONNECTED)
    told = [it for it in caplog.messages if it.startswith("disconnected platform=telegram")]
    assert len(told) == 1


async def test_settings_that_are_written_again_unchanged_are_applied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "settings.toml"
    file.write_text('model = "scripted"\n')
    file.chmod(0o600)
    monkeypatch.setenv("SEGUE_CONFIG", str(file))
    monkeypatch.setattr(service, "SETTINGS_SECONDS", 0.001)
    applied = asyncio.Queue[Settings]()
    watch = SettingsWatch(config.load(), config.load, applied.put_nowait)
    running = asyncio.create_task(watch.run())
    for _ in range(100):
        await asyncio.sleep(0)
    assert applied.empty()
    config.touch()
    assert (await applied.get()).model == "scripted"
    running.cancel()
    await asyncio.wait([running])
