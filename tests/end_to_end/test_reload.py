"""Changed settings reach a running gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from segue.core.address import Platform
from segue.store.gateways import LinkState
from tests.end_to_end.conftest import tool_call
from tests.harness.household import WITHIN, Household
from tests.rigs import TelegramRig

pytestmark = pytest.mark.parametrize("home", [TelegramRig], indirect=True)
SOON = {"segue.gateway.service.SETTINGS_SECONDS": 0.05}
USED = "The running gateway uses this from now on."


async def changed(home: Household, name: str, value: str) -> str:
    """The output of `segue config set`."""
    output = await home.shell("config", "set", name, value)
    assert output.returncode == 0, output.stderr
    return output.stdout


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WITHIN):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.02)


async def logged(home: Household, line: str) -> None:
    async def is_logged() -> bool:
        return line in home.log.read_text()

    await until(is_logged)


def add_nonsense(home: Household) -> None:
    with Path(home.person.environment["SEGUE_CONFIG"]).open("a") as file:
        file.write("\nnonsense = 1\n")


async def ready(home: Household) -> None:
    await home.at_home(home.rig.kinds[0])
    home.set_constants(SOON)


async def test_without_a_gateway_no_reload_is_reported(home: Household):
    assert "running" not in await changed(home, "approvals.policy", "auto")


async def test_approvals_are_reloaded_and_both_sides_say_so(home: Household):
    await ready(home)
    async with home.gateway():
        assert USED in await changed(home, "approvals.policy", "auto")
        await logged(home, "settings reloaded changed=approvals\n")
        made = Path(home.person.environment["HOME"]) / "made"
        home.model.plans.append(tool_call("shell", command=f"touch {made}"))
        await home.writes("make it")
        await home.sees("make it")
        assert made.exists(), "it was not asked about"


async def test_the_model_is_reloaded_for_every_session_without_its_own(home: Household):
    await ready(home)
    del home.person.environment["SEGUE_MODEL"]
    await changed(home, "model", "openai/gpt-test")
    async with home.gateway():
        thread = await home.arrives()
        assert USED in await changed(home, "model", "scripted")
        await logged(home, "settings reloaded changed=model\n")
        await home.writes("and 3?", thread)
        await home.sees("what I hear: and 3?", thread)


async def test_a_session_handed_off_in_the_terminal_keeps_its_model(home: Household):
    await ready(home)
    async with home.gateway():
        name = home.rig.platform
        async with home.person.opens(environment={"SEGUE_MODEL": "scripted"}) as shown:
            await shown.ready()
            shown.say("hello")
            await shown.shows("what I hear: hello")
            await shown.ready()
            shown.say(f"/handoff {name}")
            assert await shown.end() == 0
        thread = await home.thread()
        await home.writes("again", thread)
        await home.sees("what I hear: again", thread)
        async with home.person.opens("resume") as shown:
            await shown.until(lambda: "· scripted ·" in shown.status, "its model")


async def test_a_platform_is_disabled_and_enabled_again(home: Household):
    await ready(home)
    platform = home.rig.platform

    async def is_left() -> bool:
        return await home.health() is None

    async with home.gateway():
        await home.answered()
        assert USED in await changed(home, f"platforms.{platform}.enabled", "false")
        await until(is_left)
        await home.writes("/whoami")
        await changed(home, f"platforms.{platform}.enabled", "true")
        await home.until_link(LinkState.CONNECTED)
        await home.sees("paired with the owner", times=2)


async def test_a_changed_platform_is_connected_again_and_the_others_stay(home: Household):
    await ready(home)
    async with home.gateway():
        await home.until_link(LinkState.CONNECTED, Platform.WEB)
        page = await home.health(Platform.WEB)
        await changed(home, f"platforms.{home.rig.platform}.url", "http://127.0.0.1:9")
        await home.until_link(LinkState.DOWN)
        assert await home.health(Platform.WEB) == page


async def test_settings_that_need_a_restart_are_named(home: Household, tmp_path: Path):
    """In an editor; `config set` reports what it changes in the same way."""
    await ready(home)
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "\n[web]\nlan = true\n" >> "$1"\n')
    editor.chmod(0o700)
    home.person.environment["VISUAL"] = str(editor)
    async with home.gateway():
        output = await home.shell("config", "edit")
        assert "uses web.lan only after a restart: `segue gateway stop`" in output.stdout
        await logged(home, "settings changed, restart to use them changed=web\n")


async def test_settings_that_are_not_valid_change_nothing(home: Household):
    await ready(home)
    async with home.gateway():
        add_nonsense(home)
        await logged(home, "settings not reloaded")
        await home.answered()
