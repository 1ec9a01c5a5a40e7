"""`segue model`: shows which model is used and why, lists others, and chooses one."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from segue import config
from segue.agent.models.base import End, Model, Prompt, Text
from segue.agent.models.catalog import SERVERS, ModelServer
from segue.agent.models.choice import Survey, choose, connect, survey, ways
from segue.cli import common, completion, first_model
from segue.cli.common import JSON
from segue.cli.first_model import confirm_server
from segue.config import Settings
from segue.core import provenance
from segue.core.errors import ForeignServer, ModelError
from segue.core.text import one_line
from segue.core.transcript import spoken
from segue.terminal.output import folded, print_lines, print_result, screen

if TYPE_CHECKING:
    from segue.agent.models.offers import Offer

_QUESTION = "Say hello in one short sentence."
# Enough for a model that reasons before it answers.
_MAX_TOKENS = 1024
_SHOWN = 500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The environment and model servers for the commands. Tests pass their own as click's `obj`."""

    environ: Mapping[str, str] | None = None
    servers: Sequence[ModelServer] = SERVERS

    def settings(self) -> Settings:
        return config.load(self.environ)


_around = click.make_pass_decorator(Around, ensure=True)


@click.group(invoke_without_command=True)
@JSON
@_around
@click.pass_context
def model(ctx: click.Context, around: Around, *, as_json: bool) -> None:
    """Show or choose the model.

    Without a command, show which model is used, and why.
    """
    if ctx.invoked_subcommand is not None:
        return
    settings = around.settings()
    found = asyncio.run(survey(settings, servers=around.servers))
    value = {**dataclasses.asdict(found), "warnings": settings.warnings}
    lines = _surveyed(found, around.servers, settings.warnings)
    print_result(value, lines, as_json=as_json)


@model.command("list")
@click.argument("provider", required=False, shell_complete=completion.providers)
@JSON
@_around
def list_(around: Around, *, provider: str | None, as_json: bool) -> None:
    """List the available models, of all providers or of one PROVIDER."""
    from segue.agent.models.offers import available  # noqa: PLC0415 - needs httpx2

    offers = asyncio.run(available(around.settings(), provider, servers=around.servers))
    print_result({"offers": offers}, _offered(offers), as_json=as_json)


@model.command()
@click.argument("name", shell_complete=completion.models)
@_around
def use(around: Around, *, name: str) -> None:
    """Use the model NAME from now on."""
    from segue.agent.models.offers import check  # noqa: PLC0415 - needs httpx2

    settings = around.settings()
    servers = around.servers
    environ = around.environ

    async def checked() -> tuple[str, str]:
        choice = await choose(settings, name, servers=servers)
        return choice.name, await check(choice, settings, servers=servers)

    try:
        chosen, doubt = asyncio.run(checked())
    except ForeignServer:
        if not sys.stdin.isatty() or not confirm_server(name, settings, environ, servers=servers):
            raise
        settings = around.settings()
        chosen, doubt = asyncio.run(checked())
    path = config.set_model(chosen, environ)
    lines = [f"The model is now {chosen} (saved in {path})."]
    if effect := common.effect_on_gateway(["model"]):
        lines.append(folded(effect, screen()))
    if doubt:
        lines.append(f"It could not be checked: {one_line(doubt)}")
    if settings.model_from == "SEGUE_MODEL" and settings.model != chosen:
        lines.append(f"The environment variable SEGUE_MODEL={settings.model} overrides it.")
    print_lines(lines)


@model.command()
@click.option("--yes", is_flag=True, help="Do not ask before downloading.")
@_around
def pull(around: Around, *, yes: bool) -> None:
    """Download the embedded model: a small one that needs no key and no account."""
    first_model.pull(around.settings().models_folder, ask=not yes)


@model.command()
@click.argument("name", required=False, shell_complete=completion.models)
@_around
def test(around: Around, *, name: str | None) -> None:
    """Ask a model for one sentence, and show how long it took. This may cost a little."""
    print_lines(asyncio.run(_try(around.settings(), name, around.servers)).lines())


def _surveyed(found: Survey, servers: Sequence[ModelServer], warnings: Sequence[str]) -> list[str]:
    options = "The options, in the order of preference if no model is chosen:"
    lines = [*_chosen(found, servers), "", options]
    width = max(len(thing.title) for thing in found.considered)
    for thing in found.considered:
        name = f"{thing.name}: " if thing.name else ""
        mark = "+" if thing.name else "-"
        lines.append(f"  {mark} {thing.title:<{width}}  {one_line(name + thing.why)}")
    lines += [
        "",
        "Type `segue model list` to see all models, `segue model use NAME` to choose one, and",
        "`segue model test` to try it.",
    ]
    return lines + [f"Warning: {one_line(warning)}" for warning in warnings]


def _chosen(found: Survey, servers: Sequence[ModelServer]) -> list[str]:
    if found.choice:
        return [one_line(found.choice.name), f"  {one_line(found.choice.why)}"]
    if found.problem:
        return [one_line(found.problem)]
    return ["No model is available yet. To get one:", *(f"  {way}" for way in ways(servers))]


def _offered(offers: Sequence[Offer]) -> list[str]:
    lines: list[str] = []
    for offer in offers:
        lines += ["", offer.title] if lines else [offer.title]
        lines += [f"  {one_line(name)}" for name in offer.models]
        if not offer.models:
            lines.append(f"  ({one_line(offer.problem) or 'no chat models'})")
    return lines


# The test turn


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The result of a test turn."""

    name: str
    answer: str
    first: float
    """Seconds until the first word."""
    whole: float
    """Seconds until the last word."""
    tokens: int
    """Tokens of the answer, including reasoning; 0 if the model does not report them."""

    def lines(self) -> list[str]:
        lines = [
            one_line(self.name),
            f"  {one_line(self.answer, _SHOWN)}",
            f"  first word after {self.first:.2f} s, complete after {self.whole:.2f} s",
        ]
        writing = self.whole - self.first
        if self.tokens > 1 and writing > 0:
            rate = (self.tokens - 1) / writing
            lines.append(f"  {self.tokens} tokens, {rate:,.0f} per second after the first")
        return lines


async def _try(settings: Settings, wanted: str | None, servers: Sequence[ModelServer]) -> Trial:
    """Ask the model `wanted`, or the default one. Raises a ModelError if it does not answer."""
    choice = await choose(settings, wanted, servers=servers)
    model = connect(choice, settings, servers=servers)
    try:
        return await _ask(model)
    finally:
        await model.close()


async def _ask(model: Model) -> Trial:
    asked = spoken(_QUESTION, datetime.now(UTC), provenance.PROGRAM)
    prompt = Prompt(system="", messages=(asked,), max_tokens=_MAX_TOKENS)
    began = time.monotonic()
    first = 0.0
    answer = ""
    tokens = 0
    async with contextlib.aclosing(model.stream(prompt)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Text):
                first = first or time.monotonic() - began
                answer += piece.text
            elif isinstance(piece, End):
                tokens = piece.usage.output
    if not one_line(answer):
        raise ModelError(provider=model.name, reason="the answer is empty")
    whole = time.monotonic() - began
    return Trial(name=model.name, answer=answer, first=first, whole=whole, tokens=tokens)
