"""Files that the bot announces, uploads, and then sends with a message."""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence

from segue.testing.peers.snapshot import Upload


class Uploads:
    def __init__(self) -> None:
        self._announced: dict[str, tuple[str, int]] = {}
        self._arrived: dict[str, Upload] = {}

    def announce(self, file: str, name: str, length: int) -> None:
        self._announced[file] = (name, length)

    def arrive(self, file: str, content: bytes) -> bool:
        """Store the content. Return whether it was announced, once, with this length."""
        name, length = self._announced.pop(file, ("", -1))
        if length != len(content):
            return False
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        self._arrived[file] = Upload(name=name, media_type=media_type, content=content)
        return True

    def take(self, files: Sequence[str]) -> dict[str, Upload] | None:
        """Return the files, which can be sent only once, or None if one is not there."""
        if not files or not set(files) <= self._arrived.keys():
            return None
        return {file: self._arrived.pop(file) for file in files}
