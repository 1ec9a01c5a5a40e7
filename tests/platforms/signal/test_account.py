"""The account: set-up, its checks, and what is wrong with it. tests/cli/test_setup_signal.py starts
a daemon and links it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from segue.cli.setup import Terminal
from segue.core.errors import PlatformError
from segue.platforms.base import Finding
from segue.platforms.signal import setup
from segue.platforms.signal.setup import prepare
from segue.platforms.signal.updates import address
from segue.testing.peers import Trouble
from tests.fakes.signal import NUMBER, Failure, Kind, Settings
from tests.rigs.signal.contract import AnnaOnSignal

OTHER = "+4915100000002"


# Set-up


@pytest.mark.parametrize(
    ("settings", "account", "found"),
    [
        (Settings(), "", NUMBER),
        (Settings(accounts=(NUMBER, OTHER)), OTHER, OTHER),
        (Settings(single=True), OTHER, OTHER),
    ],
)
async def test_the_only_account_is_used_or_the_one_that_is_named(
    rig: AnnaOnSignal, settings: Settings, account: str, found: str
):
    await rig.driver.settings(settings)
    assert (await prepare({"url": rig.url, "account": account}, Terminal(asks=True)))[
        "account"
    ] == found


@pytest.mark.parametrize(
    ("settings", "account", "asks", "reason"),
    [
        (Settings(accounts=()), "", False, "has no account yet"),
        (Settings(accounts=()), NUMBER, False, r"no account \+4915100000001.*register"),
        (Settings(accounts=(NUMBER, OTHER)), "", True, r"several accounts.*--account NUMBER"),
        (Settings(single=True), "", True, "--account NUMBER"),
        (Settings(accounts=(), network=False), "", True, "signal-cli cannot reach Signal"),
        (Settings(version="0.12.8"), "", True, r"signal-cli 0\.12\.8 is too old"),
    ],
)
async def test_set_up_says_what_is_missing(
    rig: AnnaOnSignal, settings: Settings, account: str, asks: bool, reason: str
):
    await rig.driver.settings(settings)
    with pytest.raises(PlatformError, match=reason):
        await prepare({"url": rig.url, "account": account}, Terminal(asks))


async def test_an_account_that_the_phone_unlinked_can_be_linked_again(rig: AnnaOnSignal):
    await rig.driver.settings(Settings(revoked=True))
    known = {"url": rig.url, "account": NUMBER}
    work = asyncio.ensure_future(prepare(known, Terminal(asks=True)))
    shown = await rig.driver.until(lambda shown: shown.calls.get("finishLink", 0) > 0)
    await rig.driver.scan(*shown.links, number=NUMBER)
    assert await work == known


async def test_a_daemon_that_answers_nonsense_is_not_started_again(rig: AnnaOnSignal):
    await rig.driver.fail("version", Trouble.GARBLED)
    with pytest.raises(PlatformError, match="makes no sense"):
        await prepare({"url": rig.url}, Terminal(asks=True))


async def test_a_program_that_does_not_start_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    nowhere = {"url": "http://127.0.0.1:9"}
    monkeypatch.setattr(setup, "START_SECONDS", 1_000.0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PlatformError, match=r"neither running nor installed\. Install"):
        await prepare(nowhere, Terminal(asks=True))
    program = tmp_path / "signal-cli"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    with pytest.raises(PlatformError, match="did not start"):
        await prepare(nowhere, Terminal(asks=True))
    with pytest.raises(PlatformError, match="no signal-cli daemon answers at"):
        await prepare({"url": "http://192.0.2.1:9"}, Terminal(asks=True))


# Checks


async def findings(rig: AnnaOnSignal, group: str) -> list[Finding]:
    return list(await rig.another().examine(address(group, group=True)))


async def test_a_good_account_has_no_findings_to_fix(rig: AnnaOnSignal):
    found = await findings(rig, await rig.driver.chat(Kind.GROUP, [rig.anna], name="Crew"))
    good = ("signal-cli 0.14.6 answers.", f"The account is {NUMBER}.", "The home channel is Crew.")
    assert [(it.ok, it.text) for it in found] == [(True, text) for text in good]


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
async def test_a_finding_says_what_to_do(rig: AnnaOnSignal, change: str, text: str, fix: str):
    driver = rig.driver
    anna = rig.anna
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
    assert text in found.text
    assert fix in found.fix
