"""The checks of `segue doctor`. Each returns findings that say what it found and what to type.

A check imports a package that may be missing only when it runs, so that the others still work.
"""

from __future__ import annotations

import asyncio
import codecs
import importlib.metadata
import platform
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import segue
import segue.store
from segue.agent.models.catalog import LOCAL, SCRIPTED, ModelServer
from segue.agent.models.choice import choose, embedded
from segue.agent.models.local import runtime
from segue.cli import gateway_text
from segue.cli.formatting import size
from segue.config import Settings
from segue.core.address import Platform
from segue.core.errors import (
    BadKey,
    ModelError,
    ModelOffline,
    PlatformError,
    StoreError,
    UnknownModel,
)
from segue.core.session import ME
from segue.core.text import count, one_line
from segue.platforms import registry
from segue.platforms.base import Finding as Examined
from segue.store import Store, gateways, health, outbox, owners, sessions
from segue.store.outbox import PlatformPause

_PACKAGE = re.compile(r"[\w.-]+")
_REACH_SECONDS = 3.0
_LITTLE_SPACE = 1_000_000_000
_NO_SPACE = 50_000_000
_NARROW = 40
_COLOURS = {"standard": "16 colours", "256": "256 colours", "truecolor": "16 million colours"}


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    about: str
    told: str
    verdict: Verdict = Verdict.OK


def program() -> list[Finding]:
    versions = {package: _version(package) for package in _packages()}
    missing = [package for package, version in versions.items() if version is None]
    about = f"Segue {segue.__version__} on Python {platform.python_version()}"
    findings = [Finding("program", f"{about}, {platform.system()}.")]
    if missing:
        again = "Type `make clean` and `make run` in the project folder to reinstall Segue."
        told = f"Missing: {', '.join(missing)}. {again}"
        return [*findings, Finding("packages", told, Verdict.PROBLEM)]
    told = ", ".join(f"{package} {version}" for package, version in versions.items())
    return [*findings, Finding("packages", f"{told}.")]


def _packages() -> list[str]:
    """The packages that the program always needs."""
    required = importlib.metadata.requires("segue") or []
    found = (_PACKAGE.match(line) for line in required if "extra ==" not in line)
    return [name[0] for name in found if name]


def settings_file(settings: Settings) -> list[Finding]:
    if settings.warnings:
        return [Finding("settings", warning, Verdict.WARNING) for warning in settings.warnings]
    if not settings.path.exists():
        return [Finding("settings", f"No file at {settings.path}: using the defaults.")]
    return [Finding("settings", f"{settings.path} is valid.")]


def store(settings: Settings) -> list[Finding]:
    """Check the store, its disk and its gateways."""
    return asyncio.run(_store(settings.store))


async def _store(url: str) -> list[Finding]:
    shown = segue.store.shown(url)
    try:
        disk = _disk(url)
        async with await segue.store.open(url) as opened:
            return [
                await _contents(opened, shown),
                *disk,
                await _gateway(opened),
                *(_paused(pause) for pause in await outbox.paused(opened)),
            ]
    except StoreError as error:
        return [Finding("store", str(error), Verdict.PROBLEM)]


async def _contents(store: Store, shown: str) -> Finding:
    found = await health.look(store)
    held = f"{count(await sessions.count(store), 'session')}, {size(found.size)}"
    if found.faults:
        told = f"{shown} is damaged: {'; '.join(found.faults)}. Stop Segue, keep a copy of it,"
        told = f"{told} and restore a backup."
        return Finding("store", told, Verdict.PROBLEM)
    checked = "not checked for damage" if found.faults is None else "intact"
    return Finding("store", f"{shown}: {held}, {checked}.")


def _disk(url: str) -> list[Finding]:
    """Check the free disk space for an SQLite file. A server's disk is unknown."""
    scheme, path = segue.store.parse(url)
    folder = Path(path).parent
    if scheme != "sqlite" or not folder.is_dir():
        return []
    free = shutil.disk_usage(folder).free
    told = f"{size(free)} free at {folder}."
    if free < _NO_SPACE:
        told = f"{told} Free some space: nothing can be saved on a full disk."
        return [Finding("disk", told, Verdict.PROBLEM)]
    if free < _LITTLE_SPACE:
        return [Finding("disk", f"Only {told}", Verdict.WARNING)]
    return [Finding("disk", told)]


