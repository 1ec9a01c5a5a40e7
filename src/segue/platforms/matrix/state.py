"""A verification that waits for the owner, in the private folder of the device: the gateway writes
the emoji there, and `segue verify` confirms them."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from segue.platforms.folder import PrivateFolder

FILE = "verification"


class PendingVerification(Struct, frozen=True):
    """Emoji that the owner has to compare."""

    transaction: str
    user_id: str
    device_id: str
    emoji: tuple[tuple[str, str], ...]
    confirmed: bool = False
    """The owner says that they are the same."""
    verified: bool = False
    """Both sides say so."""


def find_pending(root: Path) -> tuple[PrivateFolder, PendingVerification] | None:
    """The verification that waits for the owner, and the folder of its device."""
    for path in root.glob(f"*/*/{FILE}"):
        shown = (folder := PrivateFolder(path.parent)).load(PendingVerification, FILE)
        if shown is not None and not shown.verified:
            return folder, shown
    return None
