"""The command line. What a command needs is imported when it runs, so that each starts quickly."""

from __future__ import annotations

from importlib import import_module

import click

import segue
from segue.core.errors import UserError
from segue.core.text import one_line

_ELSEWHERE = {
    "completion": "segue.terminal.completion",
    "config": "segue.terminal.config",
    "doctor": "segue.terminal.doctor",
    "memory": "segue.terminal.memory",
    "model": "segue.terminal.model",
    "sessions": "segue.terminal.sessions",
}
"""Commands that have a module of their own, in which they go by the same name."""


class Program(click.Group):
    """Shows what a person can mend as one sentence, and nothing else of it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _ELSEWHERE:
            return getattr(import_module(_ELSEWHERE[cmd_name]), cmd_name)
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except UserError as error:
            # It may quote a server.
            raise click.ClickException(one_line(str(error))) from error


@click.group(cls=Program, invoke_without_command=True)
@click.version_option(segue.__version__, prog_name="segue")
@click.pass_context
def main(ctx: click.Context) -> None:
    """A personal AI agent whose live conversations move with you.

    Today there is only the foundation: the store that will carry the conversations. Without a
    command, the state of the store is shown.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(status)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(*, as_json: bool) -> None:
    """Show the store: where it is, and what it holds."""
    import asyncio  # noqa: PLC0415 - `segue --version` does without

    import msgspec  # noqa: PLC0415

    from segue import config  # noqa: PLC0415
    from segue.terminal.status import look  # noqa: PLC0415

    seen = asyncio.run(look(config.load()))
    click.echo(msgspec.json.encode(seen).decode() if as_json else seen.text())
