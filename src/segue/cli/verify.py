"""`segue verify`: shows the emoji of a verification that you began in a Matrix client."""

from __future__ import annotations

import time
from pathlib import Path

import click

from segue import config
from segue.chat.output import say
from segue.cli.options import YES, confirm
from segue.core.address import Platform
from segue.platforms.matrix.state import (
    PendingVerification,
    find_pending,
)
from segue.platforms.matrix.state import (
    confirm as confirm_pending,
)

_WAITS, _LOOK = 60.0, 0.2
_NOTHING = (
    "No verification has been started. In your Matrix client, open the bot's profile, choose its"
    " session and verify it by emoji. The gateway must be running."
)


@click.command()
@YES
def verify(*, yes: bool) -> None:
    """Verify the bot on Matrix by comparing emoji.

    Start the verification in your client first. If the emoji are the same here and there, no one is
    listening in between, and the bot trusts that device from then on.
    """
    folder = config.platform_folder(Platform.MATRIX)
    found = find_pending(folder)
    if found is None:
        raise click.ClickException(_NOTHING)
    device, shown = found
    say(f"Your device {shown.device_id} ({shown.user_id}) and the bot must show the same emoji:")
    say("   ".join(f"{sign} {name}" for sign, name in shown.emoji))
    confirm("Are they the same?", "say that they are the same", yes=yes)
    confirm_pending(device, shown)
    if not _is_done(folder, shown):
        raise click.ClickException("The gateway did not finish it. Confirm it in your client, too.")
    say("Verified.")


def _is_done(folder: Path, shown: PendingVerification) -> bool:
    """Wait until the gateway has finished the verification."""
    deadline = time.monotonic() + _WAITS
    while time.monotonic() < deadline:
        found = find_pending(folder)
        if found is None or found[1] != shown:
            return True
        time.sleep(_LOOK)
    return False
