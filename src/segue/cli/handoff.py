"""`segue handoff`: moves a session without a prompt, for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from segue.cli import completing
from segue.cli.store_access import with_store

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _platforms(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for Tab

    from segue.core.handoff import TARGETS  # noqa: PLC0415

    return [CompletionItem(target) for target in TARGETS if target.startswith(incomplete)]


@click.command()
@click.argument("session", shell_complete=completing.sessions)
@click.argument("place", metavar="PLATFORM[:CHAT_ID]", shell_complete=_platforms)
@click.option("--message", metavar="TEXT", help="What you want said there first.")
@click.option("--json", "as_json", is_flag=True, help="Print each step, one object a line.")
@click.pass_context
def handoff(
    ctx: click.Context, *, session: str, place: str, message: str | None, as_json: bool
) -> None:
    """Move SESSION to a platform: to your home channel, or to another chat of yours there.

    The steps are told on standard error, and Ctrl-C calls it off. The exit code is 0 when the
    session has moved, 1 when that was refused or has failed, 2 when it was asked for in a wrong
    way, and 130 when it was called off.
    """
    from segue.cli.handing_off import Json, Wish, Words, hand_off  # noqa: PLC0415

    platform, colon, chat_id = place.partition(":")
    if not platform or (colon and not chat_id):
        raise click.UsageError("Say where to: PLATFORM, or PLATFORM:CHAT_ID.")
    wish = Wish(session=session, platform=platform, chat_id=chat_id or None, message=message)
    shown = Json() if as_json else Words()
    ctx.exit(with_store(lambda store: hand_off(store, wish, shown)))
