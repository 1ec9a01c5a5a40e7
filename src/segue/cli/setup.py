"""`segue setup`: sets up a platform, up to the first message there."""

from __future__ import annotations

import sys

import click

from segue.platforms.registry import BUILT_IN

_STDIN = "-"


@click.command()
@click.argument("platform", type=click.Choice([platform.value for platform in BUILT_IN]))
@click.option("--token", help="What the platform knows your bot by; - reads it from stdin.")
@click.option("--url", help="A server of the platform's that is your own.")
@click.option("--owner", metavar="USER", help="Your user id there, rather than a pairing.")
@click.option("--home", metavar="CHAT", help="The id of the chat where handoffs arrive.")
@click.option("--yes", is_flag=True, help="Do not ask before a running gateway is restarted.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the pairing code is used.")
@click.pass_context
def setup(
    ctx: click.Context,
    *,
    platform: str,
    token: str | None,
    url: str | None,
    owner: str | None,
    home: str | None,
    yes: bool,
    no_wait: bool,
) -> None:
    """Set a platform up: its token is tried, you are paired with the bot, and a first message
    arrives in a fresh thread.

    What a flag answers is not asked. It can be run again at any time; the exit code is 1 when
    something is left to do.
    """
    import asyncio  # noqa: PLC0415 - `segue --help` does without

    from segue.cli.setting_up import Wish, set_up  # noqa: PLC0415
    from segue.core.address import Platform  # noqa: PLC0415

    from_stdin = token == _STDIN
    wish = Wish(
        platform=Platform(platform),
        token=sys.stdin.readline().strip() if from_stdin else token,
        url=url,
        owner=owner,
        home=home,
        yes=yes,
        waits=not no_wait,
        asks=sys.stdin.isatty() and sys.stdout.isatty(),
    )
    ctx.exit(0 if asyncio.run(set_up(wish)) else 1)
