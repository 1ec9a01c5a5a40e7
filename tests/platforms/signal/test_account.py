"""The account: set-up, its checks, and what is wrong with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from segue.core.errors import SetupFailed
from segue.platforms.base import Finding
from segue.platforms.signal.parser import address
from segue.platforms.signal.setup import prepare
from segue.testing.signal import NUMBER, Failure, Kind, Peer, Settings, serving
from tests.platforms.signal.rig import SignalRig

pytestmark = pytest.mark.anyio


@dataclass
class Paper:
    """A terminal that keeps what is said."""

    asks: bool = True
    said: list[str] = field(default_factory=list[str])
    links: list[str] = field(default_factory=list[str])

    def say(self, text: str) -> None:
        self.said.append(text)

    def show(self, link: str) -> None:
        self.links.append(link)


@contextlib.asynccontextmanager
async def daemon(**more: object) -> AsyncGenerator[Peer]:
    async with serving(Settings(**more)) as peer:  # pyright: ignore[reportArgumentType]
        yield peer


# Set-up


async def test_a_daemon_without_an_account_is_linked_by_a_phone():
    paper = Paper()
    async with daemon(accounts=()) as peer, peer.driver() as phone:
        work = asyncio.create_task(prepare({"url": peer.url}, paper))
        (uri,) = (await phone.until(lambda shown: bool(shown.links))).links
        await phone.until(lambda shown: shown.calls.get("finishLink", 0) > 0)
        assert paper.links == [uri]
        await phone.scan(uri, NUMBER)
        assert await work == {"url": peer.url, "account": NUMBER}
        assert await phone.errors() == ()
    assert f"Linked to {NUMBER}." in paper.said


async def test_the_only_account_is_used_and_one_of_several_must_be_chosen():
    async with daemon() as peer:
        assert (await prepare({"url": peer.url}, Paper()))["account"] == NUMBER
    async with daemon(accounts=(NUMBER, "+491")) as peer:
        with pytest.raises(SetupFailed, match=r"several accounts.*--account NUMBER"):
            await prepare({"url": peer.url}, Paper())
        found = await prepare({"url": peer.url, "account": "+491"}, Paper())
        assert found["account"] == "+491"


@pytest.mark.parametrize(
    ("settings", "account", "asks", "reason"),
    [
        ({"accounts": ()}, "", False, "has no account yet"),
        ({"accounts": ()}, NUMBER, True, r"no account \+4915100000001.*register"),
        ({"single": True}, "", True, "--account NUMBER"),
    ],
)
async def test_set_up_says_what_is_missing(
    settings: dict[str, object], account: str, asks: bool, reason: str
):
    async with daemon(**settings) as peer:
        with pytest.raises(SetupFailed, match=reason):
            await prepare({"url": peer.url, "account": account}, Paper(asks))


async def test_linking_without_network_says_so():
    async with daemon(accounts=(), network=False) as peer:
        with pytest.raises(SetupFailed, match="signal-cli cannot reach Signal"):
            await prepare({"url": peer.url}, Paper())


async def test_a_daemon_that_is_installed_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program, pid = tmp_path / "signal-cli", tmp_path / "pid"
    program.write_text(
        f'#!/bin/sh\necho $$ > {pid}\necho "$@" > {tmp_path}/options\n'
        f"exec {sys.executable} -m segue.testing.signal --port {port}\n"
    )
    program.chmod(0o700)
    url = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SetupFailed, match="neither running nor installed"):
        await prepare({"url": url}, Paper())
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    try:
        assert (await prepare({"url": url}, Paper()))["account"] == NUMBER
    finally:
        os.kill(int(pid.read_text()), signal.SIGTERM)
    options = (tmp_path / "options").read_text().split()
    assert options[:3] == ["daemon", "--http", f"127.0.0.1:{port}"]
    assert options[3:5] == ["--receive-mode", "on-connection"], "messages wait for the gateway"


async def test_a_program_that_does_not_start_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    program = tmp_path / "signal-cli"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    with pytest.raises(SetupFailed, match="did not start"):
        await prepare({"url": "http://127.0.0.1:9"}, Paper())
    with pytest.raises(SetupFailed, match="no signal-cli daemon answers at"):
        await prepare({"url": "http://192.0.2.1:9"}, Paper())


# Checks


async def findings(rig: SignalRig, group: str | None = None) -> list[Finding]:
    home = address(group, group=True) if group else None
    return list(await rig.another().examine(home))


def test_a_good_account_has_no_findings_to_fix(rig: SignalRig, runner: asyncio.Runner):
    async def check() -> list[Finding]:
        return await findings(rig, await rig.driver.chat(Kind.GROUP, [rig.anna], name="Crew"))

    found = runner.run(check())
    assert [it.text for it in found] == [
        "signal-cli 0.14.6 answers.",
        f"The account is {NUMBER}.",
        "The home channel is Crew.",
    ]
    assert all(it.ok for it in found)


@pytest.mark.parametrize(
    ("change", "text", "fix"),
    [
        ("old", "signal-cli 0.12.8 is too old, and Segue needs 0.13.", "Install signal-cli"),
        ("unlinked", "signal-cli does not have the account", "segue setup signal"),
        ("identity", "The safety number of +49151000000019 changed", "trust -v SAFETY_NUMBER"),
        ("left", "The account is not in the home channel", "Add it to that group"),
        ("down", "cannot be used: no connection can be made", "signal-cli daemon --http"),
    ],
)
def test_a_finding_says_what_to_do(
    rig: SignalRig, runner: asyncio.Runner, change: str, text: str, fix: str
):
    async def check() -> Finding:
        driver, anna = rig.driver, rig.anna
        await driver.chat(Kind.DM, [anna])
        group = await driver.chat(Kind.GROUP, [anna])
        match change:
            case "old":
                await driver.settings(Settings(version="0.12.8"))
            case "unlinked":
                await driver.settings(Settings(revoked=True))
            case "identity":
                await driver.change(anna, failure=Failure.IDENTITY)
            case "left":
                await driver.change(group, joined=False)
            case _:
                await driver.down()
        [found] = [it for it in await findings(rig, group) if not it.ok]
        await driver.up()
        return found

    found = runner.run(check())
    assert text in found.text
    assert fix in found.fix
