"""Reading, writing and finding files, including unusual ones."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import time
from asyncio.subprocess import Process
from pathlib import Path
from typing import Any

import pytest

from segue.agent.tools import files as module
from segue.agent.tools import isolation, search
from segue.agent.tools.base import OUTPUT_LIMIT, Tool, ToolFailed, Workplace
from segue.agent.tools.files import EDIT, FILES, LIST, READ, SEARCH, WRITE
from tests.agent.tools.calls import question, use


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def place(cwd: Path) -> Workplace:
    return Workplace(cwd=cwd)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Reading


async def test_a_file_is_read_from_the_working_directory(place: Workplace, cwd: Path) -> None:
    (cwd / "a.txt").write_text("one\ntwo\nthree\n")
    assert await use(READ, place, path="a.txt") == "one\ntwo\nthree"
    assert await use(READ, place, path=str(cwd / "a.txt")) == "one\ntwo\nthree"


async def test_lines_are_counted_as_an_editor_does(place: Workplace, cwd: Path) -> None:
    (cwd / "a.txt").write_bytes("one\r\ntwo\x0c\u2028still\r\n\r\nfour".encode())
    assert await use(READ, place, path="a.txt") == "one\ntwo\x0c\u2028still\n\nfour"
    assert await use(READ, place, path="a.txt", first_line=2, lines=1) == (
        "two\x0c\u2028still\n[2 more lines]"
    )
    assert await use(READ, place, path="a.txt", first_line=4) == "four"
    assert await use(READ, place, path="a.txt", first_line=5) == "[the file has 4 lines]"


async def test_an_empty_file_is_reported_as_empty(place: Workplace, cwd: Path) -> None:
    (cwd / "a.txt").touch()
    assert await use(READ, place, path="a.txt") == "[the file has 0 lines]"


async def test_a_long_file_is_shortened(place: Workplace, cwd: Path) -> None:
    (cwd / "a.txt").write_text("x" * 100 + "\n" * 900 + "y" * 100_000)
    shown = await use(READ, place, path="a.txt")
    assert len(shown) < OUTPUT_LIMIT + 100
    assert "characters left out" in shown


async def test_text_in_another_encoding_can_be_shown(place: Workplace, cwd: Path) -> None:
    (cwd / "a.txt").write_bytes("Käse".encode("latin-1"))
    assert await use(READ, place, path="a.txt") == "K\ufffdse"


async def test_a_file_that_cannot_be_read_is_reported_with_the_reason(
    place: Workplace, cwd: Path
) -> None:
    (cwd / "binary").write_bytes(b"\x7fELF\0\0")
    (cwd / "loop").symlink_to("loop")
    (cwd / "dangling").symlink_to("nowhere")
    (cwd / "file").touch()
    reasons = {
        "missing": "No such file",
        "dangling": "No such file",
        "file/below": "Not a directory",
        "loop": "symbolic links",
        ".": "Is a directory",
        "/dev/zero": "not an ordinary file",
        "binary": "not a text file",
        "x" * 5000: "File name too long",
        "a\0b": "NUL",
        "~nobody-of-that-name/x": "no home folder",
    }
    for path, reason in reasons.items():
        with pytest.raises(ToolFailed, match=reason):
            await use(READ, place, path=path)


async def test_a_pipe_without_a_writer_does_not_block(place: Workplace, cwd: Path) -> None:
    os.mkfifo(cwd / "pipe")
    async with asyncio.timeout(5):
        with pytest.raises(ToolFailed, match="not an ordinary file"):
            await use(READ, place, path="pipe")
        assert await use(SEARCH, place, pattern="x") == "[nothing]"


async def test_a_gigabyte_is_refused_at_once(place: Workplace, cwd: Path) -> None:
    with (cwd / "big").open("wb") as file:
        file.truncate(1 << 30)
    before = time.monotonic()
    with pytest.raises(ToolFailed, match=r"1,073,741,824 bytes; use the shell"):
        await use(READ, place, path="big")
    with pytest.raises(ToolFailed, match="use the shell"):
        await use(EDIT, place, path="big", old="a", new="b")
    assert await use(SEARCH, place, pattern="x") == "[nothing]"
    assert time.monotonic() - before < 5


async def test_a_tilde_is_the_home_folder(
    place: Workplace, cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(cwd.parent))
    (cwd.parent / "note").write_text("at home")
    assert await use(READ, place, path="~/note") == "at home"


async def test_files_outside_the_working_directory_can_be_read(place: Workplace, cwd: Path) -> None:
    (cwd.parent / "outside").write_text("there")
    (cwd / "link").symlink_to("../outside")
    assert await use(READ, place, path="../outside") == "there"
    assert await use(READ, place, path="link") == "there"


# Writing


async def test_a_file_is_written_with_the_folders_it_needs(place: Workplace, cwd: Path) -> None:
    said = await use(WRITE, place, path="a/b/c.txt", content="ä\r\n")
    assert (cwd / "a/b/c.txt").read_bytes() == b"\xc3\xa4\r\n"
    assert said == f"Wrote {cwd}/a/b/c.txt (4 bytes)."
    assert await use(WRITE, place, path="a/b/c.txt", content="") == (
        f"Replaced {cwd}/a/b/c.txt (0 bytes)."
    )


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o444])
async def test_a_file_keeps_its_mode(place: Workplace, cwd: Path, mode: int) -> None:
    (cwd / "a").write_text("old")
    (cwd / "a").chmod(mode)
    await use(WRITE, place, path="a", content="new")
    assert (cwd / "a").read_text() == "new"
    assert (cwd / "a").stat().st_mode & 0o7777 == mode


async def test_a_new_file_has_the_mode_of_the_umask(place: Workplace, cwd: Path) -> None:
    before = os.umask(0o027)
    try:
        await use(WRITE, place, path="a", content="")
    finally:
        os.umask(before)
    assert (cwd / "a").stat().st_mode & 0o777 == 0o640


async def test_a_file_is_replaced_atomically(place: Workplace, cwd: Path) -> None:
    (cwd / "a").write_text("old")
    with (cwd / "a").open() as already_reading:
        await use(WRITE, place, path="a", content="new")
        assert already_reading.read() == "old"
    assert names(cwd) == ["a"]


async def test_a_file_can_have_the_longest_possible_name(place: Workplace, cwd: Path) -> None:
    await use(WRITE, place, path="x" * 255, content="new")
    assert (cwd / ("x" * 255)).read_text() == "new"


async def test_writing_through_a_symlink_changes_its_target(place: Workplace, cwd: Path) -> None:
    (cwd.parent / "target").write_text("old")
    (cwd / "link").symlink_to("../target")
    (cwd / "fresh").symlink_to("made")
    await use(WRITE, place, path="link", content="new")
    await use(EDIT, place, path="link", old="new", new="newer")
    await use(WRITE, place, path="fresh", content="made")
    assert (cwd / "link").is_symlink()
    assert (cwd.parent / "target").read_text() == "newer"
    assert (cwd / "made").read_text() == "made"


async def test_a_failed_write_reports_the_reason_and_leaves_nothing_behind(
    place: Workplace, cwd: Path
) -> None:
    (cwd / "file").write_text("kept")
    (cwd / "folder").mkdir()
    (cwd / "loop").symlink_to("loop")
    os.mkfifo(cwd / "pipe")
    before = names(cwd)
    reasons = {
        "file/below": "Not a directory|File exists",
        "file/far/below": "Not a directory",
        "folder": "not an ordinary file",
        "pipe": "not an ordinary file",
        "loop": "not an ordinary file",
        "/proc/self/new": "No such file",
        "x" * 256: "File name too long",
        "a\0b": "NUL",
    }
    for path, reason in reasons.items():
        with pytest.raises(ToolFailed, match=reason):
            await use(WRITE, place, path=path, content="new")
    assert names(cwd) == before
    assert (cwd / "file").read_text() == "kept"


async def test_an_edit_changes_exactly_one_occurrence(place: Workplace, cwd: Path) -> None:
    (cwd / "a").write_text("one two three")
    assert await use(EDIT, place, path="a", old="two", new="2") == f"Changed {cwd}/a."
    assert (cwd / "a").read_text() == "one 2 three"


@pytest.mark.parametrize(
    ("old", "complaint"),
    [("four", "is not there"), ("one", "more than once"), ("aa", "more than once")],
)
async def test_an_edit_without_a_unique_match_changes_nothing(
    place: Workplace, cwd: Path, old: str, complaint: str
) -> None:
    (cwd / "a").write_text("one one aaa")
    with pytest.raises(ToolFailed, match=complaint):
        await use(EDIT, place, path="a", old=old, new="x")
    assert (cwd / "a").read_text() == "one one aaa"


async def test_an_edit_keeps_bytes_that_are_not_utf_8(place: Workplace, cwd: Path) -> None:
    (cwd / "a").write_bytes(b"\xef\xbb\xbfK\xe4se: old\n")
    await use(EDIT, place, path="a", old="old", new="n\u00e9w")
    assert (cwd / "a").read_bytes() == b"\xef\xbb\xbfK\xe4se: n\xc3\xa9w\n"


async def test_an_edit_keeps_the_line_endings_of_the_file(place: Workplace, cwd: Path) -> None:
    (cwd / "a").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await use(EDIT, place, path="a", old="one\ntwo", new="1\n2")
    assert (cwd / "a").read_bytes() == b"1\r\n2\r\nthree\r\n"


# The question to the user


def test_a_write_outside_the_working_directory_says_so(place: Workplace, cwd: Path) -> None:
    (cwd / "link").symlink_to("/etc/passwd")
    (cwd / "inner").symlink_to("a")
    assert question(WRITE, place, path="/etc/passwd", content="x") == (
        "write /etc/passwd, outside the working directory:\nx"
    )
    assert question(WRITE, place, path="link", content="x") == (
        f"write /etc/passwd, outside the working directory\ngiven as {cwd}/link:\nx"
    )
    assert question(EDIT, place, path="../b", old="1", new="2").startswith(
        f"change {cwd.parent}/b, outside the working directory\ngiven as {cwd}/../b\n"
    )
    assert question(WRITE, place, path="inner", content="x") == (
        f"write {cwd}/a\ngiven as {cwd}/inner:\nx"
    )


def test_a_path_cannot_add_lines_to_the_question(place: Workplace, cwd: Path) -> None:
    path = "notes\nread x\tand y"
    assert question(WRITE, place, path=path, content="x").splitlines()[0] == (
        f"write {cwd}/notes⏎read x⇥and y:"
    )


def test_an_impossible_path_is_refused_instead_of_asking(
    place: Workplace,
) -> None:
    for tool in FILES:
        needed = {"content": "", "old": "x", "new": "", "pattern": "*"}
        known = tool.spec.parameters["properties"]
        arguments = {name: value for name, value in needed.items() if name in known}
        for path in ("a\0b", "~nobody-of-that-name"):
            with pytest.raises(ToolFailed):
                question(tool, place, path=path, **arguments)
        assert question(tool, place, path="x" * 5000, **arguments)


# Listing


def tree(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"here is {path}\n")


async def list_(place: Workplace, **arguments: object) -> list[str]:
    return (await use(LIST, place, **arguments)).splitlines()


async def test_files_are_listed_by_pattern(place: Workplace, cwd: Path) -> None:
    tree(cwd, "a.py", "b.md", "src/c.py", "src/deep/d.py", "src/deep/e.md")
    assert await list_(place) == ["a.py", "b.md", "src/"]
    assert await list_(place, pattern="*.py") == ["a.py"]
    assert await list_(place, pattern="**/*.py") == ["a.py", "src/c.py", "src/deep/d.py"]
    assert await list_(place, pattern="src/*") == ["src/c.py", "src/deep/"]
    assert await list_(place, pattern="*/*/*.md") == ["src/deep/e.md"]
    assert await list_(place, pattern="src/**/d.py") == ["src/deep/d.py"]
    assert await list_(place, pattern="**/deep/**/*.md") == ["src/deep/e.md"]
    assert await list_(place, path="src", pattern="**") == ["c.py", "deep/", *DEEP]
    assert await list_(place, pattern="*.rs") == ["[nothing]"]
    assert await list_(place, pattern="[") == ["[nothing]"]


DEEP = ["deep/d.py", "deep/e.md"]


async def test_folders_of_generated_files_are_skipped(place: Workplace, cwd: Path) -> None:
    tree(cwd, "a.py", ".git/b.py", "node_modules/c.py", "src/__pycache__/d.py", ".github/e.py")
    assert await list_(place, pattern="**/*.py") == ["a.py", ".github/e.py"]
    assert await list_(place, path=".git") == ["b.py"]
    assert await use(SEARCH, place, pattern="here") == (
        "a.py:1: here is a.py\n.github/e.py:1: here is .github/e.py"
    )


async def test_a_symlink_to_a_folder_is_not_followed(place: Workplace, cwd: Path) -> None:
    tree(cwd, "a/b")
    (cwd / "a/up").symlink_to("..")
    assert await list_(place, pattern="**/b") == ["a/b"]
    assert await use(SEARCH, place, pattern="here") == "a/b:1: here is a/b"


async def test_dangling_symlinks_are_listed(place: Workplace, cwd: Path) -> None:
    tree(cwd, "a", "locked/b", "z")
    (cwd / "loop").symlink_to("loop")
    (cwd / "long").symlink_to("x" * 300)
    (cwd / "dangling").symlink_to("nowhere")
    (cwd / "below").symlink_to("a/b")
    os.mkfifo(cwd / "pipe")
    (cwd / "locked").chmod(0)
    links = ["below", "dangling", "locked/", "long", "loop"]
    try:
        assert await list_(place) == ["a", *links, "pipe", "z"]
        found = await use(SEARCH, place, pattern="here")
    finally:
        (cwd / "locked").chmod(0o700)
    # Root can enter any folder.
    assert found.removesuffix("\nlocked/b:1: here is locked/b") == "a:1: here is a\nz:1: here is z"


@pytest.mark.parametrize("pattern", ["", ".", "..", "../*", "a/../b", "/etc/*", "./"])
async def test_a_pattern_outside_the_folder_is_refused(place: Workplace, pattern: str) -> None:
    with pytest.raises(ToolFailed, match="does not work"):
        await use(LIST, place, pattern=pattern)
    with pytest.raises(ToolFailed, match="does not work"):
        await use(SEARCH, place, pattern="x", files=pattern)


async def test_a_path_that_is_not_a_folder_is_named(place: Workplace, cwd: Path) -> None:
    tree(cwd, "a")
    reasons = {"missing": "No such file", "a": "Not a directory", "x" * 300: "name too long"}
    for path, reason in reasons.items():
        with pytest.raises(ToolFailed, match=reason):
            await use(LIST, place, path=path)


async def test_a_long_list_is_truncated_with_a_notice(place: Workplace, cwd: Path) -> None:
    for number in range(search.MAX_HITS + 1):
        (cwd / f"{number:04}").touch()
    listed = await list_(place)
    assert len(listed) == search.MAX_HITS + 1
    assert listed[-1] == "[more than 500; narrow the pattern]"
    (cwd / "0000").unlink()
    assert (await list_(place))[-1] == "0500"


async def test_an_endless_tree_is_given_up(
    place: Workplace, cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_SCANNED", 10)
    tree(cwd, *(f"{a}/{b}" for a in "abc" for b in "xyz"))
    assert (await list_(place, pattern="**/y"))[-1] == (
        "[stopped after 10 files and folders; narrow the pattern]"
    )


async def test_a_pattern_full_of_stars_is_not_slow(place: Workplace, cwd: Path) -> None:
    tree(cwd, "/".join(["a" * 200] * 12))
    before = time.monotonic()
    assert await list_(place, pattern="**/" * 300 + "*a" * 60 + "*b") == ["[nothing]"]
    assert time.monotonic() - before < 5


async def test_names_that_are_not_utf_8_can_be_shown(place: Workplace, cwd: Path) -> None:
    (cwd / os.fsdecode(b"bad\xff")).write_text("here")
    assert await list_(place) == ["bad\ufffd"]
    assert await use(SEARCH, place, pattern="here") == "bad\ufffd:1: here"


# Searching


async def test_lines_are_found_by_a_regular_expression(place: Workplace, cwd: Path) -> None:
    (cwd / "a.py").write_bytes(b"import os\r\n\r\n  def f(): \r\n")
    (cwd / "b.md").write_text("def\n")
    (cwd / "binary").write_bytes(b"def\0")
    assert await use(SEARCH, place, pattern=r"^\s*def\b") == "a.py:3: def f():\nb.md:1: def"
    assert await use(SEARCH, place, pattern="os$", files="*.py") == "a.py:1: import os"
    assert await use(SEARCH, place, pattern="def", path="b.md") == "b.md:1: def"
    assert await use(SEARCH, place, pattern="class") == "[nothing]"


async def test_a_missing_search_path_is_named(place: Workplace) -> None:
    for path in ("missing", "x" * 5000):
        with pytest.raises(ToolFailed, match="is not there"):
            await use(SEARCH, place, pattern="x", path=path)


@pytest.mark.parametrize("pattern", ["(", "*", "a{99999999999999999999}", "[z-a]", "(" * 5000])
async def test_an_invalid_regular_expression_is_reported_with_the_reason(
    place: Workplace, pattern: str
) -> None:
    with pytest.raises(ToolFailed, match=r"not a regular expression: ."):
        await use(SEARCH, place, pattern=pattern)


async def test_hits_and_long_lines_are_truncated(place: Workplace, cwd: Path) -> None:
    (cwd / "a").write_text(f"x{'y' * 10_000}\n" + "x\n" * 600)
    lines = (await use(SEARCH, place, pattern="x")).splitlines()
    assert len(lines[0]) < 250
    assert len(lines) == search.MAX_HITS + 1
    assert lines[-1] == "[more; narrow the search]"
    assert await use(SEARCH, place, pattern="y$") == "a:1: x" + "y" * 199


async def test_an_endless_search_is_stopped(
    place: Workplace, cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEARCH_SECONDS", 0.2)
    (cwd / "b").write_text("a" * 60 + "\n")
    found = await use(SEARCH, place, pattern="(a+)+b")
    assert found.startswith("[stopped: it took longer than")


async def test_a_stopped_search_returns_the_hits_so_far(
    place: Workplace, cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = isolation._talk

    async def limited(process: Process, given: bytes, output: bytearray) -> None:
        """The time limit is reached a few turns of the event loop after the first hit."""
        talking = asyncio.create_task(talk(process, given, output))
        try:
            while b"\n" not in output:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.01)
            for _ in range(10):
                await asyncio.sleep(0)
            assert not talking.done()
        finally:
            talking.cancel()
        raise TimeoutError

    monkeypatch.setattr(isolation, "_talk", limited)
    (cwd / "a").write_text("aab\n")
    (cwd / "b").write_text("a" * 60 + "\n")
    found = await use(SEARCH, place, pattern="(a+)+b")
    assert found.startswith("a:1: aab\n[stopped: it took longer than")


@pytest.mark.parametrize("steps", [0, 3, 6, 9, 50])
async def test_a_search_that_is_interrupted_leaves_no_process_behind(
    place: Workplace, cwd: Path, steps: int
) -> None:
    (cwd / "b").write_text("a" * 60 + "\n")
    before = children_of(os.getpid())  # those of other tests
    searching = asyncio.create_task(use(SEARCH, place, pattern="(a+)+b"))
    for _ in range(steps):
        await asyncio.sleep(0)
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching
    assert children_of(os.getpid()) <= before


def children_of(pid: int) -> set[str]:
    tasks = Path(f"/proc/{pid}/task")
    while True:
        try:
            return {c for task in tasks.iterdir() for c in (task / "children").read_text().split()}
        except FileNotFoundError:  # a thread has ended, and its children belong to another one now
            continue


# Files of the kernel


SPECIAL = (
    "/proc/kmsg",
    "/proc/self/mem",
    "/proc/self/pagemap",
    "/dev/zero",
    "/dev/null",
    "/dev/full",
    "/dev/tty",
    "/dev/stdin",
    "/proc",
)


@pytest.mark.parametrize("path", SPECIAL)
@pytest.mark.parametrize("tool", FILES)
async def test_a_tool_answers_for_any_special_file(
    place: Workplace, tool: Tool[Any], path: str
) -> None:
    given: dict[str, str] = {"path": path}
    if tool is WRITE:
        given["content"] = "x"
    if tool is EDIT:
        given |= {"old": "a", "new": "b"}
    if tool is SEARCH:
        given["pattern"] = "x"
        if path == "/proc":
            given["path"] = "/proc/self/attr"
    async with asyncio.timeout(30):
        with contextlib.suppress(ToolFailed):
            assert isinstance(await use(tool, place, **given), str)


async def test_a_socket_is_not_a_file_to_read_or_write(place: Workplace, cwd: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(cwd / "s"))
        for tool, more in ((READ, {}), (WRITE, {"content": "x"}), (EDIT, {"old": "a", "new": "b"})):
            with pytest.raises(ToolFailed, match="not an ordinary file"):
                await use(tool, place, path="s", **more)


async def test_a_file_with_nothing_to_read_yet_is_not_waited_for(
    place: Workplace, cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As /proc/kmsg, which looks like an ordinary file."""
    os.mkfifo(cwd / "pipe")
    monkeypatch.setattr(stat, "S_ISREG", stat.S_ISFIFO)
    writer = os.open(cwd / "pipe", os.O_RDWR)
    try:
        with pytest.raises(ToolFailed, match="cannot be read: it has no content to read now"):
            await use(READ, place, path="pipe")
    finally:
        os.close(writer)
