"""How much of a long copy is done, in bytes or in pages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import IO

Progress = Callable[[int, int], None]
"""Called with what is done, and with the whole."""
_CHUNK = 1 << 20


def ignore_progress(done: int, whole: int) -> None:
    """Show no progress."""


class CopyMeter:
    """Adds up what is done and reports the sum."""

    def __init__(self, whole: int, progress: Progress) -> None:
        self._whole = whole
        self._progress = progress
        self._done = 0

    def add(self, count: int) -> None:
        self._done += count
        self._progress(self._done, self._whole)


class MeteredFile:
    """A file to read from. The meter counts what is read."""

    def __init__(self, file: IO[bytes], meter: CopyMeter) -> None:
        self._file = file
        self._meter = meter

    def read(self, size: int = -1, /) -> bytes:
        chunk = self._file.read(size)
        self._meter.add(len(chunk))
        return chunk

    def chunks(self) -> Iterator[bytes]:
        """The rest of the file, in parts."""
        while chunk := self.read(_CHUNK):
            yield chunk


class DigestedFile:
    """A file to read from, whose contents are digested on the way."""

    def __init__(self, file: MeteredFile) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        chunk = self._file.read(size)
        self._sha256.update(chunk)
        return chunk

    def digest(self) -> str:
        """Return the SHA-256 of what was read."""
        return self._sha256.hexdigest()
