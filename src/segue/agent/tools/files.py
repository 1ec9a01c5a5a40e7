"""Reading, writing and finding files. Paths are taken from the working directory.

They may lead out of it, by name or by a link: reading is free everywhere, and every write is asked
about, with the place that it really goes to (see `segue.agent.approvals`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from segue.agent.tools import finding
from segue.agent.tools.apart import apart
from segue.agent.tools.base import Risk, Tool, ToolFailed, Workplace, clean, shorten, visible

READ_LIMIT = 256 * 1024
SEARCH_SECONDS = 20.0
_UTF8 = "utf-8"
_AS_IT_IS = "surrogateescape"

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
    text = _text(resolve(arguments.path, place), READ_LIMIT)
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    count = len(lines) if text else 0
    wanted = lines[arguments.first_line - 1 : arguments.first_line - 1 + arguments.lines]
    if not count or not wanted:
        return f"[the file has {count} lines]"
    rest = count - (arguments.first_line - 1 + len(wanted))
    more = f"\n[{rest} more lines]" if rest > 0 else ""
    return shorten(clean("\n".join(wanted))) + more


def write_file(arguments: WriteArguments, place: Workplace) -> str:
    path = resolve(arguments.path, place)
    known = path.exists()
    content = arguments.content.encode()
    _replace(path, content)
    return f"{'Replaced' if known else 'Wrote'} {path} ({len(content):,} bytes)."


def edit_file(arguments: EditArguments, place: Workplace) -> str:
    path = resolve(arguments.path, place)
    text = _text(path, finding.FILE_LIMIT)
    old, new = arguments.old, arguments.new
    if old not in text and "\r\n" in text:  # read_file shows the lines without their \r
        old, new = (re.sub("\r?\n", "\r\n", piece) for piece in (old, new))
    first = text.find(old)
    if first < 0 or text.find(old, first + 1) >= 0:
        found = "is not there" if first < 0 else "is there more than once"
        raise ToolFailed(f"That text {found}; give a piece that is there exactly once.")
    _replace(path, (text[:first] + new + text[first + len(old) :]).encode(_UTF8, _AS_IT_IS))
    return f"Changed {path}."


def list_files(arguments: ListArguments, place: Workplace) -> str:
    folder = resolve(arguments.path, place)
    pattern = _pattern(arguments.pattern)
    found: list[str] = []
    more = ""
    try:
        for path, is_folder in finding.walk(folder, pattern):
            if len(found) == finding.MOST_HITS:
                more = f"\n[more than {finding.MOST_HITS}; narrow the pattern]"
                break
            found.append(f"{path}/" if is_folder else path)
    except finding.GaveUp:
        more = f"\n[stopped after {finding.MOST_SCANNED:,} files and folders; narrow the pattern]"
    return (shorten(clean("\n".join(found))) or "[nothing]") + more


async def search_files(arguments: SearchArguments, place: Workplace) -> str:
    folder = resolve(arguments.path, place)
    given = {
        "pattern": arguments.pattern,
        "folder": str(folder),
        "files": _pattern(arguments.files),
    }
    if not await asyncio.to_thread(os.path.exists, folder):
        raise ToolFailed(f"{folder} is not there.")
    outcome = await apart(finding.__file__, json.dumps(given), SEARCH_SECONDS)
    text = outcome.output.strip()
    if outcome.code == finding.BAD_PATTERN:
        raise ToolFailed(f"That is not a regular expression: {text}")
    if outcome.code == 0:
        return shorten(text) or "[nothing]"
    late = outcome.code is None
    why = f"it took longer than {SEARCH_SECONDS:.0f} seconds" if late else "it broke off"
    return f"{shorten(text)}\n[stopped: {why}; take a simpler or narrower search]".lstrip()


def resolve(given: str, place: Workplace) -> Path:
    """Where that is, inside the working directory or not: whoever allows it has been told."""
    if "\0" in given:
        raise ToolFailed("A path has no NUL in it.")
    try:
        return place.cwd / Path(given).expanduser()
    except RuntimeError as error:
        raise ToolFailed(f"There is no home folder for {given}.") from error


def _pattern(given: str) -> str:
    if given.startswith("/") or ".." in given.split("/") or not given.strip("./"):
        raise ToolFailed(
            f"The pattern {given!r} does not work: give one such as *.py or **/*.md, "
            "and where to start as the path."
        )
    return given


def _text(path: Path, limit: int) -> str:
    """A text file's content, in which every byte that is no UTF-8 can be written back as it was."""
    try:
        return finding.read(path, limit).decode(_UTF8, _AS_IT_IS)
    except finding.Unreadable as error:
        raise ToolFailed(f"{path} cannot be read: {error}.") from error


