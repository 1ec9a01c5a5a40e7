"""A verification that waits for the owner, in the private folder of the device: the gateway writes
the emoji there, and `segue verify` confirms them."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec.structs import replace

from segue.platforms.errors import parsed
from segue.platforms.folder import PrivateFolder

FILE = "verification"


class PendingVerification(msgspec.Struct, frozen=True):
    """Emoji that the owner has to compare."""

    transaction: str
    user_id: str
    device_id: str
    emoji: tuple[tuple[str, str], ...]
    confirmed: bool = False
    """The owner says that they are the same."""
    verified: bool = False
    """Both sides say so."""


def read_pending(folder: PrivateFolder) -> PendingVerification | None:
    return parsed(folder.read(FILE), PendingVerification)


def write_pending(folder: PrivateFolder, shown: PendingVerification) -> None:
    folder.write(FILE, msgspec.json.encode(shown).decode())


def find_pending(root: Path) -> tuple[PrivateFolder, PendingVerification] | None:
    """The verification that waits for the owner, and the folder of its device."""
    for path in root.glob(f"*/*/{FILE}"):
        shown = read_pending(folder := PrivateFolder(path.parent))
        if shown is not None and not shown.verified:
            return folder, shown
    return None


def confirm(folder: PrivateFolder, shown: PendingVerification) -> None:
    """Say that the emoji are the same."""
    write_pending(folder, replace(shown, confirmed=True))
