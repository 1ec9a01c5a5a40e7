"""Reading, writing and finding files. Paths are taken from the working directory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from segue.agent.tools.base import Risk, Tool, ToolFailed, Workplace, shorten

READ_LIMIT = 256 * 1024
SCAN_LIMIT = 2 * 1024 * 1024
MOST_ENTRIES = 500
MOST_SCANNED = 20_000
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", ".hg", ".svn"})

T = TypeVar("T")
PathArgument = Annotated[
    str, msgspec.Meta(description="From the working directory, or absolute.", min_length=1)
]


class ReadArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: PathArgument
    first_line: Annotated[int, msgspec.Meta(ge=1, description="The first line wanted.")] = 1
    lines: Annotated[int, msgspec.Meta(ge=1, le=5000, description="How many lines.")] = 1000


class WriteArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: PathArgument
    content: Annotated[str, msgspec.Meta(description="All that the file shall hold.")]


class EditArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: PathArgument
    old: Annotated[str, msgspec.Meta(description="Text that is there exactly once.", min_length=1)]
    new: Annotated[str, msgspec.Meta(description="What shall stand there instead.")]


class ListArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: PathArgument = "."
    pattern: Annotated[str, msgspec.Meta(description="Such as *.py or **/*.md.")] = "*"


class SearchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, msgspec.Meta(description="A regular expression.", min_length=1)]
    path: PathArgument = "."
    files: Annotated[str, msgspec.Meta(description="Which files, such as *.py.")] = "*"


def read_file(arguments: ReadArguments, place: Workplace) -> str:
    text = _text(_path(arguments.path, place), READ_LIMIT)
    lines = text.splitlines()
    wanted = lines[arguments.first_line - 1 : arguments.first_line - 1 + arguments.lines]
    if not wanted:
        return f"[the file has {len(lines)} lines]"
    rest = len(lines) - (arguments.first_line - 1 + len(wanted))
    more = f"\n[{rest} more lines]" if rest > 0 else ""
    return shorten("\n".join(wanted)) + more


def write_file(arguments: WriteArguments, place: Workplace) -> str:
    path = _path(arguments.path, place)
    known = path.exists()
    _replace(path, arguments.content)
    size = len(arguments.content.encode())
    return f"{'Replaced' if known else 'Wrote'} {path} ({size:,} bytes)."


def edit_file(arguments: EditArguments, place: Workplace) -> str:
    path = _path(arguments.path, place)
    text = _text(path, SCAN_LIMIT)
    count = text.count(arguments.old)
    if count != 1:
        found = "is not there" if count == 0 else f"is there {count} times"
        raise ToolFailed(f"That text {found}; give a piece that is there exactly once.")
    _replace(path, text.replace(arguments.old, arguments.new))
    return f"Changed {path}."


def list_files(arguments: ListArguments, place: Workplace) -> str:
    folder = _path(arguments.path, place)
    if not folder.is_dir():
        raise ToolFailed(f"{folder} is not a folder.")
    found: list[str] = []
    try:
        for path in folder.glob(arguments.pattern):
            found.append(f"{path.relative_to(folder)}{'/' if path.is_dir() else ''}")
            if len(found) > MOST_ENTRIES:
                break
    except (ValueError, NotImplementedError) as error:
        raise ToolFailed(f"That pattern does not work: {error}") from error
    more = f"\n[more than {MOST_ENTRIES}; narrow the pattern]" if len(found) > MOST_ENTRIES else ""
    return ("\n".join(sorted(found[:MOST_ENTRIES])) or "[nothing]") + more


def search_files(arguments: SearchArguments, place: Workplace) -> str:
    folder = _path(arguments.path, place)
    try:
        wanted = re.compile(arguments.pattern)
    except re.error as error:
        raise ToolFailed(f"That is not a regular expression: {error}") from error
    hits: list[str] = []
    for path in _walk(folder, arguments.files):
        with contextlib.suppress(ToolFailed):  # not text, or too long: nothing to search
            for number, line in enumerate(_text(path, SCAN_LIMIT).splitlines(), 1):
                if wanted.search(line[:2000]):
                    hits.append(f"{path.relative_to(folder)}:{number}: {line.strip()[:200]}")
        if len(hits) >= MOST_ENTRIES:
            return shorten("\n".join(hits[:MOST_ENTRIES])) + "\n[more; narrow the search]"
    return shorten("\n".join(hits)) or "[nothing]"


def _walk(folder: Path, pattern: str) -> Iterator[Path]:
    seen = 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED)
        for name in sorted(names):
            seen += 1
            if seen > MOST_SCANNED:
                return
            path = Path(root) / name
            if path.match(pattern):
                yield path


def _path(given: str, place: Workplace) -> Path:
    if "\0" in given:
        raise ToolFailed("A path has no NUL in it.")
    return place.cwd / Path(given).expanduser()


def _text(path: Path, limit: int) -> str:
    """A text file's content; ToolFailed for anything that is none, or longer than `limit`."""
    try:
        # Not waiting for anybody at the other end of a pipe.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ToolFailed(f"{path} is not an ordinary file.")
            data = file.read(limit + 1)
    except OSError as error:
        raise ToolFailed(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > limit:
        size = path.stat().st_size
        raise ToolFailed(f"{path} has {size:,} bytes; use the shell to look at parts of it.")
    if b"\0" in data:
        raise ToolFailed(f"{path} is not a text file.")
    return data.decode("utf-8", "replace")


def _replace(path: Path, content: str) -> None:
    """Put `content` there whole or not at all, keeping the file's mode and where a link leads."""
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o644
        fd, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(fd, "w", encoding="utf-8", newline="") as file:
                file.write(content)
            Path(name).chmod(mode)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ToolFailed(f"{path} cannot be written: {error.strerror}") from error


A = TypeVar("A", bound=msgspec.Struct)


def _tool(
    name: str,
    description: str,
    risk: Risk,
    arguments: type[A],
    work: Callable[[A, Workplace], str],
    tell: Callable[[A, Workplace], str],
) -> Tool[A]:
    async def in_a_thread(given: A, place: Workplace) -> str:
        return await asyncio.to_thread(work, given, place)

    return Tool(
        name=name,
        description=description,
        risk=risk,
        arguments=arguments,
        work=in_a_thread,
        tell=tell,
    )


READ = _tool(
    "read_file",
    "Read a text file.",
    Risk.READ,
    ReadArguments,
    read_file,
    lambda a, p: f"read {_path(a.path, p)}",
)
WRITE = _tool(
    "write_file",
    "Write a whole text file, new or instead of the one that is there.",
    Risk.WRITE,
    WriteArguments,
    write_file,
    lambda a, p: f"write {_path(a.path, p)}:\n{a.content}",
)
EDIT = _tool(
    "edit_file",
    "Replace one piece of a text file by another.",
    Risk.WRITE,
    EditArguments,
    edit_file,
    lambda a, p: f"change {_path(a.path, p)}\nfrom:\n{a.old}\nto:\n{a.new}",
)
LIST = _tool(
    "list_files",
    "List files and folders.",
    Risk.READ,
    ListArguments,
    list_files,
    lambda a, p: f"list {_path(a.path, p)}/{a.pattern}",
)
SEARCH = _tool(
    "search_files",
    "Find lines in files by a regular expression.",
    Risk.READ,
    SearchArguments,
    search_files,
    lambda a, p: f"search {_path(a.path, p)} for {a.pattern}",
)
FILES = (READ, WRITE, EDIT, LIST, SEARCH)
