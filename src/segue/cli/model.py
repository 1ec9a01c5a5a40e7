"""`segue model`: shows which model is used and why, lists others, and chooses one."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from segue.chat.output import print_json, print_lines
from segue.cli import completing
from segue.core.text import one_line

if TYPE_CHECKING:
    from segue.agent.models.catalog import Server
    from segue.agent.models.choice import Survey
    from segue.agent.models.offers import Offer
    from segue.config import Settings

T = TypeVar("T")

_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The environment and model servers for the commands. Tests pass their own as click's `obj`."""

    environ: Mapping[str, str] | None = None
    servers: Sequence[Server] | None = None

    def settings(self) -> Settings:
        from segue import config  # noqa: PLC0415 - `segue --help` does without

        return config.load(self.environ)

    def local_servers(self) -> Sequence[Server]:
        from segue.agent.models.catalog import SERVERS  # noqa: PLC0415

        return SERVERS if self.servers is None else self.servers


_around = click.make_pass_decorator(Around, ensure=True)


@click.group(invoke_without_command=True)
@_JSON
@_around
@click.pass_context
def model(ctx: click.Context, around: Around, *, as_json: bool) -> None:
    """Show which model is used, and why; or choose another."""
    if ctx.invoked_subcommand is not None:
        return
    from segue.agent.models.choice import survey  # noqa: PLC0415

    settings = around.settings()
    found = _run(survey(settings, servers=around.local_servers()))
    if as_json:
        print_json({**dataclasses.asdict(found), "warnings": settings.warnings})
    else:
        print_lines(_surveyed(found, around.local_servers(), settings.warnings))


@model.command("list")
@click.argument("provider", required=False, shell_complete=completing.providers)
@_JSON
@_around
def list_(around: Around, *, provider: str | None, as_json: bool) -> None:
    """List the models there are to choose from, of all or of one PROVIDER."""
    from segue.agent.models.offers import available  # noqa: PLC0415

    offers = _run(available(around.settings(), provider, servers=around.local_servers()))
    if as_json:
        print_json({"offers": [dataclasses.asdict(offer) for offer in offers]})
    else:
        print_lines(_offered(offers))


@model.command()
@click.argument("name", shell_complete=completing.models)
@_around
def use(around: Around, *, name: str) -> None:
    """Use the model NAME from now on."""
    from segue import config  # noqa: PLC0415
    from segue.agent.models.choice import choose  # noqa: PLC0415
    from segue.agent.models.offers import check  # noqa: PLC0415
    from segue.cli.servers import confirm  # noqa: PLC0415
    from segue.core.errors import ForeignServer  # noqa: PLC0415

    settings, servers = around.settings(), around.local_servers()

    async def checked() -> tuple[str, str]:
        choice = await choose(settings, name, servers=servers)
        return choice.name, await check(choice, settings, servers=servers)

    try:
        chosen, doubt = _run(checked())
    except ForeignServer:
        asks = sys.stdin.isatty() and confirm(name, settings, around.environ, servers=servers)
        if not asks:
            raise
        settings = around.settings()
        chosen, doubt = _run(checked())
    path = config.set_model(chosen, around.environ)
    lines = [f"{chosen} is used from now on; {path} says so."]
    if doubt:
        lines.append(f"Whether it is there could not be checked: {one_line(doubt)}")
    if settings.model_from == "SEGUE_MODEL" and settings.model != chosen:
        lines.append(f"But SEGUE_MODEL is {settings.model}, and wins as long as it is set.")
    print_lines(lines)


@model.command()
@click.option("--yes", is_flag=True, help="Do not ask before downloading.")
@_around
def pull(around: Around, *, yes: bool) -> None:
    """Get the embedded model: a small one that needs no key and no account."""
    from segue.cli.pull import pull as fetch  # noqa: PLC0415

    fetch(around.settings().models_folder, ask=not yes)


@model.command()
@click.argument("name", required=False, shell_complete=completing.models)
@_around
def test(around: Around, *, name: str | None) -> None:
    """Ask a model for one sentence, and tell how long it took. This may cost a little."""
    from segue.cli.trial import run  # noqa: PLC0415

    trial = _run(run(around.settings(), name, around.local_servers()))
    print_lines(trial.lines())


def _surveyed(found: Survey, servers: Sequence[Server], warnings: Sequence[str]) -> list[str]:
    lines = [
        *_chosen(found, servers),
        "",
        "What there is, in the order of preference when no model is named:",
    ]
    width = max(len(thing.title) for thing in found.considered)
    for thing in found.considered:
        name = f"{thing.name}: " if thing.name else ""
        mark = "+" if thing.name else "-"
        lines.append(f"  {mark} {thing.title:<{width}}  {one_line(name + thing.why)}")
    lines += [
        "",
        "Type `segue model list` to see every model, `segue model use NAME` to choose one,",
        "and `segue model test` to try it.",
    ]
    return lines + [f"Warning: {one_line(warning)}" for warning in warnings]


def _chosen(found: Survey, servers: Sequence[Server]) -> list[str]:
    from segue.agent.models.choice import ways  # noqa: PLC0415

    if found.choice:
        return [one_line(found.choice.name), f"  {one_line(found.choice.why)}"]
    if found.problem:
        return [one_line(found.problem)]
    nothing = "There is no model to talk to yet. Any one of these is enough:"
    return [nothing, *(f"  {way}" for way in ways(servers))]


def _offered(offers: Sequence[Offer]) -> list[str]:
    lines: list[str] = []
    for offer in offers:
        lines += ["", offer.title] if lines else [offer.title]
        lines += [f"  {one_line(name)}" for name in offer.models]
        if not offer.models:
            lines.append(f"  ({one_line(offer.problem) or 'It has no model for a conversation.'})")
    return lines


def _run(work: Coroutine[Any, Any, T]) -> T:
    import asyncio  # noqa: PLC0415

    return asyncio.run(work)
