"""`segue pair`: links platform users and browsers to the owner."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from segue.chat.output import print_json, print_lines, say, screen
from segue.cli.store_access import with_store
from segue.core.address import Platform
from segue.core.errors import NotPaired
from segue.core.handoff import TARGETS
from segue.core.session import ME
from segue.core.text import one_line

if TYPE_CHECKING:
    from segue.store import Store
    from segue.store.owners import Identity

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(invoke_without_command=True)
@click.option("--no-wait", is_flag=True, help="Do not wait until the code is used.")
@_JSON
@click.pass_context
def pair(ctx: click.Context, *, no_wait: bool, as_json: bool) -> None:
    """Show a link that makes the browser in which it is opened yours, or a code that makes whoever
    sends it to the bot you.

    Each can be used once. At a terminal the program waits until it is; Ctrl-C ends the waiting and
    not the code. Nobody who is not paired is ever answered.
    """
    if ctx.invoked_subcommand is not None:
        if as_json:  # --json before the subcommand means the same as after it
            ctx.default_map = {ctx.invoked_subcommand: {"as_json": True}}
        return
    from segue.cli import pairing  # noqa: PLC0415 - `segue --help` does without

    waits = sys.stdin.isatty() and sys.stdout.isatty() and not no_wait
    if as_json:
        with_store(pairing.told_as_json)
        return
    try:
        used = with_store(lambda store: pairing.show(store, waits=waits))
    except KeyboardInterrupt:  # the message about it is already printed
        return
    ctx.exit(0 if used else 1)


@pair.command("list")
@_JSON
def list_(*, as_json: bool) -> None:
    """List who is paired with you."""
    from segue.cli.pairing import as_json as told  # noqa: PLC0415
    from segue.cli.pairing import listed  # noqa: PLC0415

    found = with_store(lambda store: store.owners.identities(ME))
    if as_json:
        print_json([told(identity) for identity in found])
    else:
        print_lines(listed(found, screen(), datetime.now(UTC)))


@pair.command()
@click.argument("platform", type=click.Choice([target.value for target in TARGETS]))
@click.argument("user_id")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_JSON
def revoke(*, platform: str, user_id: str, yes: bool, as_json: bool) -> None:
    """Answer a platform's user no more.

    When no account of yours is left on that platform, its home channel is removed, too.
    """
    target = Platform(platform)
    identity = with_store(lambda store: _paired(store, target, user_id))
    if not yes:
        _ask(identity)
    forgotten = with_store(lambda store: _unlink(store, target, user_id))
    if as_json:
        print_json({"platform": target, "user_id": user_id, "home_forgotten": forgotten})
        return
    say(f"{_who(identity)} is no longer answered.")
    if forgotten:
        say(f"No account of yours is left on {target}, so its home channel is removed.")


async def _paired(store: Store, platform: Platform, user_id: str) -> Identity:
    for identity in await store.owners.identities(ME):
        if (identity.sender.platform, identity.sender.user_id) == (platform, user_id):
            return identity
    raise NotPaired(platform=platform, user_id=user_id)


async def _unlink(store: Store, platform: Platform, user_id: str) -> bool:
    """Unlink the user, and return whether the home channel was removed, too.

    If no account is left on the platform, its home channel may belong to the revoked user, so it is
    removed. The page's home channel belongs to no user and stays.
    """
    await store.owners.unlink(platform, user_id)
    if platform is Platform.WEB:
        return False
    left = await store.owners.identities(ME)
    if any(identity.sender.platform is platform for identity in left):
        return False
    return await store.owners.clear_home(ME, platform)


def _ask(identity: Identity) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("Nobody is here to be asked: add --yes to revoke it.")
    click.confirm(f"Answer {_who(identity)} no more?", abort=True, err=True)


def _who(identity: Identity) -> str:
    sender = identity.sender
    who = f"{sender.platform} user {sender.user_id}"
    return one_line(f"{sender.name} ({who})" if sender.name else who)
