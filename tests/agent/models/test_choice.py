"""Which model is used, why, and what the alternatives are."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from segue import config
from segue.agent.models import choice as choices
from segue.agent.models import offers, routes
from segue.agent.models.anthropic import AnthropicModel
from segue.agent.models.base import Model, Prompt
from segue.agent.models.catalog import PROVIDERS, SERVERS, ApiFormat, ModelServer
from segue.agent.models.choice import Choice, Pool, choose, connect, survey
from segue.agent.models.gemini import GeminiModel
from segue.agent.models.local.model import LocalModel
from segue.agent.models.openai import OpenAIModel
from segue.agent.models.routes import Route
from segue.agent.models.scripted import ScriptedModel
from segue.config import Settings
from segue.core.errors import (
    BadKey,
    ForeignServer,
    LocalMissing,
    ModelError,
    ModelOffline,
    NoModel,
    UnknownModel,
)
from segue.core.secret import Secret
from segue.core.transcript import spoken
from segue.system import accounts
from segue.testing.http import HangUp, Request, Response, serving
from tests.fakes.models.anthropic import FakeAnthropic
from tests.fakes.models.gemini import FakeGemini
from tests.fakes.models.openai import FakeOpenAI, Say

NOBODY: tuple[ModelServer, ...] = ()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "config.toml").write_text("")
    return {
        "SEGUE_CONFIG": str(tmp_path / "config.toml"),
        "SEGUE_STORE": "sqlite:///nowhere.db",
        "SEGUE_MODELS": str(tmp_path / "models"),
    }


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long timeout, so that a server is found on a busy machine too."""
    monkeypatch.setattr(choices, "PROBE_SECONDS", 30.0)
    monkeypatch.setattr("segue.agent.models.offers.PROBE_SECONDS", 30.0)


@pytest.fixture
def settings(environ: Mapping[str, str]) -> Settings:
    """The environment of a user who has configured nothing."""
    return config.load(environ)


def with_file(environ: Mapping[str, str], text: str) -> Settings:
    Path(environ["SEGUE_CONFIG"]).write_text(text)
    return config.load(environ)


def server(url: str) -> ModelServer:
    return ModelServer(name="ollama", title="Ollama", port=urlsplit(url).port or 0)


def body_of(*names: str, **more: Any) -> bytes:
    data = [{"id": name, "object": "model"} for name in names]
    return msgspec.json.encode({"object": "list", "data": data, **more})


@contextlib.asynccontextmanager
async def answering(body: bytes, **more: Any) -> AsyncGenerator[ModelServer]:
    async def handle(request: Request) -> Response:
        assert (request.method, request.target) == ("GET", "/v1/models")
        return Response(body=body, **more)

    async with serving(handle) as url:
        yield server(url)


