"""The first model: a server on this machine, the embedded model, or a key that the user pastes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from segue import config
from segue.agent.models import routes
from segue.agent.models.catalog import PROVIDERS, SERVERS, ModelServer, Provider
from segue.agent.models.choice import Candidate, answering, choose, embedded
from segue.agent.models.local import runtime
from segue.agent.models.local.runtime import QWEN, Weights, has_weights
from segue.cli.common import Declined
from segue.config import Settings
from segue.core.errors import BadKey, ModelError, PullFailed
from segue.core.secret import Secret
from segue.core.text import one_line
from segue.terminal.output import is_interactive, notice, print_lines, say

if TYPE_CHECKING:
    from segue.agent.models.local.pull import PullProgress

_WITH_DEFAULT = [provider for provider in PROVIDERS.values() if provider.default]
_TITLES = ", ".join(provider.title for provider in _WITH_DEFAULT)
_WAYS = (
    "",
    "Segue needs a model to answer you. Type one of these words:",
    f"  key    to paste a key ({_TITLES})",
    "  local  to download the small model, which runs on this machine and needs no key",
    "  leave  to leave; nothing is changed",
)
_STEP = 10
"""Per cent between two lines of progress if the output is not a terminal."""
_WIDTH = 78


def make_ready(settings: Settings) -> Settings | None:
    """Return the settings to chat with, after offering a model if there is none.

    Return None if the user leaves instead.
    """
    if settings.model or settings.keys or embedded(settings).name or not is_interactive():
        return settings  # no need to contact a server
    for found in asyncio.run(answering(settings)):
        if _accepted(found, settings):
            return config.load()
    say("No model is available yet: no key is set, and no server is chosen.")
    say("A small model can run on this machine. It is slow and simple, but needs no key.\n")
    return settings if _pulled(settings, ask=True) else _ask_again(settings)


def _ask_again(settings: Settings) -> Settings | None:
    """Offer the choice in words until there is a model, or return None if the user leaves."""
    while True:
        print_lines(_WAYS)
        word = click.prompt("Which one?", type=click.Choice(["key", "local", "leave"]))
        if word == "leave":
            return None
        if word == "key" and _has_usable_key(settings):
            return config.load()
        if word == "local" and _pulled(settings, ask=False):
            return settings


def _pulled(settings: Settings, *, ask: bool) -> bool:
    """Return whether the embedded model is there now."""
    try:
        pull(settings.models_folder, ask=ask)
    except click.Abort:
        return False
    except PullFailed as error:
        notice(str(error))
        return False
    return True


def _has_usable_key(settings: Settings) -> bool:
    """Ask for a key, check it and save it. Return False if its provider refuses it."""
    key = click.prompt("Key (not shown)", hide_input=True).strip()
    provider = _provider_of(key)
    try:
        doubt = asyncio.run(_checked(settings, provider, key))
    except BadKey:
        notice(f"{provider.title} rejected this key.")
        return False
    except ModelError as error:
        notice(str(error))
        return False
    path = config.change(f"keys.{provider.name}", [key])
    say(f"Saved the key for {provider.title} in {one_line(str(path))}.")
    if doubt:
        notice(f"It could not be checked: {one_line(doubt)}")
    return True


def _provider_of(key: str) -> Provider:
    """Return the provider by the beginning of the key, or ask."""
    fitting = [p for p in _WITH_DEFAULT if p.key_start and key.startswith(p.key_start)]
    if fitting:
        return max(fitting, key=lambda provider: len(provider.key_start))
    names = click.Choice([provider.name for provider in _WITH_DEFAULT])
    return PROVIDERS[click.prompt("Whose key is it?", type=names)]


async def _checked(settings: Settings, provider: Provider, key: str) -> str:
    """Return why the key could not be checked, or an empty string. Raise ModelError if refused."""
    from segue.agent.models.offers import check  # noqa: PLC0415 - needs httpx2

    keys = {provider.name: Secret(key, "the key that you pasted")}
    settings = replace(settings, keys=keys)
    return await check(await choose(settings), settings)


def _accepted(found: Candidate, settings: Settings) -> bool:
    name = found.offer or ""
    say(f"No model is chosen yet. {found.title} on this machine offers {one_line(name)}.")
    if not confirm_server(name, settings):
        return False
    config.set_model(name)
    return True


def confirm_server(
    name: str,
    settings: Settings,
    environ: Mapping[str, str] | None = None,
    *,
    servers: Sequence[ModelServer] = SERVERS,
) -> bool:
    """Ask whether the server of the model `name` may receive conversations.

    If another account runs the server, the question names it, and a yes is kept in the settings.
    """
    server = routes.find(name, settings, servers).service
    if not isinstance(server, ModelServer):
        return True
    accounts = routes.strangers(server, settings)
    runs = f" runs as {' and '.join(accounts)}, not as you. It" if accounts else ""
    hears = "will receive your conversations and can ask to use tools"
    if not click.confirm(f"The server at {server.place}{runs} {hears}. Use it?"):
        return False
    if accounts:
        config.change("server_accounts", [*settings.server_accounts, *accounts], environ)
    return True


def pull(folder: Path, *, ask: bool, weights: Weights = QWEN) -> None:
    """Install the runtime and download the weights, unless they are present.

    With `ask`, the user is asked first, and without a terminal nothing is downloaded. Raises
    PullFailed on failure. A partial download is kept for the next attempt.
    """
    if runtime.has_package() and has_weights(folder, weights):
        say("The embedded model is already installed. Type `segue model test local` to try it.")
        return
    _print_offer(folder, weights)
    if ask and not sys.stdin.isatty():
        raise click.UsageError("No terminal to ask on. Add --yes to download it.")
    if ask and not click.confirm("Download it now?", default=True):
        raise Declined
    asyncio.run(_get(folder, weights, ProgressMeter(watched=sys.stdout.isatty())))
    say("The embedded model is installed. Type `segue model test local` to try it.")


def _print_offer(folder: Path, weights: Weights) -> None:
    sources = " or ".join(source.name for source in weights.sources)
    say(f"{weights.label}, {weights.size / 1e6:.0f} MB, licence {weights.licence}")
    say(f"  from {sources}, checked by its hash")
    say(f"  to   {one_line(str(folder))}")
    if not runtime.has_package():
        say(f"  with the Python package {runtime.PACKAGE}, which runs it, about 34 MB")


async def _get(folder: Path, weights: Weights, meter: ProgressMeter) -> None:
    from segue.agent.models.local.pull import fetch  # noqa: PLC0415 - needs httpx2

    try:
        await runtime.install(meter.said)
        await fetch(folder, meter.moved, weights)
    finally:
        meter.end()


class ProgressMeter:
    """Shows progress: on one line if `watched`, otherwise on a few lines."""

    def __init__(self, *, watched: bool) -> None:
        self._watched = watched
        self._last = ""
        self._step = ("", -1)

    def said(self, line: str) -> None:
        """Show a line of pip's output."""
        self._show(one_line(line, _WIDTH))

    def moved(self, progress: PullProgress) -> None:
        part = 100 * progress.done // progress.total if progress.total else 0
        text = (
            f"{part:3d} %  {progress.done / 1e6:.0f} of {progress.total / 1e6:.0f} MB  "
            f"from {one_line(progress.source)}"
        )
        source, step = self._step
        if self._watched or progress.source != source or part // _STEP > step:
            self._step = (progress.source, part // _STEP)
            self._show(text)

    def end(self) -> None:
        """End the progress line."""
        if self._watched and self._last:
            say()

    def _show(self, text: str) -> None:
        if not text or text == self._last:
            return
        line = f"\r{text:<{len(self._last)}}" if self._watched else text
        click.echo(line, nl=not self._watched)  # noqa: TID251 - \r is for the terminal
        self._last = text
