"""Conditions: a command, a page or a file, and whether it has changed."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from segue.agent.tools.base import Workplace
from segue.agent.tools.search import PrivateFiles
from segue.core.errors import UserError
from segue.jobs import conditions
from segue.jobs.values import EXCERPT_LIMIT, Condition, ConditionKind, Seen
from segue.testing.http import Request, Response, serving

PLAIN = {"Content-Type": "text/plain"}
ENVIRONMENT = {"PATH": os.defpath, "COLOUR": "blue"}


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(cwd=tmp_path, private_network=True)


async def look(kind: ConditionKind, target: str, place: Workplace) -> Seen:
    return await conditions.check(Condition(kind, target), place, ENVIRONMENT)


async def command(target: str, place: Workplace) -> Seen:
    return await look(ConditionKind.COMMAND, target, place)


async def file(target: str, place: Workplace) -> Seen:
    return await look(ConditionKind.FILE, target, place)


# Commands


async def test_a_command_is_compared_by_its_output(place: Workplace):
    first = await command("echo $COLOUR; pwd", place)
    assert first.excerpt == f"blue\n{place.cwd}"
    assert first == await command("echo blue; pwd", place)
    assert first.digest != (await command("echo red; pwd", place)).digest


async def test_a_change_in_the_middle_of_a_long_output_is_seen(place: Workplace):
    """Only the start and the end of a long output are kept."""
    long = "seq 1 200000; echo {}; seq 1 200000"
    first, second = [await command(long.format(n), place) for n in "ab"]
    assert first.digest != second.digest
    assert len(first.excerpt) < EXCERPT_LIMIT + 100


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        ("echo broken; exit 3", "[exit code 3] broken"),
        ("no-such-command-here", "[exit code 127]"),
        ("kill -9 $$", "[ended by signal 9"),
    ],
)
async def test_a_command_that_fails_is_not_a_change(place: Workplace, failing: str, reason: str):
    with pytest.raises(UserError) as failed:
        await command(failing, place)
    assert reason in str(failed.value)
    assert f"`{failing}`" in str(failed.value)


async def test_a_command_that_takes_too_long_is_stopped(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(conditions, "COMMAND_SECONDS", 0)
    with pytest.raises(UserError, match="it took longer"):
        await command("sleep 600", place)


async def test_a_folder_that_is_gone_fails_the_command(tmp_path: Path):
    with pytest.raises(UserError, match="could not be started"):
        await command("true", Workplace(cwd=tmp_path / "gone"))


# Pages


class Site:
    """A page that the test changes."""

    def __init__(self) -> None:
        self.response = Response(200, PLAIN, b"old")

    async def __call__(self, request: Request) -> Response:
        return self.response


async def test_a_page_is_compared_by_its_text(place: Workplace):
    site = Site()
    html = {"Content-Type": "text/html"}
    async with serving(site) as url:
        site.response = Response(200, html, b"<script>1</script><p>Two  rooms</p>")
        first = await look(ConditionKind.PAGE, url, place)
        site.response = Response(200, html, b"<script>2</script><h1>Two rooms</h1>")
        assert (await look(ConditionKind.PAGE, url, place)).digest == first.digest
        site.response = Response(200, html, b"<p>Three rooms</p>")
        second = await look(ConditionKind.PAGE, url, place)
    assert (first.excerpt.split(), second.excerpt) == (["Two", "rooms"], "Three rooms")
    assert first.digest != second.digest


async def test_a_page_that_answers_with_an_error_is_not_a_change(place: Workplace):
    site = Site()
    site.response = Response(503, PLAIN, b"try later")
    async with serving(site) as url:
        with pytest.raises(UserError, match="it answers with status 503"):
            await look(ConditionKind.PAGE, url, place)


async def test_a_page_on_a_private_network_is_not_read(tmp_path: Path):
    async with serving(Site()) as url:
        with pytest.raises(UserError, match="private network"):
            await look(ConditionKind.PAGE, url, Workplace(cwd=tmp_path))


# Files


async def test_a_file_that_appears_changes_and_vanishes_is_seen(place: Workplace):
    missing = await file("notes", place)
    assert missing.excerpt == "[it is not there]"
    (place.cwd / "notes").write_text("one")
    one = await file("notes", place)
    os.utime(place.cwd / "notes", (0, 0))
    assert one == await file(str(place.cwd / "notes"), place)
    (place.cwd / "notes").write_text("two")
    two = await file("notes", place)
    assert [one.excerpt, two.excerpt] == ["one", "two"]
    assert len({seen.digest for seen in (missing, one, two)}) == 3


async def test_a_folder_is_compared_with_everything_in_it(place: Workplace):
    deep = place.cwd / "in" / "here"
    deep.mkdir(parents=True)
    empty = await file(".", place)
    (deep / "new").write_text("x")
    filled = await file(".", place)
    assert "in/here/new (1 bytes, changed at " in filled.excerpt
    os.utime(deep / "new", (0, 0))
    touched = await file(".", place)
    assert len({seen.digest for seen in (empty, filled, touched)}) == 3
    assert (await file("in/here/new", place)).digest != touched.digest


async def test_a_private_file_is_compared_and_not_shown(tmp_path: Path):
    place = Workplace(cwd=tmp_path, private=PrivateFiles(names=frozenset({"key"})))
    (tmp_path / "key").write_text("secret")
    first = await file("key", place)
    (tmp_path / "key").write_text("other secret")
    second = await file("key", place)
    assert first.excerpt == second.excerpt == "[not shown]"
    assert first.digest != second.digest


async def test_a_pipe_is_not_waited_for(place: Workplace):
    os.mkfifo(place.cwd / "pipe")
    assert "0 bytes" in (await file("pipe", place)).excerpt


async def test_a_link_that_leads_elsewhere_is_a_change(place: Workplace):
    link = place.cwd / "link"
    for name in "ab":
        (place.cwd / name).write_text(name)
    link.symlink_to("a")
    first = await file("link", place)
    link.unlink()
    link.symlink_to("b")
    assert [first.excerpt, (await file("link", place)).excerpt] == ["a", "b"]
    link.unlink()
    link.symlink_to("link")
    with pytest.raises(UserError):
        await file("link", place)


async def test_a_file_that_cannot_be_read_fails(place: Workplace):
    name = "x" * 300
    with pytest.raises(UserError, match="File name too long"):
        await file(name, place)


async def test_a_file_with_nothing_to_read_yet_is_not_waited_for(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
):
    """As /proc/kmsg, which looks like an ordinary file."""
    os.mkfifo(place.cwd / "pipe")
    monkeypatch.setattr(stat, "S_ISREG", stat.S_ISFIFO)
    writer = os.open(place.cwd / "pipe", os.O_RDWR)
    try:
        async with asyncio.timeout(10):
            with pytest.raises(UserError, match="it has no content to read now"):
                await file("pipe", place)
    finally:
        os.close(writer)
