"""The gateway's log file: written by the running gateway, read by `segue gateway logs`."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Generator
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO

from segue.core.errors import UserError
from segue.core.secret import redacted
from segue.core.text import visible
from segue.system import files

_MAX_BYTES = 5_000_000
_KEPT_FILES = 3
_BLOCK = 64 * 1024
_POLL_SECONDS = 0.2


# Writing


def write_to(file: Path | None) -> None:
    """Log to `file`, readable only by its owner, or to standard error if `file` is None."""
    if file is None:
        handler = logging.StreamHandler()
    else:
        make(file)
        handler = _Private(file, maxBytes=_MAX_BYTES, backupCount=_KEPT_FILES, encoding="utf-8")
    handler.setFormatter(_Visible("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    # Other libraries log warnings only: their URLs may contain a token.
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    root.addHandler(handler)
    logging.getLogger("segue").setLevel(logging.INFO)
    logging.captureWarnings(True)


def make(file: Path) -> None:
    """Create the log file if needed. Raise UserError if that is impossible."""
    try:
        files.make_folder(file.parent)
        os.close(files.opener(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    except OSError as error:
        way_out = "set SEGUE_GATEWAY_LOG to another file"
        reason = f"{file} cannot be written ({error.strerror}): {way_out}"
        raise not_started(reason) from error


def not_started(reason: str) -> UserError:
    return UserError(f"The gateway did not start: {reason}. Type `segue gateway logs` to see more.")


class _Private(RotatingFileHandler):
    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", opener=files.opener)


class _Visible(logging.Formatter):
    """Strips escape sequences and hidden characters, and redacts our keys."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(redacted(super().format(record)))


# Reading


def lines(path: Path, number: int, *, follow: bool = False) -> Generator[str]:
    """Yield the last `number` lines. With `follow`, also yield new lines as they come, across log
    rotation. Raise UserError if there is no log."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise UserError(
            f"There is no log at {path} yet. Type `segue gateway start` to start a gateway, which"
            " creates it."
        ) from None
    try:
        rest = yield from _whole(_last(file, number))
        while follow:
            if block := file.read(_BLOCK):
                rest = yield from _whole(rest + block)
            elif (newer := _successor(path, file)) is not None:
                file.close()
                file = newer
            else:
                time.sleep(_POLL_SECONDS)
        if rest:
            yield _decoded(rest)
    finally:
        file.close()


def _whole(data: bytes) -> Generator[str, None, bytes]:
    """Yield each complete line, and return the incomplete rest."""
    *ended, rest = data.split(b"\n")
    yield from map(_decoded, ended)
    return rest


def _decoded(line: bytes) -> str:
    return visible(line.decode("utf-8", "replace"))


def _last(file: IO[bytes], number: int) -> bytes:
    """The last `number` lines of `file`, leaving it positioned at its end."""
    at = end = file.seek(0, os.SEEK_END)
    found = b""
    while at > 0 and found.count(b"\n") <= number:
        size = min(_BLOCK, at)
        at -= size
        file.seek(at)
        found = file.read(size) + found
    file.seek(end)
    return b"".join(found.splitlines(keepends=True)[-number:]) if number else b""


def _successor(path: Path, file: IO[bytes]) -> IO[bytes] | None:
    """The file that replaced `file`, or `file` from its start if it was truncated, or None."""
    now = os.fstat(file.fileno())
    try:
        found = path.stat()
        if (found.st_ino, found.st_dev) == (now.st_ino, now.st_dev) and now.st_size >= file.tell():
            return None
        return path.open("rb")
    except FileNotFoundError:
        return None  # in the middle of a rotation
