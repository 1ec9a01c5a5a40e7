"""Walks folders and searches files for lines.

This file is also a program that `isolation.run_isolated` runs, because Python cannot stop a regular
expression that takes forever, and nothing else runs meanwhile. So it imports only the standard
library.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase, translate
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple, cast

MAX_HITS = 500
MAX_SCANNED = 20_000
FILE_LIMIT = 2 * 1024 * 1024
LINE_LIMIT = 2000
SHOWN_LIMIT = 200
SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", ".hg", ".svn"})

BAD_PATTERN = 2
"""The exit code for an invalid regular expression. The output then says why."""


class PrivateFiles(NamedTuple):  # a dataclass would take longer to import than all the rest
    """The files that are not read without asking. Paths are absolute, casefolded, without links."""

    places: frozenset[str] = frozenset()
    """Files, and folders with everything in them."""
    names: frozenset[str] = frozenset()
    """Patterns for file names in any folder."""
    harmless: frozenset[str] = frozenset()
    """Patterns for the exceptions to `names`."""
    public: frozenset[str] = frozenset()
    """Folders inside `places` that are not private."""

    def holds(self, path: str) -> bool:
        """True if `path`, which must not contain links, is private."""
        path = path.casefold()
        if self._is_named(path):
            return True
        while path.rstrip("/"):
            if path in self.public:
                return False
            if path in self.places:
                return True
            path = path.rpartition("/")[0]
        return False

    def _is_named(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        return _fits(name, self.names) and not _fits(name, self.harmless)


NOTHING = PrivateFiles()


def _fits(name: str, patterns: frozenset[str]) -> bool:
    return _any_of(patterns).fullmatch(name) is not None


@cache
def _any_of(patterns: frozenset[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)) or "(?!)")


class Unreadable(Exception):
    """Why a file cannot be read as text."""


class GaveUp(Exception):
    """There are too many files to go through."""


def read(file: int, limit: int) -> bytes:
    """Read a whole text file. Raise Unreadable if it is anything else, or longer than `limit`."""
    data = contents(file, limit)
    if len(data) > limit:
        size = os.fstat(file).st_size
        raise Unreadable(f"it has {size:,} bytes; use the shell to look at parts of it")
    if b"\0" in data:
        raise Unreadable("it is not a text file")
    return data


def contents(file: int, limit: int) -> bytes:
    """Read up to `limit` bytes of an ordinary file that was opened with O_NONBLOCK, and one more if
    there are more. Raise Unreadable if it is anything else."""
    try:
        with os.fdopen(file, "rb", closefd=False) as reading:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise Unreadable("it is not an ordinary file")
            data = cast("bytes | None", reading.read(limit + 1))
    except OSError as error:
        raise Unreadable(error.strerror) from error
    if data is None:  # some files of the kernel would wait, such as /proc/kmsg
        raise Unreadable("it has no content to read now")
    return data


def walk(folder: Path, pattern: str, private: PrivateFiles) -> Iterator[tuple[str, bool]]:
    """Yield the entries below `folder` that match `pattern`, in order, with True for folders.

    `**` matches any number of folders. Links are not followed. SKIPPED and private folders are not
    entered. Raise GaveUp after MAX_SCANNED entries, and OSError if `folder` itself cannot be read.
    """
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    # Each folder, with the positions in `parts` that its entries may match.
    waiting = [("", _places({0}, parts))]
    left = MAX_SCANNED
    while waiting:
        inside, places = waiting.pop()
        try:
            with os.scandir(folder / inside) as entries:
                found = sorted(islice(entries, left + 1), key=lambda entry: entry.name)
        except OSError:
            if not inside:
                raise
            continue
        deeper: list[tuple[str, set[int]]] = []
        for entry in found:
            if not left:
                raise GaveUp
            left -= 1
            path = f"{inside}/{entry.name}" if inside else entry.name
            after = _places(_steps(entry.name, places, parts), parts)
            if len(parts) in after:
                yield path, _is_folder(entry)
            if after - {len(parts)} and _enters(entry) and not private.holds(entry.path):
                deeper.append((path, after))
        waiting += reversed(deeper)


def _is_folder(entry: os.DirEntry[str], *, follow: bool = True) -> bool:
    """True for a folder or, with `follow`, a link to one. False for a broken link."""
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:
        return False


def _enters(entry: os.DirEntry[str]) -> bool:
    return entry.name not in SKIPPED and _is_folder(entry, follow=False)


def _steps(name: str, places: set[int], parts: list[str]) -> set[int]:
    """The positions in `parts` after matching `name` at any of `places`."""
    stay = {i for i in places if i < len(parts) and parts[i] == "**"}
    on = {i + 1 for i in places - stay if i < len(parts) and fnmatchcase(name, parts[i])}
    return stay | on | ({len(parts)} if len(parts) - 1 in stay else set())


def _places(places: set[int], parts: list[str]) -> set[int]:
    """Add the positions after a `**`, which may also match no folder."""
    for i in range(len(parts) - 1):
        if i in places and parts[i] == "**":
            places = places | {i + 1}
    return places


def search(
    wanted: re.Pattern[str], folder: Path, files: str, private: PrivateFiles
) -> Iterator[str]:
    """Yield each matching line as `path:number: line`, then a note about anything left out."""
    hits = left_out = 0
    try:
        for path in _files(folder, files, private):
            real = os.path.join(folder, path) if path else str(folder)  # noqa: PTH118 - many files
            if os.path.islink(real):  # noqa: PTH114
                real = os.path.realpath(real)
            if private.holds(real):
                left_out += 1
                continue
            for number, line in _lines(real):
                if wanted.search(line[:LINE_LIMIT]):
                    hits += 1
                    if hits > MAX_HITS:
                        yield "[more; narrow the search]"
                        return
                    yield f"{path or folder.name}:{number}: {line.strip()[:SHOWN_LIMIT]}"
    except GaveUp:
        yield f"[stopped after {MAX_SCANNED:,} files and folders; narrow the search]"
    if left_out:
        yield f"[private files that were left out: {left_out}; name one as the path to search it]"


def _files(folder: Path, pattern: str, private: PrivateFiles) -> Iterator[str]:
    if not os.path.isdir(folder):  # noqa: PTH112 - the Path method raises for some links
        yield ""
        return
    for path, is_folder in walk(folder, f"**/{pattern}", private):
        if not is_folder:
            yield path


def _lines(path: str) -> Iterator[tuple[int, str]]:
    try:
        # O_NONBLOCK, so that opening a named pipe does not wait for a writer.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # unreadable, so skip it
        return
    try:
        text = read(file, FILE_LIMIT).decode("utf-8", "replace")
    except Unreadable:
        return
    finally:
        os.close(file)
    for number, line in enumerate(text.split("\n"), 1):
        yield number, line.removesuffix("\r")


def main() -> int:
    given = json.load(sys.stdin)
    try:
        wanted = re.compile(given["pattern"])
    except (re.error, OverflowError, RecursionError) as error:
        _say(str(error))
        return BAD_PATTERN
    private = PrivateFiles(**{name: frozenset(held) for name, held in given["private"].items()})
    for line in search(wanted, Path(given["folder"]), given["files"], private):
        _say(line)
    return 0


def _say(line: str) -> None:
    sys.stdout.buffer.write(line.encode("utf-8", "surrogateescape") + b"\n")
    sys.stdout.buffer.flush()  # so that partial results survive when we are killed


if __name__ == "__main__":
    sys.exit(main())