async def _gateway(store: Store) -> Finding:
    alive = await gateways.alive(store)
    if not alive:
        return Finding("gateway", "Not running. Only handoffs and chats need it.")
    each = (f"{gateway.name} serves {', '.join(sorted(gateway.platforms))}" for gateway in alive)
    told = f"Running: {'; '.join(each)}."
    away = [health for gateway in alive for health in gateway_text.down(gateway)]
    if not away:
        return Finding("gateway", told)
    why = (one_line(f"{it.platform} is not connected: {it.detail}.") for it in away)
    return Finding("gateway", " ".join((told, *why)), Verdict.PROBLEM)


def _paused(pause: PlatformPause) -> Finding:
    told = gateway_text.pause_text(pause, datetime.now(UTC))
    return Finding(pause.platform, f"{told}.", Verdict.PROBLEM)


def bots(settings: Settings) -> list[Platform]:
    """Return the platforms that a gateway would serve."""
    return [name for name, given in settings.platforms.items() if given.enabled]


def bot(settings: Settings, platform: Platform) -> list[Finding]:
    """Check the bot and the home channel on a platform."""
    return asyncio.run(_bot(settings, platform))


async def _bot(settings: Settings, platform: Platform) -> list[Finding]:
    try:
        async with await segue.store.open(settings.store) as store:
            homes = await owners.homes(store, ME) if await owners.get(store, ME) else ()
        adapter = registry.make(platform, settings.platforms[platform])
    except (StoreError, PlatformError) as error:
        return [Finding(platform, str(error), Verdict.PROBLEM)]
    home = next((home.address for home in homes if home.platform is platform), None)
    findings = [_as_ours(platform, found) for found in await adapter.examine(home)]
    if home is None:
        told = f"No home channel yet. Type `segue setup {platform}`."
        findings.append(Finding(platform, told, Verdict.WARNING))
    return findings


def _as_ours(platform: Platform, found: Examined) -> Finding:
    fault = Verdict.PROBLEM if found.vital else Verdict.WARNING
    told = f"{found.text} {found.fix}".strip()
    return Finding(platform, told, Verdict.OK if found.ok else fault)


def model(settings: Settings, servers: Sequence[ModelServer]) -> list[Finding]:
    """Check which model would be used and whether it answers. This costs nothing."""
    return [asyncio.run(_model(settings, servers)), _embedded(settings)]


async def _model(settings: Settings, servers: Sequence[ModelServer]) -> Finding:
    from segue.agent.models import offers  # noqa: PLC0415 - needs httpx2

    try:
        choice = await choose(settings, servers=servers)
    except ModelError as error:
        return Finding("model", str(error), Verdict.PROBLEM)
    told = f"{choice.name}. {choice.why}"
    try:
        await offers.look(choice, settings, servers=servers, seconds=_REACH_SECONDS)
    except (BadKey, UnknownModel, ModelOffline) as error:
        return Finding("model", f"{told} {error}", Verdict.PROBLEM)
    except ModelError as error:
        told = f"{told} It could not be checked: {error}"
        return Finding("model", told, Verdict.WARNING)
    here = choice.name in {LOCAL, SCRIPTED}
    return Finding("model", told if here else f"{told} It is reachable.")


def _embedded(settings: Settings) -> Finding:
    found = embedded(settings)
    version = _version(runtime.PACKAGE) or "(unknown version)"
    runs = f"{runtime.PACKAGE} {version}" if runtime.present() else ""
    where = f" {runs}, weights in {settings.models_folder}." if found.name else ""
    return Finding("embedded", f"{found.why}{where}")


def _version(package: str) -> str | None:
    """Return the version, or None if the package is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def terminal() -> list[Finding]:
    """Check what the screen can show, as the chat would find it."""
    from rich.console import Console  # noqa: PLC0415

    console = Console()
    if not console.is_terminal:
        return [Finding("terminal", "Not a terminal: printing plain text.")]
    system = None if console.no_color else console.color_system
    colours = _COLOURS.get(system, "colours") if system else "no colours"
    told = f"{console.width} columns, {colours}, {console.encoding.upper()}."
    doubts: list[str] = []
    if codecs.lookup(console.encoding).name != "utf-8":
        doubts.append("Many characters cannot be shown: type `export LC_ALL=C.UTF-8`.")
    if console.is_dumb_terminal:
        doubts.append("TERM names a terminal without styles or colours: printing plain text.")
    if console.width < _NARROW:
        doubts.append("Make the window wider.")
    verdict = Verdict.WARNING if doubts else Verdict.OK
    return [Finding("terminal", " ".join((told, *doubts)), verdict)]
