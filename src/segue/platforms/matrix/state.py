"""The private folder of a device: its keys, and up to where its updates are recorded.

Several processes may use it at once: a gateway, one that stands by, and `segue setup`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import quote

import msgspec

_LOOK = 0.02
PENDING, CONFIRMED = "verification", "confirmed"
"""The files in which a gateway shows emoji, and in which `segue verify` confirms them."""


class DeviceFolder:
    def __init__(self, folder: Path, user_id: str, device_id: str) -> None:
        self.path = folder / quote(user_id, safe="@") / quote(device_id, safe="")
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for made in (self.path, self.path.parent, folder):
            made.chmod(0o700)

    @property
    def since(self) -> str:
        """The sync token: everything before it is recorded. Empty if there is none."""
        return self.read("since")

    @since.setter
    def since(self, token: str) -> None:
        self.write("since", token)

    def read(self, name: str) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self.path / name).read_text("utf-8")
        return ""

    def write(self, name: str, text: str) -> None:
        """Replace a file, or remove it if `text` is empty."""
        path, new = self.path / name, self.path / f".{name}"
        if not text:
            path.unlink(missing_ok=True)
            return
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "w", encoding="utf-8") as opened:
            opened.write(text)
        new.replace(path)

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        """Keep other processes from the keys."""
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(_LOOK)
            yield
        finally:
            os.close(lock)


# Verification


class PendingVerification(msgspec.Struct, frozen=True):
    """Emoji that the owner has to compare."""

    transaction: str
    user_id: str
    device_id: str
    emoji: tuple[tuple[str, str], ...]


def write_pending(folder: DeviceFolder, shown: PendingVerification) -> None:
    folder.write(PENDING, msgspec.json.encode(shown).decode())


def find_pending(folder: Path) -> tuple[Path, PendingVerification] | None:
    """The verification that waits for the owner, and the folder of its device."""
    for path in folder.glob(f"*/*/{PENDING}"):
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return path.parent, msgspec.json.decode(path.read_bytes(), type=PendingVerification)
    return None


def confirm(device: Path, shown: PendingVerification) -> None:
    (device / CONFIRMED).write_text(shown.transaction, "utf-8")
