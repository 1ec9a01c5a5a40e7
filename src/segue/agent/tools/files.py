"""Reads, writes and finds files. Paths are relative to the working directory.

They may lead outside it, by name or through a link. Reading a private file needs approval, and so
does every write, which is shown with its real location (see `segue.approvals.rules`).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from segue.agent.tools import search
from segue.agent.tools.base import Proposal, Tool, ToolFailed, Workplace, clean, shorten
from segue.agent.tools.isolation import run_isolated
from segue.agent.tools.search import PrivateFiles
from segue.agent.tools.targets import Target, aim
from segue.approvals.rules import Risk
from segue.core.approval import Description
from segue.core.text import visible, visible_name

READ_LIMIT = 256 * 1024
SEARCH_SECONDS = 20.0
_UTF8 = "utf-8"
_AS_IT_IS = "surrogateescape"

PathArgument = Annotated[
    str, Meta(description="From the working directory, or absolute.", min_length=1)
]


class ReadArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: PathArgument
    first_line: Annotated[int, Meta(ge=1, description="The first line wanted.")] = 1
    lines: Annotated[int, Meta(ge=1, le=5000, description="How many lines.")] = 1000


class WriteArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: PathArgument
    content: Annotated[str, Meta(description="All that the file shall hold.")]


class EditArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: PathArgument
    old: Annotated[str, Meta(description="Text that is there exactly once.", min_length=1)]
    new: Annotated[str, Meta(description="What shall stand there instead.")]


class ListArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: PathArgument = "."
    pattern: Annotated[str, Meta(description="Such as *.py or **/*.md.")] = "*"


class SearchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(description="A regular expression.", min_length=1)]
    path: PathArgument = "."
    files: Annotated[str, Meta(description="Which files, such as *.py.")] = "*"


def read_file(arguments: ReadArguments, target: Target, _: PrivateFiles) -> str:
    text = _text(target, READ_LIMIT)
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    count = len(lines) if text else 0
    wanted = lines[arguments.first_line - 1 : arguments.first_line - 1 + arguments.lines]
    if not count or not wanted:
        return f"[the file has {count} lines]"
    rest = count - (arguments.first_line - 1 + len(wanted))
    more = f"\n[{rest} more lines]" if rest > 0 else ""
    return shorten(clean("\n".join(wanted))) + more


def write_file(arguments: WriteArguments, target: Target, _: PrivateFiles) -> str:
    content = arguments.content.encode()
    target.put(content)
    done = "Replaced" if target.file else "Wrote"
    return f"{done} {target.path} ({len(content):,} bytes)."


def edit_file(arguments: EditArguments, target: Target, _: PrivateFiles) -> str:
    text = _text(target, search.FILE_LIMIT)
    old = arguments.old
    new = arguments.new
    if old not in text and "\r\n" in text:  # read_file shows lines without \r
        old, new = (re.sub("\r?\n", "\r\n", piece) for piece in (old, new))
    first = text.find(old)
    if first < 0 or text.find(old, first + 1) >= 0:
        found = "is not there" if first < 0 else "is there more than once"
        raise ToolFailed(f"That text {found}; give a piece that is there exactly once.")
    target.put((text[:first] + new + text[first + len(old) :]).encode(_UTF8, _AS_IT_IS))
    return f"Changed {target.path}."


def list_files(arguments: ListArguments, target: Target, private: PrivateFiles) -> str:
    pattern = _pattern(arguments.pattern)
    found: list[str] = []
    more = ""
    try:
        for path, is_folder in search.walk(target.path, pattern, private):
            if len(found) == search.MAX_HITS:
                more = f"\n[more than {search.MAX_HITS}; narrow the pattern]"
                break
            found.append(f"{path}/" if is_folder else path)
    except search.GaveUp:
        more = f"\n[stopped after {search.MAX_SCANNED:,} files and folders; narrow the pattern]"
    return (shorten(clean("\n".join(found))) or "[nothing]") + more


async def search_files(arguments: SearchArguments, target: Target, private: PrivateFiles) -> str:
    given = {
        "pattern": arguments.pattern,
        "folder": str(target.path),
        "files": _pattern(arguments.files),
        "private": {name: sorted(held) for name, held in private._asdict().items()},
    }
    if target.file is None:
        raise ToolFailed(f"{target.path} is not there.")
    outcome = await run_isolated(search.__file__, json.dumps(given), SEARCH_SECONDS)
    text = outcome.output.strip()
    if outcome.code == search.BAD_PATTERN:
        raise ToolFailed(f"That is not a regular expression: {text}")
    if outcome.code == 0:
        return shorten(text) or "[nothing]"
    late = outcome.code is None
    why = f"it took longer than {SEARCH_SECONDS:.0f} seconds" if late else "it broke off"
    return f"{shorten(text)}\n[stopped: {why}; take a simpler or narrower search]".lstrip()


def resolve(given: str, place: Workplace) -> Path:
    """The path that the agent means, with links unresolved."""
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


def _text(target: Target, limit: int) -> str:
    """The content of a text file. Bytes that are not UTF-8 survive when it is written back."""
    try:
        with target.opened() as file:
            return search.read(file, limit).decode(_UTF8, _AS_IT_IS)
    except search.Unreadable as error:
        raise ToolFailed(f"{target.path} cannot be read: {error}.") from error
    except OSError as error:
        raise ToolFailed(f"{target.path} cannot be read: {error.strerror}.") from error


def described(path: Path, target: Target, place: Workplace) -> str:
    """Describe the path for an approval: its real location, whether that is outside the working
    directory or private, and on a line of its own the path as it was given, if it is another."""
    inside = target.path.is_relative_to(os.path.realpath(place.cwd))
    outside = "" if inside else ", outside the working directory"
    secret = ", which may hold passwords or keys" if _is_private(target, place) else ""
    given = f"\ngiven as {visible_name(path)}" if target.path != path else ""
    return f"{visible_name(target.path)}{outside}{secret}{given}"


def _is_private(target: Target, place: Workplace) -> bool:
    return place.private.holds(str(target.path))


A = TypeVar("A", ReadArguments, WriteArguments, EditArguments, ListArguments, SearchArguments)
_TargetWork = Callable[[A, Target, PrivateFiles], Awaitable[str]]
"""Works on a target, and leaves out the given private files."""


def _propose(
    describe: Callable[[A, str], tuple[str, str]], work: _TargetWork[A], *, writes: bool = False
) -> Callable[[A, Workplace], Proposal]:
    """Return a function that proposes `work` on the file or folder that the path leads to now.

    Private files in a folder are left out, unless the folder itself is private: then the user is
    asked about it. `describe` returns the head and the rest of the description.
    """

    def propose(given: A, place: Workplace) -> Proposal:
        path = resolve(given.path, place)
        target = aim(path)
        is_private = _is_private(target, place)
        private = search.NOTHING if is_private else place.private
        head, rest = describe(given, described(path, target, place))
        return Proposal(
            what=Description(head, visible(rest)),
            work=lambda: work(given, target, private),
            asks=is_private and not writes,
            exact=target.version if writes else target.exact,
            place=target.place if writes else target.exact,
        )

    return propose


def _in_a_thread(work: Callable[[A, Target, PrivateFiles], str]) -> _TargetWork[A]:
    async def run(given: A, target: Target, private: PrivateFiles) -> str:
        try:
            return await asyncio.to_thread(work, given, target, private)
        except OSError as error:
            raise ToolFailed(f"{target.path}: {error.strerror}.") from error

    return run


READ = Tool(
    name="read_file",
    description="Read a text file.",
    risk=Risk.READ,
    arguments=ReadArguments,
    propose=_propose(lambda _, path: (f"read {path}", ""), _in_a_thread(read_file)),
)
WRITE = Tool(
    name="write_file",
    description="Write a whole text file, new or instead of the one that is there.",
    risk=Risk.WRITE,
    arguments=WriteArguments,
    propose=_propose(
        lambda a, path: (f"write {path}:", a.content), _in_a_thread(write_file), writes=True
    ),
)
EDIT = Tool(
    name="edit_file",
    description="Replace one piece of a text file by another.",
    risk=Risk.WRITE,
    arguments=EditArguments,
    propose=_propose(
        lambda a, path: (f"change {path}", f"from:\n{a.old}\nto:\n{a.new}"),
        _in_a_thread(edit_file),
        writes=True,
    ),
)
LIST = Tool(
    name="list_files",
    description="List files and folders.",
    risk=Risk.READ,
    arguments=ListArguments,
    propose=_propose(lambda a, path: (f"list {path}", a.pattern), _in_a_thread(list_files)),
)
SEARCH = Tool(
    name="search_files",
    description="Find lines in files by a regular expression.",
    risk=Risk.READ,
    arguments=SearchArguments,
    propose=_propose(lambda a, path: (f"search {path} for", a.pattern), search_files),
)
FILES = (READ, WRITE, EDIT, LIST, SEARCH)


# Private files: common places of keys and passwords


_PRIVATE_SYSTEM = (
    *("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh"),
    *("/etc/ssl/private", "/etc/wireguard", "/etc/NetworkManager/system-connections"),
    *("/run/secrets", "/var/run/secrets"),
    "/proc",  # the environment and memory of other processes
)
_PRIVATE_HOME = (
    # Keys and logins of tools
    *(".ssh", ".gnupg", ".pki", ".netrc", ".pgpass", ".my.cnf", ".password-store"),
    *(".git-credentials", ".config/git/credentials", ".config/gh", ".config/glab-cli"),
    *(".aws", ".azure", ".boto", ".s3cfg", ".config/gcloud", ".config/rclone", ".oci"),
    *(".kube", ".docker", ".terraform.d", ".vault-token", ".config/op", ".config/sops"),
    *(".npmrc", ".yarnrc.yml", ".pypirc", ".config/pypoetry/auth.toml", ".m2/settings.xml"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".composer/auth.json"),
    *(".local/share/keyrings", ".local/share/kwalletd", ".config/Bitwarden", ".config/KeePassXC"),
    *(".config/1Password", ".electrum", ".bitcoin", ".ethereum", ".config/NetworkManager"),
    # Command history
    *(".bash_history", ".zsh_history", ".local/share/fish/fish_history", ".python_history"),
    *(".psql_history", ".mysql_history", ".sqlite_history"),
    # Cookies and passwords in browsers and mail programs
    *(".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/vivaldi"),
    *(".config/BraveSoftware", ".config/microsoft-edge", ".config/opera", ".var/app", "snap"),
    *("Library/Keychains", "Library/Cookies", "Library/Mail", "Library/Safari"),
    *("Library/Application Support/Google", "Library/Application Support/BraveSoftware"),
    *("Library/Application Support/Microsoft Edge", "Library/Application Support/Firefox"),
)
_PRIVATE_NAMES = (
    *(".env", ".env.*", "*.env", ".netrc", "_netrc", ".pgpass", ".htpasswd", ".git-credentials"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.gpg"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
)
_HARMLESS_NAMES = (".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub")


def private_files(home: Path, ours: Iterable[Path] = ()) -> PrivateFiles:
    """The private files of the user with this home folder. `ours` are Segue's own files."""
    places = (*map(Path, _PRIVATE_SYSTEM), *(home / place for place in _PRIVATE_HOME), *ours)
    return PrivateFiles(
        places=frozenset(map(_plain, places)),
        names=frozenset(_PRIVATE_NAMES),
        harmless=frozenset(_HARMLESS_NAMES),
    )


def except_folder(private: PrivateFiles, folder: Path) -> PrivateFiles:
    """Exclude `folder`, which the user has opened to the agent."""
    return private._replace(public=frozenset({_plain(folder)}))


def _plain(path: Path) -> str:
    return os.path.realpath(path).casefold()
