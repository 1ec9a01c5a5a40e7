"""`segue demo`: hands a conversation to the web page and back, and shows each step."""

from __future__ import annotations

import click


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else.")
@click.option("--yes", is_flag=True, help="If there is no model yet, get the embedded one unasked.")
@click.option("--scripted", is_flag=True, help="Use a scripted stand-in, which is no real model.")
@click.pass_context
def demo(ctx: click.Context, *, as_json: bool, yes: bool, scripted: bool) -> None:
    """Watch a conversation move from the terminal to the web page and back.

    A gateway process, a store and a page of the demo's own are used, in a temporary folder that is
    removed at the end; your own sessions and settings stay untouched. The model is yours, or the
    embedded one.

    The exit code is 0 when everything worked and the reply on the page knew what was said in the
    terminal, 1 when not, and 130 after Ctrl-C.
    """
    from segue.cli.demo.run import run  # noqa: PLC0415 - its gateway process does without

    ctx.exit(run(as_json=as_json, yes=yes, scripted=scripted))
