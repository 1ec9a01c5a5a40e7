"""A private folder for what an adapter has to keep. Several processes may use it at once: a
gateway, one that stands by, and `segue setup`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

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
        """Keep other processes, and other tasks, from the folder."""
        async with locks.locked(self.path / "lock"):
            yield