def _replace(path: Path, content: bytes) -> None:
    """Put `content` there whole or not at all, keeping the file's mode and where a link leads.

    What cannot be kept: other names of the same file (hard links) and extended attributes.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    known = _ordinary(target)
    # A name of its own length: the target's may already be as long as names can be.
    beside = target.with_name(f".segue-{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = os.open(beside, flags, 0o600 if known else 0o666)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            if known:
                with contextlib.suppress(PermissionError):
                    os.fchown(fd, known.st_uid, known.st_gid)
                os.fchmod(fd, stat.S_IMODE(known.st_mode))
            file.flush()
            os.fsync(fd)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _ordinary(target: Path) -> os.stat_result | None:
    """The file that is there, if one is; ToolFailed for a folder, a device, a pipe or the like."""
    try:
        known = target.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(known.st_mode):
        raise ToolFailed(f"{target} is not an ordinary file.")
    return known


def _where(given: str, place: Workplace) -> str:
    """A path for the person who is asked: where it really leads, and whether that is elsewhere."""
    path = resolve(given, place)
    real = os.path.realpath(path)
    leads = f" (which is {real})" if real != str(path) else ""
    inside = Path(real).is_relative_to(os.path.realpath(place.cwd))
    return f"{path}{leads}{'' if inside else ', outside the working directory'}"


A = TypeVar("A", bound=msgspec.Struct)


def _in_a_thread(work: Callable[[A, Workplace], str]) -> Callable[[A, Workplace], Awaitable[str]]:
    async def in_a_thread(given: A, place: Workplace) -> str:
        try:
            return await asyncio.to_thread(work, given, place)
        except OSError as error:
            name = f"{error.filename}: " if error.filename else ""
            raise ToolFailed(f"{name}{error.strerror}.") from error

    return in_a_thread


READ = Tool(
    name="read_file",
    description="Read a text file.",
    risk=Risk.READ,
    arguments=ReadArguments,
    work=_in_a_thread(read_file),
    tell=lambda a, p: visible(f"read {_where(a.path, p)}"),
)
WRITE = Tool(
    name="write_file",
    description="Write a whole text file, new or instead of the one that is there.",
    risk=Risk.WRITE,
    arguments=WriteArguments,
    work=_in_a_thread(write_file),
    tell=lambda a, p: visible(f"write {_where(a.path, p)}:\n{a.content}"),
)
EDIT = Tool(
    name="edit_file",
    description="Replace one piece of a text file by another.",
    risk=Risk.WRITE,
    arguments=EditArguments,
    work=_in_a_thread(edit_file),
    tell=lambda a, p: visible(f"change {_where(a.path, p)}\nfrom:\n{a.old}\nto:\n{a.new}"),
)
LIST = Tool(
    name="list_files",
    description="List files and folders.",
    risk=Risk.READ,
    arguments=ListArguments,
    work=_in_a_thread(list_files),
    tell=lambda a, p: visible(f"list {a.pattern} in {_where(a.path, p)}"),
)
SEARCH = Tool(
    name="search_files",
    description="Find lines in files by a regular expression.",
    risk=Risk.READ,
    arguments=SearchArguments,
    work=search_files,
    tell=lambda a, p: visible(f"search {_where(a.path, p)} for {a.pattern}"),
)
FILES = (READ, WRITE, EDIT, LIST, SEARCH)
