"""What a gateway tells of itself: written by the one that runs, read by `segue gateway logs`."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Generator
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO

from segue.core.errors import GatewayFailed, NoGatewayLog
from segue.core.redaction import redacted
from segue.core.text import visible

_BIGGEST = 5_000_000
_KEPT = 3
"""How many earlier files stay beside the newest."""
_BLOCK = 64 * 1024
_LOOK = 0.2
"""Seconds between two looks at a log that is followed."""


# Writing


def write_to(file: Path | None) -> None:
    """From now on what the program does is told in `file`, for its person alone, or else on
    standard error."""
    if file is None:
        handler = logging.StreamHandler()
    else:
        make(file)
        handler = _Private(file, maxBytes=_BIGGEST, backupCount=_KEPT, encoding="utf-8")
    handler.setFormatter(_Visible("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    # Others are heard only when something is wrong: they may tell addresses that hold a token.
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    root.addHandler(handler)
    logging.getLogger("segue").setLevel(logging.INFO)
    logging.captureWarnings(True)


def make(file: Path) -> None:
    """Let there be a log; GatewayFailed when there cannot be one."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(_private(str(file), os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    except OSError as error:
        way_out = "set SEGUE_GATEWAY_LOG to another file"
        reason = f"{file} cannot be written ({error.strerror}): {way_out}"
        raise GatewayFailed(reason=reason) from error


class _Private(RotatingFileHandler):
    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", opener=_private)


def _private(path: str, flags: int) -> int:
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    os.fchmod(fd, 0o600)
    return fd


class _Visible(logging.Formatter):
    """Text from outside without escapes, hidden characters and keys of ours."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(redacted(super().format(record)))


# Reading


def lines(path: Path, number: int, *, follow: bool = False) -> Generator[str]:
    """The last `number` lines, and with `follow` each that comes, also in the file that takes the
    place of a full one. NoGatewayLog when there is none."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise NoGatewayLog(path=path) from None
    try:
        rest = yield from _whole(_last(file, number))
        while follow:
            if block := file.read(_BLOCK):
                rest = yield from _whole(rest + block)
            elif (newer := _successor(path, file)) is not None:
                file.close()
                file = newer
            else:
                time.sleep(_LOOK)
        if rest:
            yield _decoded(rest)
    finally:
        file.close()


def _whole(data: bytes) -> Generator[str, None, bytes]:
    """Each line; what has no end yet is returned."""
    *ended, rest = data.split(b"\n")
    yield from map(_decoded, ended)
    return rest


def _decoded(line: bytes) -> str:
    return visible(line.decode("utf-8", "replace"))


def _last(file: IO[bytes], number: int) -> bytes:
    """The last lines of `file`, which is then at its end."""
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
    """The file that is there instead; the same one, from its beginning, when it was emptied."""
    now = os.fstat(file.fileno())
    try:
        found = path.stat()
        if (found.st_ino, found.st_dev) == (now.st_ino, now.st_dev) and now.st_size >= file.tell():
            return None
        return path.open("rb")
    except FileNotFoundError:
        return None  # between the two
