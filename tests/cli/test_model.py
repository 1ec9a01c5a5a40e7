"""`segue model`, as a user types it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from click.testing import CliRunner, Result

from segue import config
from segue.agent.models import choice, offers
from segue.agent.models.catalog import ModelServer
from segue.cli import first_model
from segue.cli.main import main
from segue.cli.model import Around
from segue.system import accounts
from segue.testing.http import Handler, Request, Response, serving
from tests import program
from tests.config.test_writing import RECORD
from tests.fakes.models.openai import FakeOpenAI, Say, refusal, too_many

Segue = Callable[..., Result]
KEY = "sk-very-secret"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long timeout, so that a server is found on a busy machine too."""
    for module in (choice, offers):
        monkeypatch.setattr(module, "PROBE_SECONDS", 30.0)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has configured nothing."""
    (tmp_path / "config.toml").write_text("# mine\n")
    (tmp_path / "config.toml").chmod(0o600)
    return {
        "SEGUE_CONFIG": str(tmp_path / "config.toml"),
        "SEGUE_STORE": "sqlite:///nowhere.db",
        "SEGUE_MODELS": str(tmp_path / "models"),
    }


@pytest.fixture
def segue(environ: Mapping[str, str]) -> Segue:
    """The program, on a machine without servers unless some are given."""

    def run(*words: str, servers: tuple[ModelServer, ...] = (), **more: str) -> Result:
        around = Around(environ={**environ, **more}, servers=servers)
        result = CliRunner().invoke(main, ["model", *words], obj=around)
        assert KEY not in result.output
        return result

    return run


@contextlib.contextmanager
def in_a_thread(handler: Handler) -> Generator[str]:
    """The URL of a server in a separate event loop, because a command runs its own loop."""
    loop = asyncio.new_event_loop()
    ready: list[str] = []
    up, done = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with serving(handler) as url:
            ready.append(url)
            up.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert up.wait(30)
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(30)
        loop.close()


@contextlib.contextmanager
def ollama(*names: str) -> Generator[ModelServer]:
    async def handle(_: Request) -> Response:
        data = [{"id": name, "object": "model"} for name in names]
        return Response(body=msgspec.json.encode({"object": "list", "data": data}))

    with in_a_thread(handle) as url:
        yield ModelServer(name="ollama", title="Ollama", port=urlsplit(url).port or 0)


@contextlib.contextmanager
def openai(script: list[Any], **more: Any) -> Generator[dict[str, str]]:
    """A fake OpenAI, and the environment that selects it."""
    fake = FakeOpenAI(script, key=KEY, **more)
    with in_a_thread(fake._handle) as url:
        yield {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY}


def listened_by_another_account(port: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = f"0: 0100007F:{port:04X} 00000000:0000 0A 0:0 0:0 0 54321 0 1\n"
    (folder / "tcp").write_text(f"sl local_address …\n{row}")
    monkeypatch.setattr(accounts, "TABLES", (folder / "tcp",))


# Servers of this machine


@pytest.mark.parametrize("agrees", [True, False])
def test_the_user_is_asked_once_whether_to_trust_another_accounts_server(
    agrees: bool, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    server = ModelServer(name="ollama", title="Ollama", port=40_000)
    listened_by_another_account(server.port, tmp_path, monkeypatch)
    with CliRunner().isolation(input="y\n" if agrees else "\n") as (out, *_):
        settings = config.load(environ)
        assert (
            first_model.confirm_server("ollama/phi4", settings, environ, servers=[server]) is agrees
        )
        asked = out.getvalue().decode()
    assert "The server at 127.0.0.1:40000 runs as 54321, not as you." in asked
    assert config.load(environ).server_accounts == (("54321",) if agrees else ())


def test_without_a_terminal_a_server_of_another_account_is_refused(
    segue: Segue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with ollama("phi4") as server:
        listened_by_another_account(server.port, tmp_path, monkeypatch)
        result = segue("use", "ollama/phi4", servers=(server,))
    assert result.exit_code == 1
    assert "runs as 54321, not as you" in result.output
    assert "`segue config set server_accounts 54321`" in result.output


# segue model


def test_without_a_model_the_command_says_what_to_type(segue: Segue):
    result = segue()
    assert result.exit_code == 0
    first, *ways = result.output.splitlines()[:4]
    assert first == "No model is available yet. To get one:"
    assert "ANTHROPIC_API_KEY" in ways[0]
    assert "segue model pull" in ways[2]
    assert "  - Anthropic       ANTHROPIC_API_KEY is not set.\n" in result.output


def test_the_model_in_use_is_shown_with_its_reason_and_the_alternatives(segue: Segue):
    with ollama("llama3:latest") as server:
        result = segue(servers=(server,), ANTHROPIC_API_KEY=KEY)
    assert result.exit_code == 0
    assert result.output.startswith("anthropic/claude-sonnet-5\n  ANTHROPIC_API_KEY is set.\n")
    there = f"Ollama answers at {server.place}. Type `segue model use ollama/llama3:latest` to use"
    assert f"  - Ollama          {there} it.\n" in result.output
    assert "  - OpenAI          OPENAI_API_KEY is not set.\n" in result.output
    assert "segue model use NAME" in result.output
    assert len(result.output.splitlines()) < 24, "one screen"


def test_json_has_the_same_content(segue: Segue):
    result = segue("--json", ANTHROPIC_API_KEY=KEY)
    output = msgspec.json.decode(result.output)
    assert output["choice"] == {
        "name": "anthropic/claude-sonnet-5",
        "why": "ANTHROPIC_API_KEY is set.",
    }
    assert output["considered"][-1]["title"] == "Embedded model"
    assert output["problem"] == ""
    assert output["warnings"] == []


def test_a_named_model_that_cannot_be_used_is_reported_and_not_replaced(segue: Segue):
    result = segue(SEGUE_MODEL="nonsense/x", ANTHROPIC_API_KEY=KEY)
    assert result.exit_code == 0
    assert result.output.startswith("The model 'nonsense/x' cannot be used: there is no provider")


def test_warnings_are_shown(segue: Segue, environ: dict[str, str]):
    path = Path(environ["SEGUE_CONFIG"])
    path.write_text(f"[keys]\nopenai = '{KEY}'\n")
    path.chmod(0o644)
    warning = f"{path} holds keys, and others can read it. Type `chmod 600 {path}`."
    assert f"Warning: {warning}\n" in segue().output
    assert msgspec.json.decode(segue("--json").output)["warnings"] == [warning]


# segue model list


def test_the_models_are_listed_by_the_names_to_type(segue: Segue):
    with openai([], models=["gpt-a", "text-embedding-3"]) as more, ollama("phi4") as server:
        result = segue("list", servers=(server,), **more)
        assert result.exit_code == 0
        listed = "OpenAI\n  openai/gpt-a\n\nOllama\n  ollama/phi4\n\nEmbedded model\n  (Not here"
        assert result.output.startswith(listed)
        assert segue("list", "openai", **more).output == "OpenAI\n  openai/gpt-a\n"
        (offer,) = msgspec.json.decode(segue("list", "openai", "--json", **more).output)["offers"]
    assert offer["models"] == ["openai/gpt-a"]


def test_a_provider_that_does_not_answer_is_reported_beside_the_others(segue: Segue):
    with openai([]) as more, ollama("phi4") as server:
        result = segue("list", servers=(server,), **{**more, "OPENAI_API_KEY": "wrong"})
    assert result.exit_code == 0
    assert "OpenAI\n  (OpenAI rejected the API key. Check OPENAI_API_KEY" in result.output
    assert "  ollama/phi4\n" in result.output


def test_an_unknown_provider_cannot_be_listed(segue: Segue):
    result = segue("list", "nonsense")
    assert result.exit_code == 1
    assert "no provider 'nonsense'" in result.output


def test_listed_model_names_have_no_control_characters(segue: Segue):
    with ollama("a\x1b[2J", "b\u202ec", "phi4") as server:
        for words in ((), ("list",), ("list", "--json"), ("--json",)):
            assert not {"\x1b", "\u202e"} & set(segue(*words, servers=(server,)).output)
        result = segue("use", "ollama/\x1b[2J", servers=(server,))
    assert result.exit_code == 1
    assert "\x1b" not in result.output


# segue model use


def test_a_chosen_model_is_saved(segue: Segue, environ: dict[str, str]):
    path = Path(environ["SEGUE_CONFIG"])
    with ollama("llama3:latest") as server:
        result = segue("use", "ollama/llama3", servers=(server,))
        assert result.exit_code == 0
        assert result.output == f"The model is now ollama/llama3:latest (saved in {path}).\n"
        shown = segue(servers=(server,), ANTHROPIC_API_KEY=KEY).output
    assert shown.startswith(f"ollama/llama3:latest\n  Set by model in {path}.\n")
    assert path.read_text() == f'# mine\nmodel = "ollama/llama3:latest"\n{RECORD}'


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai/gpt-z", "OpenAI has no model 'gpt-z'"),
        ("anthropic/x", "no key for Anthropic"),
        ("ollama/x", "no provider 'ollama'"),
        ("local", "segue model pull"),
    ],
)
def test_a_name_that_cannot_work_is_not_written(
    segue: Segue, environ: dict[str, str], name: str, expected: str
):
    with openai([]) as more:
        result = segue("use", name, **more)
    assert result.exit_code == 1
    assert expected in result.output
    assert config.load(environ).model is None


def test_a_model_with_a_bad_key_is_not_written(segue: Segue, environ: dict[str, str]):
    with openai([]) as more:
        result = segue("use", "openai/gpt-test", **{**more, "OPENAI_API_KEY": "wrong"})
    assert result.exit_code == 1
    assert config.load(environ).model is None


def test_a_model_that_cannot_be_checked_is_written_with_a_warning(
    segue: Segue, environ: dict[str, str]
):
    with openai([]) as more:
        pass
    result = segue("use", "openai/gpt-z", **more)
    assert result.exit_code == 0
    assert "It could not be checked: OpenAI cannot be reached" in result.output
    assert config.load(environ).model == "openai/gpt-z"


def test_a_variable_that_overrides_the_choice_is_named(segue: Segue):
    output = segue("use", "scripted", SEGUE_MODEL="openai/gpt-5.5").output
    assert output.endswith("The environment variable SEGUE_MODEL=openai/gpt-5.5 overrides it.\n")
    assert "SEGUE_MODEL" not in segue("use", "scripted").output


# segue model test


def test_a_named_model_is_tried(segue: Segue):
    script = [Say(text="Hello \x1b[31mthere!", completion_tokens=12)]
    with openai(script) as more:
        result = segue("test", "openai/gpt-test", **more)
    assert result.exit_code == 0
    name, answer, times, speed = result.output.splitlines()
    assert (name, answer) == ("openai/gpt-test", "  Hello [31mthere!")
    assert times.startswith("  first word after 0.")
    assert speed.startswith("  12 tokens, ")


def test_the_model_in_use_is_tried_when_none_is_named(segue: Segue):
    result = segue("test", SEGUE_MODEL="scripted")
    assert result.exit_code == 0
    assert "I am a scripted stand-in, not a real model" in result.output


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ([Say(text="")], "the answer is empty"),
        ([too_many("0")] * 9, "is too busy: Rate limit reached"),
    ],
)
def test_the_reason_for_a_failed_trial_is_printed(segue: Segue, script: list[Any], expected: str):
    with openai(script) as more:
        result = segue("test", "openai/gpt-test", **more)
    assert result.exit_code == 1
    assert expected in result.output


def test_an_error_from_a_server_has_no_control_characters(segue: Segue):
    with openai([refusal(400, "no \x1b[2J\u202ereason")]) as more:
        result = segue("test", "openai/gpt-test", **more)
    assert result.exit_code == 1
    assert "refused the request: no [2Jreason" in result.output


def test_a_trial_without_a_model_is_refused(segue: Segue):
    result = segue("test")
    assert result.exit_code == 1
    assert "No model is available yet" in result.output


# The program


def test_the_program_has_the_model_command(environ: dict[str, str]):
    given = {**environ, "SEGUE_MODEL": "scripted", "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    ran = program.run("model", environment=given, cwd="/")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("scripted\n  Set by SEGUE_MODEL.\n")
    helped = CliRunner().invoke(main, ["--help"]).output
    assert "Show or choose the model." in helped


def test_the_version_is_printed_without_reading_settings(environ: dict[str, str]):
    Path(environ["SEGUE_CONFIG"]).write_text("broken")
    ran = subprocess.run(
        [sys.executable, "-m", "segue", "--version"],
        env={**environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith("segue, version ")