@pytest.fixture
def embedded(environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The package and the weights of the embedded model, or files that look like them."""
    from segue.agent.models.local.runtime import QWEN, mark

    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "xllamacpp.py").write_text("")
    monkeypatch.syspath_prepend(packages)
    folder = Path(environ["SEGUE_MODELS"])
    folder.mkdir()
    (folder / QWEN.file).write_bytes(b"")
    mark(folder, QWEN)


# Precedence


async def test_without_any_model_the_error_lists_the_ways_to_get_one(settings: Settings):
    with pytest.raises(NoModel) as caught:
        await choose(settings, servers=NOBODY)
    for way in ("ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "`segue model pull`", "`segue model`"):
        assert way in str(caught.value)


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        (("ANTHROPIC_API_KEY",), "anthropic/claude-sonnet-5"),
        (("OPENAI_API_KEY",), "openai/gpt-5.5"),
        (("GOOGLE_API_KEY",), "gemini/gemini-flash-latest"),
        (("OPENROUTER_API_KEY",), "openrouter/auto"),
        (("OPENROUTER_API_KEY", "OPENAI_API_KEY"), "openai/gpt-5.5"),
        (("GROQ_API_KEY", "OPENROUTER_API_KEY"), "openrouter/auto"),
    ],
)
async def test_the_first_provider_with_a_key_is_chosen(
    environ: dict[str, str], variables: tuple[str, ...], name: str
):
    settings = config.load({**environ, **dict.fromkeys(variables, "k")})
    choice = await choose(settings, servers=NOBODY)
    assert choice == Choice(name=name, why=f"{variables[-1]} is set.")


async def test_a_key_takes_precedence_over_a_server_which_is_not_queried(environ: dict[str, str]):
    async def never(_: Request) -> Response:
        raise AssertionError("asked")

    async with serving(never) as url:
        settings = config.load({**environ, "OPENAI_API_KEY": "k"})
        assert (await choose(settings, servers=[server(url)])).name == "openai/gpt-5.5"


async def test_a_server_that_the_user_did_not_choose_is_listed_but_not_used(settings: Settings):
    async with answering(body_of("llama3:latest", "phi4:latest")) as ollama:
        with pytest.raises(NoModel, match="type `segue model use ollama/llama3:latest`, or set"):
            await choose(settings, servers=[ollama])


async def test_the_embedded_model_takes_precedence_over_a_server_that_was_not_chosen(
    settings: Settings, embedded: None
):
    async with answering(body_of("phi4")) as ollama:
        assert (await choose(settings, servers=[ollama])).name == "local"


def listened_by(uid: int, port: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system's table show that this account listens on the port, on all IPv6 addresses."""
    head = "  sl  local_address remote_address st tx_queue rx_queue tr tm->when retrnsmt uid\n"
    row = (
        f"   0: {'0' * 32}:{port:04X} {'0' * 32}:0000 0A 00000000:00000000 00:00000000 00000000"
        f"  {uid}        0 1 1 0 100 0 0 10 0\n"
    )
    (folder / "tcp6").write_text(head + row)
    monkeypatch.setattr(accounts, "TABLES", (folder / "tcp6",))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who listens")
async def test_the_account_that_listens_on_a_port_is_found():
    async with answering(body_of()) as ollama:
        assert accounts.listeners(ollama.port) == {os.getuid()}
    assert accounts.listeners(ollama.port) == frozenset()


async def test_a_server_of_another_account_is_used_only_if_that_account_is_trusted(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with answering(body_of("phi4")) as ollama:
        listened_by(54321, ollama.port, tmp_path, monkeypatch)
        settings = config.load({**environ, "SEGUE_MODEL": "ollama/phi4"})
        with pytest.raises(ForeignServer) as caught:
            await choose(settings, servers=[ollama])
        assert caught.value.fields["account"] == caught.value.fields["accounts"] == "54321"
        (seen,) = (await survey(config.load(environ), servers=[ollama])).considered[-1:]
        assert "as 54321, not as you" in seen.why
        trusting = with_file(environ, "model = 'ollama'\nserver_accounts = ['54321']")
        assert (await choose(trusting, servers=[ollama])).name == "ollama/phi4"


async def test_the_account_of_a_server_is_checked_at_every_turn(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    port = 11434
    pool = Pool(with_file(environ, "model = 'openai/x'\n[keys]\nopenai = 'k'"))
    pool._names["mine"] = "ollama/phi4"
    listened_by(os.geteuid(), port, tmp_path, monkeypatch)
    await pool.get("mine")
    listened_by(54321, port, tmp_path, monkeypatch)
    with pytest.raises(ForeignServer):
        await pool.get("mine")
    await pool.close()


async def test_a_changed_key_is_used_and_a_model_in_use_keeps_the_old_one(
    environ: dict[str, str],
):
    async def ask(model: Model) -> None:
        prompt = Prompt(system="", messages=(spoken("Hello", datetime.now(UTC)),), max_tokens=9)
        async for _ in model.stream(prompt):
            pass

    async with FakeOpenAI(lambda _: Say(text="Hello."), key="right").serving() as url:
        environ["OPENAI_BASE_URL"] = url
        chosen = "model = 'openai/gpt-test'\n[keys]\nopenai = "
        pool = Pool(with_file(environ, f"{chosen}'wrong'"))
        former = await pool.get(None)
        pool.reload(with_file(environ, f"{chosen}'right'"))
        await ask(await pool.get(None))
        with pytest.raises(BadKey):
            await ask(former)
        await pool.close()


async def test_the_embedded_model_is_the_last_choice(settings: Settings, embedded: None):
    choice = await choose(settings, servers=NOBODY)
    assert choice == Choice(name="local", why="The embedded model is here.")


async def test_a_key_of_a_provider_without_a_default_model_needs_a_model_name(
    environ: dict[str, str],
):
    settings = config.load({**environ, "GROQ_API_KEY": "k"})
    with pytest.raises(NoModel):
        await choose(settings, servers=NOBODY)
    told = {c.title: c.why for c in (await survey(settings, servers=NOBODY)).considered}
    assert told["Groq"] == "GROQ_API_KEY is set, but its models have to be chosen by name."
    with pytest.raises(ModelError, match="`segue model list groq` shows them"):
        await choose(settings, "groq", servers=NOBODY)


async def test_a_requested_model_takes_precedence_over_settings_and_settings_over_keys(
    environ: dict[str, str],
):
    keys = {**environ, "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    settings = with_file(keys, 'model = "openai/gpt-x"')
    assert await choose(settings, servers=NOBODY) == Choice(
        name="openai/gpt-x", why=f"Set by model in {environ['SEGUE_CONFIG']}."
    )
    wish = await choose(settings, " anthropic/claude-x ", servers=NOBODY)
    assert wish == Choice(name="anthropic/claude-x", why="You asked for it.")
    settings = config.load({**keys, "SEGUE_MODEL": "scripted"})
    assert await choose(settings) == Choice(name="scripted", why="Set by SEGUE_MODEL.")


# A named model is used or refused


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("anthropic/claude-x", "no key for Anthropic; set ANTHROPIC_API_KEY or keys.anthropic in"),
        ("gemini", "no key for Gemini; set GEMINI_API_KEY or GOOGLE_API_KEY or keys.gemini in"),
        ("openai/gpt-5.5", "no key for OpenAI"),
        ("nonsense/x", "no provider 'nonsense'; there are anthropic, openai,"),
        ("nonsense", "no provider 'nonsense'"),
        ("/x", "no provider ''"),
        ("local/x", "no provider 'local'"),
    ],
)
async def test_a_named_model_that_cannot_work_is_refused_and_not_replaced(
    environ: dict[str, str], embedded: None, name: str, told: str
):
    settings = config.load({**environ, "OPENROUTER_API_KEY": "k"})
    with pytest.raises(ModelError, match=told):
        await choose(settings, name, servers=SERVERS[:0])
    broken = config.load({**environ, "OPENROUTER_API_KEY": "k", "SEGUE_MODEL": name})
    with pytest.raises(ModelError, match=told):
        await choose(broken, servers=NOBODY)
    with pytest.raises(ModelError, match=told):
        connect(name, settings, servers=NOBODY)


async def test_a_named_server_that_is_not_running_is_an_error(environ: dict[str, str]):
    async with answering(b"") as gone:
        pass
    settings = config.load({**environ, "ANTHROPIC_API_KEY": "k"})
    with pytest.raises(ModelOffline) as caught:
        await choose(settings, "ollama/llama3", servers=[gone])
    assert caught.value.fields["url"] == gone.base_url


async def test_a_named_embedded_model_that_is_missing_is_an_error(settings: Settings):
    with pytest.raises(LocalMissing) as caught:
        await choose(settings, "local", servers=NOBODY)
    assert "its weights" in str(caught.value.fields["missing"])


async def test_the_embedded_model_needs_runtime_and_weights(
    environ: dict[str, str], settings: Settings, embedded: None
):
    assert (await choose(settings, "local")).name == "local"
    shutil.rmtree(environ["SEGUE_MODELS"])
    with pytest.raises(LocalMissing) as caught:
        await choose(settings, "local")
    assert caught.value.fields["missing"] == "its weights (491 MB)"


@pytest.mark.parametrize("name", ["ollama/llama3", "ollama/llama3:latest", "ollama"])
async def test_the_model_of_a_server_can_be_abbreviated(settings: Settings, name: str):
    async with answering(body_of("nomic-embed-text:latest", "llama3:latest")) as ollama:
        choice = await choose(settings, name, servers=[ollama])
    assert choice.name == "ollama/llama3:latest"


async def test_a_model_that_the_server_does_not_have_is_refused(settings: Settings):
    async with answering(body_of("llama3:latest")) as ollama:
        with pytest.raises(UnknownModel) as caught:
            await choose(settings, "ollama/llama", servers=[ollama])
        assert caught.value.fields == {"provider": "Ollama", "model": "llama"}


# Servers on this machine


@pytest.mark.parametrize(
    ("body", "more"),
    [
        (b"<h1>It works</h1>", {}),
        (b"[]", {}),
        (b'{"data": [{"id": "a"}]}', {}),
        (b'{"object": "list", "data": [{"id": "a"}]}', {}),
        (b'{"object": "list", "data": "a"}', {}),
        (b'{"object": "list", "data": [{"id": 3, "object": "model"}]}', {}),
        (b'{"object": "list"}', {}),
        (b"\xff", {}),
        (body_of("a"), {"status": 404}),
        (body_of("a"), {"status": 401}),
        (body_of("a"), {"status": 302, "headers": {"Location": "/v1/models"}}),
    ],
)
async def test_another_program_on_the_port_is_not_a_model_server(
    settings: Settings, body: bytes, more: dict[str, Any]
):
    async with answering(body, **more) as other:
        with pytest.raises(NoModel):
            await choose(settings, servers=[other])
        found = await survey(settings, servers=[other])
    told = {c.title: c.why for c in found.considered}
    assert told["Ollama"] == f"What answers at {other.place} is something else."


@pytest.mark.parametrize(
    "body",
    [
        b'{"object": "list", "data": null}',
        body_of(),
        body_of("nomic-embed-text", "bge-m3", "all-minilm:l6", "jina-reranker", "whisper-1"),
        body_of("\x1b[2J", "a\u202eb", ""),
    ],
)
async def test_a_server_without_a_model_for_conversations_is_not_chosen(
    settings: Settings, body: bytes
):
    async with answering(body) as ollama:
        with pytest.raises(NoModel):
            await choose(settings, servers=[ollama])
        found = await survey(settings, servers=[ollama])
    told = {c.title: c.why for c in found.considered}
    assert told["Ollama"].endswith(", but has no model for a conversation.")


async def test_servers_are_queried_concurrently(settings: Settings):
    asked, everyone = 0, asyncio.Event()

    async def waits_for_the_others(_: Request) -> Response:
        nonlocal asked
        asked += 1
        if asked == 6:
            everyone.set()
        await everyone.wait()
        raise HangUp

    async with serving(waits_for_the_others) as url, answering(body_of("phi4")) as last:
        found = await choices.answering(settings, [*(server(url),) * 6, last])
    assert [one.offer for one in found] == ["ollama/phi4"]


async def test_queries_to_servers_time_out_quickly(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(choices, "PROBE_SECONDS", 0.1)

    async def silent(_: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def endless(_: Request) -> Response:
        async def forever() -> AsyncGenerator[bytes]:
            while True:
                yield b" "
                await asyncio.sleep(0.01)

        return Response(body=forever())

    async with serving(silent) as one, serving(endless) as two:
        assert not await choices.answering(settings, [server(one), server(two)])


async def test_a_server_on_this_machine_is_queried_without_a_proxy(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with answering(body_of("phi4")) as ollama:
        assert (await choose(settings, "ollama", servers=[ollama])).name == "ollama/phi4"


# Survey


async def test_a_survey_lists_everything_in_order(environ: dict[str, str], embedded: None):
    settings = config.load({**environ, "GEMINI_API_KEY": "k"})
    async with answering(body_of("phi4")) as ollama:
        found = await survey(settings, servers=[ollama])
    assert found.choice == Choice(name="gemini/gemini-flash-latest", why="GEMINI_API_KEY is set.")
    titles = [provider.title for provider in PROVIDERS.values()]
    assert [c.title for c in found.considered] == [*titles, "Embedded model", "Ollama"]
    usable = {c.name for c in found.considered if c.name}
    assert usable == {"gemini/gemini-flash-latest", "local"}
    assert found.considered[-1].offer == "ollama/phi4"
    told = {c.title: c.why for c in found.considered}
    assert told["Anthropic"] == "ANTHROPIC_API_KEY is not set."


async def test_a_survey_says_why_the_named_model_cannot_be_used(environ: dict[str, str]):
    settings = config.load({**environ, "OPENAI_API_KEY": "k", "SEGUE_MODEL": "nonsense/x"})
    found = await survey(settings, servers=NOBODY)
    assert found.choice is None
    assert "no provider 'nonsense'" in found.problem


async def test_an_endpoint_takes_precedence_over_a_provider_of_the_same_name(
    environ: dict[str, str],
):
    settings = with_file(
        {**environ, "OPENAI_API_KEY": "k"},
        "[endpoints.openai]\nurl = 'http://h/v1'\n[endpoints.ollama]\nurl = 'http://i/v1'\n",
    )
    async with answering(body_of("phi4")) as ollama:
        with pytest.raises(NoModel):
            await choose(settings, servers=[ollama])
        assert (await choose(settings, "ollama/x", servers=[ollama])).name == "ollama/x"
    assert routes.find("openai/x", settings).base_url == "http://h/v1"
    assert routes.find("openai/x", settings).key is None


# Connecting


async def connected(name: str, settings: Settings, **more: Any) -> Any:
    model = connect(name, settings, **more)
    await model.close()
    return model


async def test_every_api_format_has_a_client(environ: dict[str, str]):
    keys = {v: "k" for several in config.KEY_VARIABLES.values() for v in several}
    settings = config.load({**environ, **keys})
    kinds = {
        ApiFormat.OPENAI: OpenAIModel,
        ApiFormat.ANTHROPIC: AnthropicModel,
        ApiFormat.GEMINI: GeminiModel,
    }
    for provider in PROVIDERS.values():
        model = await connected(f"{provider.name}/some-model", settings)
        assert type(model) is kinds[provider.wire]
        assert model.name == f"{provider.name}/some-model"
        assert model._client.base_url == provider.base_url
        assert model.context >= 32_768
    assert type(await connected("scripted", settings)) is ScriptedModel
    assert type(await connected("local", settings)) is LocalModel


@pytest.mark.parametrize(
    ("name", "sent", "shown", "context"),
    [
        ("anthropic", "claude-sonnet-5", "anthropic/claude-sonnet-5", 1_000_000),
        ("anthropic/claude-3-haiku", "claude-3-haiku", "anthropic/claude-3-haiku", 200_000),
        ("openai/gpt-5.5", "gpt-5.5", "openai/gpt-5.5", 400_000),
        ("openai/gpt-4-turbo-x", "gpt-4-turbo-x", "openai/gpt-4-turbo-x", 128_000),
        ("openai/gpt-4-0613", "gpt-4-0613", "openai/gpt-4-0613", 8_192),
        ("gemini/", "gemini-flash-latest", "gemini/gemini-flash-latest", 1_000_000),
        ("openrouter", "openrouter/auto", "openrouter/auto", 128_000),
        ("openrouter/auto", "openrouter/auto", "openrouter/auto", 128_000),
        ("openrouter/openrouter/auto", "openrouter/auto", "openrouter/auto", 128_000),
        ("openrouter/openai/gpt-5", "openai/gpt-5", "openrouter/openai/gpt-5", 400_000),
        ("openrouter/a/b:free", "a/b:free", "openrouter/a/b:free", 64_000),
        ("work/org/model", "org/model", "work/org/model", 100_000),
    ],
)
async def test_a_name_selects_the_model(
    environ: dict[str, str], name: str, sent: str, shown: str, context: int
):
    keys = {v: "k" for several in config.KEY_VARIABLES.values() for v in several}
    table = "[endpoints.work]\nurl = 'http://h/v1'\ncontext = 100000\nimages = true\n"
    settings = with_file({**environ, **keys}, table)
    model = await connected(name, settings)
    assert (model.name, model._model, model.context) == (shown, sent, context)
    assert (await choose(settings, name, servers=NOBODY)).name == shown


async def test_an_endpoint_sets_the_capabilities_of_its_models(environ: dict[str, str]):
    rows = "[endpoints.a]\nurl = 'http://h/v1'\nsmall = true\n[endpoints.b]\nurl = 'http://h'\n"
    settings = with_file(environ, f"{rows}images = true\nkey = 'k'\n")
    a, b = await connected("a/x", settings), await connected("b/x", settings)
    assert (a.small, a.images, b.small, b.images) == (True, False, False, True)
    assert b._client.headers == {"Authorization": "Bearer k"}
    assert a._client.headers == {}


async def test_openai_at_another_url_needs_no_key(environ: dict[str, str]):
    settings = config.load({**environ, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    assert (await choose(settings, "openai/x", servers=NOBODY)).name == "openai/x"
    assert (await connected("openai/x", settings))._client.base_url.endswith(":9/v1")
    with pytest.raises(NoModel):
        await choose(settings, servers=NOBODY)


@pytest.mark.parametrize("name", ["anthropic", "openai", "gemini"])
async def test_a_key_that_does_not_fit_in_a_header_is_a_bad_key(environ: dict[str, str], name: str):
    variable = config.KEY_VARIABLES[name][0]
    settings = config.load({**environ, variable: "schlüssel"})
    with pytest.raises(BadKey, match=variable):
        connect(name, settings)


def test_choosing_a_model_by_key_loads_no_client():
    program = (
        "import asyncio, sys; from segue import config; from segue.agent.models import choice;"
        "s = config.load({'SEGUE_CONFIG': '/dev/null', 'SEGUE_STORE': 'x', 'OPENAI_API_KEY': 'k'});"
        "print(asyncio.run(choice.choose(s)).name, 'httpx2' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "openai/gpt-5.5 False"


def test_the_modules_of_providers_load_no_settings():
    names = ", ".join(f"segue.agent.models.{name}" for name in ("anthropic", "openai", "gemini"))
    program = f"import sys, {names}; print('segue.config' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "False"


def test_the_catalog_has_the_configured_providers_and_servers():
    assert list(PROVIDERS) == list(config.KEY_VARIABLES)
    assert [(s.name, s.port) for s in SERVERS] == [
        ("ollama", 11434),
        ("lmstudio", 1234),
        ("llamacpp", 8080),
    ]


# Models that services offer


def route(name: str, base_url: str, key: str | None) -> routes.Route:
    provider = PROVIDERS[name]
    secret = Secret(key, "THE_KEY") if key else None
    return routes.Route(service=provider, base_url=base_url, key=secret)


@contextlib.asynccontextmanager
async def fake(name: str, models: list[str]) -> AsyncGenerator[tuple[str, str]]:
    """A strict fake: its base URL and its key."""
    match name:
        case "anthropic":
            async with serving(FakeAnthropic([], key="k", models=models, page=2)) as url:
                yield url, "k"
        case "gemini":
            async with serving(FakeGemini([], key="k", models=models, page=2)) as url:
                yield f"{url}/v1beta", "k"
        case _:
            async with FakeOpenAI([], key="k", models=models).serving() as url:
                yield url, "k"


WIRES = pytest.mark.parametrize("name", ["openai", "anthropic", "gemini"])


@WIRES
async def test_every_page_of_the_models_is_read(name: str):
    models = [f"model-{n}" for n in range(5)]
    async with fake(name, models) as (url, key):
        assert await offers.models(route(name, url, key), 10) == tuple(models)


@WIRES
@pytest.mark.parametrize("key", ["wrong", None, "schlüssel"])
async def test_a_wrong_key_is_reported_as_a_wrong_key(name: str, key: str | None):
    async with fake(name, ["m"]) as (url, _):
        with pytest.raises(BadKey):
            await offers.models(route(name, url, key), 10)


async def test_an_endless_list_of_pages_is_cut_off():
    async def handle(_: Request) -> Response:
        return Response(body=b'{"data": [{"id": "a"}], "has_more": true, "last_id": "a"}')

    async with serving(handle) as url:
        assert len(await offers.models(route("anthropic", url, "k"), 10)) == 20


async def test_an_endless_response_is_not_a_list():
    async def handle(_: Request) -> Response:
        async def forever() -> AsyncGenerator[bytes]:
            while True:
                yield b" " * 1_000_000

        return Response(body=forever())

    async with serving(handle) as url:
        with pytest.raises(ModelError, match="no list of models"):
            await offers.models(route("openai", url, "k"), 30)


async def test_an_error_of_one_service_does_not_affect_the_others(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    ask = offers.models

    async def models(route: Route, _: float) -> tuple[str, ...]:
        return await ask(route, 0.2 if route.name == "mute" else 30)

    monkeypatch.setattr(offers, "models", models)

    async def broken(_: Request) -> Response:
        return Response(status=500)

    async def silent(_: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    async with (
        FakeOpenAI([], key="k", models=("gpt-a", "text-embedding-3", "gpt-b")).serving() as url,
        serving(broken) as bad,
        serving(silent) as mute,
        answering(body_of("phi4")) as ollama,
        answering(b"") as gone,
    ):
        tables = f"[endpoints.bad]\nurl = '{bad}/v1'\n[endpoints.mute]\nurl = '{mute}/v1'\n"
        given = {**environ, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": url}
        settings = with_file(given, tables)
        servers = [ollama, ModelServer(name="lmstudio", title="LM Studio", port=gone.port)]
        found = {o.name: o for o in await offers.available(settings, servers=servers)}
        assert list(found) == ["bad", "mute", "openai", "ollama", "local"]
        assert found["openai"].models == ("openai/gpt-a", "openai/gpt-b")
        assert found["ollama"].models == ("ollama/phi4",)
        assert "HTTP 500" in found["bad"].problem
        assert "no answer within 0.2 seconds" in found["mute"].problem
        assert "segue model pull" in found["local"].problem
        (only,) = await offers.available(settings, "lmstudio", servers=servers)
        assert only.problem
        (only,) = await offers.available(settings, "openai", servers=servers)
        assert only == found["openai"]


async def test_only_an_available_provider_can_be_listed(settings: Settings, embedded: None):
    (local,) = await offers.available(settings, "local", servers=NOBODY)
    assert local.models == ("local",)
    with pytest.raises(ModelError, match="no key for Anthropic"):
        await offers.available(settings, "anthropic", servers=NOBODY)
    with pytest.raises(ModelError, match="no provider 'x'"):
        await offers.available(settings, "x", servers=NOBODY)


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("gpt-a", True),
        ("gpt-b", True),
        ("gpt-b-latest", True),
        ("gpt-b-20260101", True),
        ("gpt-a:free", True),
        ("gpt", False),
        ("gpt-c", False),
        ("gpt.a", False),
    ],
)
async def test_a_model_is_looked_up_without_cost(environ: dict[str, str], model: str, known: bool):
    fake = FakeOpenAI([], key="k", models=("gpt-a", "gpt-b-20260101"))
    async with fake.serving() as url:
        settings = config.load({**environ, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": url})
        choice = await choose(settings, f"openai/{model}", servers=NOBODY)
        if known:
            assert await offers.check(choice, settings) == ""
        else:
            with pytest.raises(UnknownModel) as caught:
                await offers.check(choice, settings)
            assert caught.value.fields == {"provider": "OpenAI", "model": model}
    assert fake.requests == [], "no conversation was begun"


async def test_a_model_that_cannot_be_looked_up_causes_a_warning_and_a_bad_key_an_error(
    environ: dict[str, str],
):
    async with FakeOpenAI([], key="k").serving() as url:
        settings = config.load({**environ, "OPENAI_API_KEY": "x", "OPENAI_BASE_URL": url})
        choice = Choice(name="openai/gpt-test", why="")
        with pytest.raises(BadKey) as caught:
            await offers.check(choice, settings)
        assert caught.value.fields["setting"] == "OPENAI_API_KEY"
    assert "cannot be reached" in await offers.check(choice, settings)
    assert await offers.check(Choice(name="scripted", why=""), settings) == ""
