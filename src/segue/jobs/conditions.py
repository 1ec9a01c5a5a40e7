"""Check the conditions of jobs. That needs no model: all that counts is a digest.

A command runs as the shell tool runs it, and a page is read as the tool for pages reads it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from segue import config
from segue.agent.tools import files, search, shell
from segue.agent.tools.base import ToolFailed, Workplace, clean, shorten
from segue.config import Settings
from segue.core.errors import UserError
from segue.core.text import one_line
from segue.jobs.values import EXCERPT_LIMIT, Condition, ConditionKind, Job, Seen

COMMAND_SECONDS = 60
MAX_BYTES = 16 * 1024 * 1024
"""The size up to which the contents of a file are compared, and not just its size and time."""
_REASON_LIMIT = 200


def workplace(job: Job, settings: Settings) -> Workplace:
    """Return where the job's condition is checked."""
    return Workplace(
        cwd=Path(job.cwd or Path.home()),
        private_network=settings.private_network,
        private=files.private_files(Path.home(), config.private_places(settings)),
    )


async def check(condition: Condition, place: Workplace, environment: dict[str, str]) -> Seen:
    """Return what there is to see now. Raise UserError if that cannot be found out."""
    try:
        match condition.kind:
            case ConditionKind.COMMAND:
                return await _command(condition.target, place, environment)
            case ConditionKind.PAGE:
                return await _page(condition.target, place)
            case ConditionKind.FILE:
                return await asyncio.to_thread(_file, condition.target, place)
    except (ToolFailed, OSError, RuntimeError) as error:  # a loop of links
        reason = str(error).rstrip(".")
        raise UserError(
            f"Could not check whether {condition} ({reason}). Try it yourself, or type `segue jobs"
            " edit --help` to see how to change the condition."
        ) from error


async def _command(command: str, place: Workplace, environment: dict[str, str]) -> Seen:
    done = await shell.execute(command, place.cwd, environment, COMMAND_SECONDS)
    if not done.is_ok:
        raise ToolFailed(one_line(f"{done.note} {done.text}", _REASON_LIMIT))
    return _seen(done.digest, done.text)


async def _page(url: str, place: Workplace) -> Seen:
    from segue.agent.tools import fetch  # noqa: PLC0415 - httpx2 takes a while

    page = await fetch.read(url, place)
    if not page.is_ok:
        raise ToolFailed(one_line(f"it answers with status {page.status}", _REASON_LIMIT))
    return _seen(_digest(" ".join(page.text.split())), page.text)


def _file(name: str, place: Workplace) -> Seen:
    path = (place.cwd / Path(name).expanduser()).resolve()
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return _seen("", "[it is not there]")
    if stat.S_ISDIR(status.st_mode):
        listed = "\n".join(_entries(path, place))
        return _seen(_digest(f"folder\n{listed}"), listed)
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
        return _seen(_digest(_facts(status)), _facts(status))
    data = _contents(path)
    is_text = b"\0" not in data and not place.private.holds(str(path))
    return _seen(_digest(data), data.decode(errors="replace") if is_text else "[not shown]")


def _contents(path: Path) -> bytes:
    """Read the file without waiting: some files of the kernel have no content yet, or no end."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return search.contents(file, MAX_BYTES)
    except search.Unreadable as error:
        raise ToolFailed(str(error)) from error
    finally:
        os.close(file)


def _entries(folder: Path, place: Workplace) -> Iterator[str]:
    try:
        for name, is_folder in search.walk(folder, "**/*", place.private):
            if is_folder:
                yield f"{name}/"
                continue
            try:
                yield f"{name} {_facts((folder / name).stat(follow_symlinks=False))}"
            except FileNotFoundError:
                continue
    except search.GaveUp:
        raise ToolFailed(f"it holds more than {search.MAX_SCANNED:,} files and folders") from None


def _facts(status: os.stat_result) -> str:
    changed = datetime.fromtimestamp(status.st_mtime, UTC)
    return f"({status.st_size:,} bytes, changed at {changed:%Y-%m-%d %H:%M:%S.%f})"


def _seen(digest: str, text: str) -> Seen:
    return Seen(digest=digest, excerpt=shorten(clean(text), EXCERPT_LIMIT))


def _digest(data: bytes | str) -> str:
    encoded = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    return hashlib.sha256(encoded).hexdigest()
