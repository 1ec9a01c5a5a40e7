"""`segue doctor`: checks the installation, and says what is wrong and what to type.

All checks run at once. Each returns findings that say what it found and what to type. A check
imports a package that may be missing only when it runs, so that the others still work.
"""

from __future__ import annotations

import asyncio
import codecs
import importlib.metadata
import os
import platform
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path

import click

import segue
import segue.store
from segue.agent.models.catalog import LOCAL, SCRIPTED, ModelServer
from segue.agent.models.choice import choose, embedded
from segue.agent.models.local import runtime
from segue.cli.common import JSON, size
from segue.cli.gateway import pause_text, platforms_down
from segue.cli.model import Around
from segue.config import Settings
from segue.core.address import Platform
from segue.core.errors import (
    BadKey,
    ModelError,
    ModelOffline,
    PlatformError,
    SettingsError,
    StoreError,
    UnknownModel,
)
from segue.core.secret import redacted
from segue.core.session import ME
from segue.core.text import count, one_line
from segue.platforms import registry
from segue.platforms.base import Finding as Examined
from segue.store import Store, database, gateways, outbox, owners, sessions
from segue.store.outbox import PlatformPause
from segue.terminal.output import folded, print_json, screen

_SECONDS = 20.0
"""How long to wait for a check. A busy machine takes seconds to load the library of a platform."""
_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}
_ROOM = len("problem  packages  ")


@click.command()
@JSON
@click.make_pass_decorator(Around, ensure=True)
@click.pass_context
def doctor(ctx: click.Context, around: Around, *, as_json: bool) -> None:
    """Check the installation and say how to fix what is wrong.

    The checks cost nothing. The exit code is 1 if there is a problem.
    """
    examination = Examination(around)
    findings = examination.findings(_SECONDS)
    if as_json:
        print_json({"findings": findings})
    else:
        _print(findings)
    failed = any(finding.verdict == "problem" for finding in findings)
    if examination.is_stuck:
        # Threads of unfinished checks may wait forever, and a normal exit would wait for them.
        sys.stdout.flush()
        os._exit(int(failed))
    ctx.exit(int(failed))


class Examination:
    """Runs all checks at once, each in its own thread, so that no check can block another."""

    def __init__(self, around: Around) -> None:
        self._around = around
        self._checks: list[Check] = []

    @property
    def is_stuck(self) -> bool:
        return any(check.thread.is_alive() for check in self._checks)

    def findings(self, seconds: float) -> list[Finding]:
        """Run the checks, and return what they find within `seconds`, in a fixed order."""
        deadline = time.monotonic() + seconds
        self._start("program", program)
        if settings := self._settings():
            self._start("settings", partial(settings_file, settings))
            self._start("store", partial(store, settings))
            self._start("model", partial(model, settings, self._around.servers))
            for platform in bots(settings):
                self._start(platform, partial(bot, settings, platform))
        self._start("terminal", terminal)
        return [finding for check in self._checks for finding in check.found(deadline)]

    def _settings(self) -> Settings | None:
        """Return the settings. If they are invalid, add that as a finding and return None."""
        try:
            return self._around.settings()
        except (SettingsError, OSError) as error:
            told = f"{error} Type `segue config edit`. Store and model were not checked."
            broken = Finding("settings", told, Verdict.PROBLEM)
            self._start("settings", lambda: [broken])
            return None

    def _start(self, about: str, check: Callable[[], list[Finding]]) -> None:
        self._checks.append(Check(about, check))


class Check:
    """A running check."""

    def __init__(self, about: str, check: Callable[[], list[Finding]]) -> None:
        self._about = about
        self._check = check
        self._found: list[Finding] = []
        self.thread = threading.Thread(target=self._run, name=f"check {about}", daemon=True)
        self.thread.start()

    def found(self, deadline: float) -> list[Finding]:
        self.thread.join(max(deadline - time.monotonic(), 0))
        if self.thread.is_alive():
            return [self._problem("No answer in time. Something is stuck, or the machine is busy.")]
        return self._found

    def _run(self) -> None:
        try:
            self._found = self._check()
        except Exception as error:  # noqa: BLE001 - an unexpected error is a finding, too
            self._found = [self._problem(f"The check failed: {type(error).__name__}: {error}")]

    def _problem(self, told: str) -> Finding:
        return Finding(self._about, told, Verdict.PROBLEM)


def _print(findings: Sequence[Finding]) -> None:
    # Not with --json, which also works if Rich is missing. It honours NO_COLOR and dumb terminals.
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console()
    width = screen()
    for finding in findings:
        head = f"{finding.verdict:<7}  {finding.about:<8}  "
        line = Text(folded(one_line(redacted(finding.told)), width, " " * _ROOM, head))
        line.stylize(_STYLES[finding.verdict], 0, len(finding.verdict))
        console.print(line, soft_wrap=True)


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
    found = await database.health(store)
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
    away = [health for gateway in alive for health in platforms_down(gateway)]
    if not away:
        return Finding("gateway", told)
    why = (one_line(f"{it.platform} is not connected: {it.detail}.") for it in away)
    return Finding("gateway", " ".join((told, *why)), Verdict.PROBLEM)


def _paused(pause: PlatformPause) -> Finding:
    told = pause_text(pause, datetime.now(UTC))
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
    runs = f"{runtime.PACKAGE} {version}" if runtime.has_package() else ""
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
