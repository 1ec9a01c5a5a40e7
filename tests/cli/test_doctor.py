"""`segue doctor`: its findings, and that it always reports them."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

import segue.store
from segue.cli import doctor
from segue.cli.main import main
from segue.cli.model import Around
from segue.core.address import Platform
from segue.core.session import ME
from segue.store import gateways, owners, sessions
from segue.store.gateways import LinkState
from tests import program
from tests.cli.test_model import openai
from tests.harness.screen import on_screen, plain
from tests.program import constants

KEY = "sk-very-secret"


PATIENT = {"segue.cli.doctor._SECONDS": 60.0, "segue.cli.doctor._REACH_SECONDS": 30.0}
"""A long timeout, so that servers are found on a busy machine too."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in PATIENT.items():
        module, _, constant = name.rpartition(".")
        monkeypatch.setattr(import_module(module), constant, seconds)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A user with the scripted model."""
    return {
        **constants(PATIENT),
        "SEGUE_CONFIG": str(tmp_path / "config.toml"),
        "SEGUE_STORE": f"sqlite://{tmp_path}/segue.db",
        "SEGUE_MODELS": str(tmp_path / "models"),
        "SEGUE_MODEL": "scripted",
    }


def run(environ: Mapping[str, str], *words: str, **more: str) -> Result:
    around = Around(environ={**environ, **more}, servers=())
    result = CliRunner().invoke(main, ["doctor", *words], obj=around)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert KEY not in result.output
    return result


def findings(environ: Mapping[str, str], **more: str) -> dict[str, tuple[str, str]]:
    """Verdict and text of each check, by name."""
    result = run(environ, "--json", **more)
    output: list[dict[str, str]] = msgspec.json.decode(result.stdout)["findings"]
    worst = any(finding["verdict"] == "problem" for finding in output)
    assert result.exit_code == int(worst)
    return {finding["about"]: (finding["verdict"], finding["told"]) for finding in output}


def write(environ: Mapping[str, str], text: str, mode: int = 0o600) -> Path:
    path = Path(environ["SEGUE_CONFIG"])
    path.write_text(text)
    path.chmod(mode)
    return path


def test_every_check_of_a_healthy_installation_is_ok(environ: dict[str, str], tmp_path: Path):
    path = write(environ, "# mine\n")
    found = findings(environ)
    assert {verdict for verdict, _ in found.values()} == {"ok"}
    assert found["program"][1].startswith(f"Segue {segue.__version__} on Python 3.")
    assert "apsw 3." in found["packages"][1]
    assert "websockets 1" in found["packages"][1]
    assert "telegram" not in found["packages"][1]
    assert found["settings"][1] == f"{path} is valid."
    assert found["store"][1].startswith(f"sqlite://{tmp_path}/segue.db: 0 sessions, ")
    assert found["store"][1].endswith(", intact.")
    assert f"free at {tmp_path}." in found["disk"][1]
    assert found["model"][1] == "scripted. Set by SEGUE_MODEL."
    assert "segue model pull" in found["embedded"][1]
    assert found["terminal"][1] == "Not a terminal: printing plain text."
    assert found["gateway"][1].startswith("Not running.")


def test_the_text_output_has_a_line_per_check(environ: dict[str, str]):
    write(environ, "# mine\n")
    result = run(environ)
    assert result.exit_code == 0
    assert "ok       settings  " in result.stdout
    assert len(result.stdout.splitlines()) == len(findings(environ))


def test_invalid_settings_are_a_problem_and_the_rest_is_checked(environ: dict[str, str]):
    write(environ, "modle = 'x'\n")
    found = findings(environ)
    verdict, output = found["settings"]
    assert verdict == "problem"
    assert "there is no setting modle" in output
    assert "`segue config edit`" in output
    assert found.keys() == {"program", "packages", "settings", "terminal"}


def test_keys_that_others_can_read_are_a_warning(environ: dict[str, str]):
    path = write(environ, f"[keys]\nopenai = '{KEY}'\n", 0o644)
    verdict, output = findings(environ)["settings"]
    assert verdict == "warning"
    assert f"`chmod 600 {path}`" in output


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        ("sqlite://{}/no/where/segue.db", "The folder {}/no/where does not exist."),
        ("nonsense", "is not a store"),
        ("sqlite://{}/config.toml", "is not a Segue store"),
        ("postgresql://me:sk-very-secret@127.0.0.1:1/db", "does not answer"),
    ],
)
def test_a_store_that_cannot_be_opened_is_a_problem(
    environ: dict[str, str], tmp_path: Path, store: str, expected: str
):
    write(environ, "# mine\n")
    found = findings(environ, SEGUE_STORE=store.format(tmp_path))
    assert found["store"][0] == "problem"
    assert expected.format(tmp_path) in found["store"][1]
    assert found["model"][0] == "ok", "the others are looked at"


def test_a_damaged_store_is_a_problem(environ: dict[str, str], tmp_path: Path):
    write(environ, "# mine\n")
    path = tmp_path / "segue.db"

    async def fill() -> None:
        async with await segue.store.open(environ["SEGUE_STORE"]) as store:
            await owners.ensure(store, ME)
            for number in range(50):
                await sessions.create(store, ME, Platform.LOCAL, title=f"title {number}")

    asyncio.run(fill())
    data = bytearray(path.read_bytes())
    page = data.rindex(b"title 7") // 4096 * 4096
    data[page + 1 : page + 12] = b"\xff" * 11
    path.write_bytes(data)
    path.with_name("segue.db-wal").unlink()
    verdict, output = findings(environ)["store"]
    assert verdict == "problem"
    assert "restore a backup" in output


def test_an_unexpected_error_in_a_check_is_reported_and_the_others_run(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    def broken(_: object) -> Any:
        raise ZeroDivisionError("odd \x1b[2J")

    write(environ, "# mine\n")
    monkeypatch.setattr(doctor, "store", broken)
    found = findings(environ)
    assert found["store"][0] == "problem"
    assert found["store"][1].startswith("The check failed: ZeroDivisionError: odd")
    assert "\x1b" not in run(environ).stdout
    assert found["model"][0] == "ok"


def test_a_missing_package_is_a_problem(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "_packages", lambda: ["click", "no-such-package"])
    verdict, output = findings(environ)["packages"]
    assert verdict == "problem"
    assert output.startswith("Missing: no-such-package. Type `make clean` and `make run` ")


@pytest.mark.parametrize(
    ("limit", "verdict"), [("_LITTLE_SPACE", "warning"), ("_NO_SPACE", "problem")]
)
def test_a_nearly_full_disk_is_reported(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, limit: str, verdict: str
):
    monkeypatch.setattr(doctor, limit, 10**18)
    assert findings(environ)["disk"][0] == verdict


# The model


def test_a_model_that_answers_is_ok(environ: dict[str, str]):
    with openai([], models=["gpt-a"]) as more:
        found = findings(environ, **more, SEGUE_MODEL="openai/gpt-a")["model"]
        assert found == ("ok", "openai/gpt-a. Set by SEGUE_MODEL. It is reachable.")
        verdict, output = findings(environ, **more, SEGUE_MODEL="openai/gpt-z")["model"]
        assert verdict == "problem"
        assert "OpenAI has no model 'gpt-z'" in output
        wrong = {**more, "OPENAI_API_KEY": "wrong", "SEGUE_MODEL": "openai/gpt-a"}
        verdict, output = findings(environ, **wrong)["model"]
    assert verdict == "problem"
    assert "OpenAI rejected the API key. Check OPENAI_API_KEY" in output


def test_a_model_that_does_not_answer_is_a_problem(environ: dict[str, str]):
    with openai([]) as more:
        pass
    verdict, output = findings(environ, **more, SEGUE_MODEL="openai/gpt-a")["model"]
    assert verdict == "problem"
    assert "OpenAI cannot be reached" in output


def test_a_service_that_does_not_list_its_models_is_a_warning(environ: dict[str, str]):
    with openai([]) as more:
        elsewhere = {**more, "OPENAI_BASE_URL": more["OPENAI_BASE_URL"] + "/other"}
        verdict, output = findings(environ, **elsewhere, SEGUE_MODEL="openai/gpt-a")["model"]
    assert verdict == "warning"
    assert "It could not be checked" in output


def test_without_a_model_it_says_what_to_type(environ: dict[str, str]):
    verdict, output = findings(environ, SEGUE_MODEL="")["model"]
    assert verdict == "problem"
    assert "segue model pull" in output


# The gateway


def test_a_running_gateway_is_reported(environ: dict[str, str]):
    async def running() -> tuple[str, str]:
        async with await segue.store.open(environ["SEGUE_STORE"]) as store:
            await gateways.announce(store, "desk", [Platform.WEB, Platform.MATRIX])
            return (await asyncio.to_thread(findings, environ))["gateway"]

    assert asyncio.run(running()) == ("ok", "Running: desk serves matrix, web.")


def test_a_platform_that_is_not_connected_is_a_problem(environ: dict[str, str]):
    async def running() -> tuple[str, str]:
        async with await segue.store.open(environ["SEGUE_STORE"]) as store:
            await gateways.announce(store, "desk", [Platform.WEB, Platform.MATRIX])
            await gateways.report(store, Platform.MATRIX, LinkState.DOWN, detail="it has no token")
            return (await asyncio.to_thread(findings, environ))["gateway"]

    verdict, told = asyncio.run(running())
    assert verdict == "problem"
    assert told.endswith("matrix is not connected: it has no token.")


# The terminal


def test_the_capabilities_of_the_terminal_are_reported(environ: dict[str, str]):
    code, shown = on_screen(environ, "doctor", columns=200)
    assert code == 0
    assert "200 columns, 256 colours, UTF-8." in shown
    assert "\x1b[32mok\x1b[0m       terminal" in shown
    code, shown = on_screen({**environ, "NO_COLOR": "1"}, "doctor", columns=80)
    assert code == 0
    assert "80 columns, no colours, UTF-8." in shown
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("more", "columns", "expected"),
    [
        ({"TERM": "dumb"}, 80, "printing plain text."),
        ({"PYTHONIOENCODING": "latin-1"}, 80, "`export LC_ALL=C.UTF-8`"),
        ({}, 30, "Make the window"),
    ],
)
def test_a_terminal_with_few_capabilities_is_a_warning(
    environ: dict[str, str], more: dict[str, str], columns: int, expected: str
):
    code, shown = on_screen({**environ, "NO_COLOR": "1", **more}, "doctor", columns=columns)
    assert code == 0
    assert expected in " ".join(shown.split())
    assert "warning  terminal" in shown


# Time


def test_a_check_that_hangs_is_reported_within_seconds(environ: dict[str, str], tmp_path: Path):
    """A program that is stopped in the middle of a write blocks other writers. A name server that
    does not answer keeps a thread busy even after the timeout."""
    assert run(environ).exit_code == 0
    impatient = constants({"segue.cli.doctor._SECONDS": 2.0, "segue.cli.doctor.model": STUCK})
    gate = os.open(tmp_path / "segue.db-run" / "gate", os.O_RDWR)
    fcntl.flock(gate, fcntl.LOCK_EX)
    try:
        ran = program.run("doctor", environment={**plain(environ), **impatient}, cwd=tmp_path)
    finally:
        os.close(gate)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "problem  store     No answer in time." in ran.stdout
    assert "problem  model     No answer in time." in ran.stdout
    assert "ok       program " in ran.stdout


def stuck(*_: object) -> None:
    asyncio.run(asyncio.to_thread(threading.Event().wait, 40))


STUCK = f"{__name__}:{stuck.__name__}"
