"""The private folder of a device of the bot, and the verification that waits in it.

Several processes may use it at once: a gateway, one that stands by, `segue setup` and `segue
verify`, which does not load matrix-nio.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from segue.platforms.errors import parsed
from segue.system import files, locks

T = TypeVar("T")


class PrivateFolder:
    def __init__(self, root: Path, *names: str) -> None:
        """The folder with that path in `root`. Only its owner can read `root` from now on."""
        self.path = root.joinpath(*names)
        files.make_folder(self.path)
        files.make_private_folder(root)

    def read(self, name: str) -> str:
        """The text in a file. Empty if there is none."""
        with contextlib.suppress(FileNotFoundError):
            return (self.path / name).read_text("utf-8")
        return ""

    def write(self, name: str, text: str) -> None:
        """Replace a file in one step."""
        files.replace(self.path / name, text.encode(), durable=False)

    def written(self, name: str) -> datetime:
        """When the file was written, or now if there is none."""
        with contextlib.suppress(FileNotFoundError):
            return datetime.fromtimestamp((self.path / name).stat().st_mtime, UTC)
        return datetime.now(UTC)

    def load(self, kind: type[T], name: str) -> T | None:
        """The JSON document in a file, or None if there is none."""
        return parsed(self.read(name), kind)

    def save(self, name: str, value: object) -> None:
        """Write a value as JSON."""
        self.write(name, msgspec.json.encode(value).decode())

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        """Lock the folder against other processes and other tasks."""
        async with locks.locked(self.path / "lock"):
            yield


# A verification that waits for the owner: the gateway writes the emoji into the folder, and
# `segue verify` confirms them.

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
        folder = PrivateFolder(path.parent)
        shown = folder.load(PendingVerification, FILE)
        if shown is not None and not shown.verified:
            return folder, shown
    return None
