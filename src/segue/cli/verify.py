"""`segue verify`: shows the emoji of a verification that you began in a Matrix client."""

from __future__ import annotations

import time

import click
from msgspec.structs import replace

from segue import config
from segue.cli.common import YES, confirm
from segue.core.address import Platform
from segue.platforms.matrix import folder
from segue.platforms.matrix.folder import PrivateFolder
from segue.terminal.output import say

_WAITS = 60.0
_LOOK = 0.2
_NOTHING = (
    "No verification has been started. In your Matrix client, open the bot's profile and choose"
    " Verify user. The gateway must be running."
)


@click.command()
@YES
def verify(*, yes: bool) -> None:
    """Verify the bot on Matrix by comparing emoji.

    Start the verification in your client first. If the emoji are the same here and there, no one is
    listening in between, and the bot trusts that device and all others that your identity signs.
    """
    found = folder.find_pending(config.platform_folder(Platform.MATRIX))
    if found is None:
        raise click.ClickException(_NOTHING)
    device, shown = found
    say(f"Your device {shown.device_id} ({shown.user_id}) and the bot must show the same emoji:")
    say("   ".join(f"{sign} {name}" for sign, name in shown.emoji))
    confirm("Are they the same?", "say that they are the same", yes=yes)
    device.save(folder.FILE, replace(shown, confirmed=True))
    if not _is_done(device, shown):
        raise click.ClickException(
            "Not verified. Confirm the emoji in your client too, or start again there."
        )
    say("Verified.")


def _is_done(device: PrivateFolder, shown: folder.PendingVerification) -> bool:
    """Wait until the gateway has finished the verification. Return whether it succeeded."""
    deadline = time.monotonic() + _WAITS
    while time.monotonic() < deadline:
        now = device.load(folder.PendingVerification, folder.FILE)
        if now is None or now.transaction != shown.transaction or now.verified:
            return now is not None and now.verified
        time.sleep(_LOOK)
    return False
