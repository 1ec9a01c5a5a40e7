"""`segue model pull`: its output."""

from __future__ import annotations

import asyncio
import hashlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from segue.agent.models.local.pull import PullProgress
from segue.agent.models.local.runtime import Site, Weights, has_weights
from segue.cli import first_model
from segue.core.errors import PullFailed
from segue.testing.http import Request, Response, serving

DATA = bytes(range(256)) * 4000


def weights(url: str) -> Weights:
    return Weights(
        label="A tiny model",
        file="tiny.gguf",
        size=len(DATA),
        sha256=hashlib.sha256(DATA).hexdigest(),
        licence="MIT",
        sources=(Site(name="the test's own site", url=f"{url}/tiny"),),
    )


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that look like the package that runs models."""
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "xllamacpp.py").write_text("")
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setenv("PYTHONPATH", str(packages))


async def pulled(folder: Path, site: Weights) -> None:
    """Pull as the command does with --yes, in a separate event loop."""
    await asyncio.to_thread(first_model.pull, folder, ask=False, weights=site)


async def test_with_yes_it_does_not_ask_and_without_a_terminal_prints_few_lines_of_progress(
    runtime: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    async def handle(request: Request) -> Response:
        assert request.headers["range"] == "bytes=0-"
        return Response(206, {"Content-Range": f"bytes 0-{len(DATA) - 1}/{len(DATA)}"}, DATA)

    folder = tmp_path / "models"
    async with serving(handle) as url:
        await pulled(folder, weights(url))
        output = capsys.readouterr().out
        assert has_weights(folder, weights(url))
        assert output.startswith("A tiny model, 1 MB, licence MIT\n  from the test's own site,")
        assert str(folder) in output
        assert "100 %  1 of 1 MB  from the test's own site\n" in output
        assert "\r" not in output
        assert output.endswith("Type `segue model test local` to try it.\n")
        await pulled(folder, weights(url))
    assert capsys.readouterr().out.startswith("The embedded model is already installed.")


async def test_an_interrupted_download_is_resumed(runtime: None, tmp_path: Path):
    half = len(DATA) // 2

    async def handle(request: Request) -> Response:
        assert request.headers["range"] == f"bytes={half}-"
        headers = {"Content-Range": f"bytes {half}-{len(DATA) - 1}/{len(DATA)}"}
        return Response(206, headers, DATA[half:])

    (tmp_path / "tiny.gguf.part").write_bytes(DATA[:half])
    async with serving(handle) as url:
        await pulled(tmp_path, weights(url))
        assert has_weights(tmp_path, weights(url))


async def test_the_reason_for_a_failure_is_printed(runtime: None, tmp_path: Path):
    async def handle(_: Request) -> Response:
        return Response(503)

    async with serving(handle) as url:
        with pytest.raises(PullFailed) as caught:
            await pulled(tmp_path, weights(url))
        assert "503" in str(caught.value.fields["reason"])


def test_without_a_terminal_nothing_is_downloaded_unless_yes_is_given(tmp_path: Path):
    given = {
        "HOME": str(tmp_path),
        "SEGUE_CONFIG": "/dev/null",
        "SEGUE_MODELS": str(tmp_path / "models"),
        "PYTHONPATH": os.pathsep.join(sys.path),
        # Nothing can be downloaded here, whatever the program tries.
        "ALL_PROXY": "http://127.0.0.1:9",
        "PIP_PROXY": "http://127.0.0.1:9",
    }
    done = subprocess.run(
        [sys.executable, "-m", "segue", "model", "pull"],
        env=given,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 2
    assert "491 MB, licence Apache-2.0" in done.stdout
    assert "No terminal to ask on. Add --yes to download it." in done.stderr
    assert not (tmp_path / "models").exists()


def test_a_user_at_a_terminal_is_asked_first_and_may_refuse(tmp_path: Path):
    ours, theirs = pty.openpty()
    given = {
        "SEGUE_CONFIG": "/dev/null",
        "SEGUE_STORE": "sqlite:///nowhere.db",
        "SEGUE_MODELS": str(tmp_path / "models"),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "NO_PROXY": "*",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "segue", "model", "pull"],
        env=given,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    os.close(theirs)
    os.write(ours, b"n\n")
    said, _ = process.communicate(timeout=50)
    os.close(ours)
    assert process.returncode == 1
    assert "491 MB, licence Apache-2.0" in said.decode()
    assert "Download it now? [Y/n]" in said.decode()
    assert not (tmp_path / "models").exists()


def test_progress_on_a_terminal_is_one_line(capsys: pytest.CaptureFixture[str]):
    meter = first_model.ProgressMeter(watched=True)
    meter.said("Collecting a very long \x1b[2Jline\n")
    for done in (0, 5, 5, 1000):
        meter.moved(PullProgress(done=done * 1_000_000, total=1_000_000_000, source="there"))
    meter.end()
    output = capsys.readouterr().out
    assert output.count("\n") == 1
    assert output.count("\r") == 4, "the same is not shown twice"
    assert "\x1b" not in output
    last = output.rstrip("\n").split("\r")[-1]
    assert last == "100 %  1000 of 1000 MB  from there"


def test_a_shorter_progress_line_overwrites_a_longer_one(capsys: pytest.CaptureFixture[str]):
    meter = first_model.ProgressMeter(watched=True)
    meter.said("a long line")
    meter.said("short")
    assert capsys.readouterr().out == "\ra long line\rshort      "
