"""`segue demo`: hands a conversation to the web page and back, and shows each step."""

from __future__ import annotations

import click


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print only one JSON object.")
@click.option(
    "--yes",
    is_flag=True,
    help="Ask nothing: download the embedded model, or else use scripted answers.",
)
@click.option("--scripted", is_flag=True, help="Use scripted answers instead of a model.")
@click.pass_context
def demo(ctx: click.Context, *, as_json: bool, yes: bool, scripted: bool) -> None:
    """Watch a conversation move from the terminal to the web page and back.

    The demo runs its own gateway and page in a temporary folder, and removes the folder at the
    end. Your sessions and settings are not touched. It uses your model, or the embedded one.

    The exit code is 0 if every step worked and the reply on the page used what was said in the
    terminal, 1 if not, and 130 after Ctrl-C.
    """
    from segue.cli.demo.play import run  # noqa: PLC0415 - its gateway process does without

    ctx.exit(run(as_json=as_json, yes=yes, scripted=scripted))
