"""What the program imports until it is ready, by name: a library that is not needed would slow down
each start.

A package that a start needs is added to its set below, with the change that needs it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from segue.core.address import Platform
from segue.platforms import registry
from tests.harness import pty
from tests.harness.gateways import alive, begin_python
from tests.harness.terminal import Person
from tests.harness.terminal import person as person

WITHIN = 50.0
OURS = frozenset({"segue", "tests", "coverage", "cython_runtime"})
"""Packages that are no libraries of ours. Those with an underscore are parts of others."""
VERSION = frozenset({"click"})
SETTINGS = VERSION | {"msgspec", "platformdirs", "typing_extensions"}
MARKDOWN = frozenset({"markdown_it", "mdurl", "pygments", "rich"})
PROMPT = SETTINGS | MARKDOWN | {"apsw", "prompt_toolkit", "wcwidth"}
"""What shows Markdown is imported in a thread, behind the first prompt."""
SERVING = frozenset({"anyio", "h11", "idna", "starlette", "uvicorn", "websockets"})
"""For a server of ours."""
PAGE = SETTINGS | SERVING | {"apsw", "cronsim", "markdown_it", "mdurl"}
"""For a gateway that has the page alone."""
HTTP = SETTINGS | {"httpx2", "idna"}
AIOHTTP = frozenset({"aiohttp", "aiohappyeyeballs", "aiosignal", "attr", "frozenlist"}) | {
    *("multidict", "propcache", "yarl")
}
# websockets and aiohttp_socks import it where it is installed.
SOCKS = frozenset({"python_socks"})
ADAPTERS = {
    # httpx imports rich and pygments for its command line.
    Platform.TELEGRAM: HTTP | {"telegram", "httpx", "rich", "pygments"},
    Platform.DISCORD: HTTP | AIOHTTP | {"discord"},
    Platform.SLACK: HTTP | SOCKS | {"websockets"},
    # peewee imports psycopg where it is installed.
    Platform.MATRIX: HTTP
    | AIOHTTP
    | SOCKS
    | {"nio", "vodozemac", "peewee", "playhouse", "Crypto", "aiofiles", "aiohttp_socks"}
    | {"atomicwrites", "attrs", "cachetools", "h2", "h11", "hpack", "hyperframe", "rpds"}
    | {"jsonschema", "jsonschema_specifications", "referencing", "unpaddedbase64"}
    | {"psycopg", "psycopg_binary"},
    # The server that its messages arrive at.
    Platform.WHATSAPP: HTTP | SOCKS | SERVING | {"markdown_it", "mdurl"},
    Platform.SIGNAL: HTTP,
}
"""For the adapter of each platform, until it connects."""
VALUES = {
    Platform.TELEGRAM: 'token = "123456:AAE-abcdefghijklmnopqrstuvwxyz012345"',
    Platform.DISCORD: 'token = "x.y.z"',
    Platform.SLACK: 'token = "xoxb-1"\napp_token = "xapp-1"',
    Platform.MATRIX: 'url = "http://127.0.0.1:1"\ninvites_from = "@a:b"\ntoken = "t"',
    Platform.WHATSAPP: 'phone = "491234"\ntoken = "t"\napp_secret = "0123456789abcdef"',
    Platform.SIGNAL: 'account = "+4912345678"',
}
SLOW = frozenset({"asyncio", "email", "hashlib", "http", "logging", "socket", "sqlite3", "ssl"})
"""Modules of Python that take as long as the rest of `segue --version`."""
SERVER = frozenset({"segue.web.server", "segue.web.adapter"})
"""Modules that are imported only to serve something."""


def watched(setup: str, call: str, file: Path) -> str:
    """A program that imports and calls this, and writes the names of all new modules to a file."""
    return (
        f"import sys\nbefore = {{*sys.modules}}\n{setup}\ntry:\n    {call}\n"
        f"finally:\n    open({str(file)!r}, 'w').write(' '.join(sys.modules.keys() - before))\n"
    )


def modules(file: Path) -> set[str]:
    return set(file.read_text().split())


def third_party(names: set[str]) -> set[str]:
    """The packages among the modules that belong neither to Python nor to us."""
    tops = {name.partition(".")[0] for name in names}
    return {top for top in tops - sys.stdlib_module_names - OURS if top[0] != "_"}


def run(program: str, *arguments: str, environment: dict[str, str]) -> None:
    subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**pty.CODE, **environment},
        check=True,
        capture_output=True,
        timeout=WITHIN,
    )


def test_the_version_needs_almost_nothing(person: Person, tmp_path: Path):
    file = tmp_path / "modules"
    call = "main(['--version'], standalone_mode=False)"
    program = watched("from segue.cli.main import main", call, file)
    run(program, environment=person.environment)
    assert third_party(modules(file)) - VERSION == set()
    assert not SLOW & modules(file)
    assert {name for name in modules(file) if name.startswith("segue.cli.")} == {"segue.cli.main"}


async def test_the_first_prompt_needs_no_library_of_a_platform(person: Person, tmp_path: Path):
    """Nor one of a model, before it is asked."""
    file = tmp_path / "modules"
    program = watched("from segue.cli.main import main", "main([])", file)
    end, theirs = os.openpty()
    process = subprocess.Popen(  # noqa: ASYNC220 - it takes no time
        [sys.executable, "-c", program],
        env={**pty.CODE, **person.environment, "TERM": "xterm", "LANG": "C.UTF-8"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        async with asyncio.timeout(WITHIN):
            seen = b""
            while b"new session" not in seen:
                seen += await asyncio.to_thread(os.read, end, 65536)
            os.write(end, pty.KEYS["c-d"].encode())
            await asyncio.to_thread(_read_to_its_end, end)
            assert await asyncio.to_thread(process.wait) == 0
    finally:
        process.kill()
        process.wait()
        os.close(end)
    assert third_party(modules(file)) - PROMPT == set()
    assert not SERVER & modules(file)


def _read_to_its_end(terminal: int) -> None:
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:  # the program has closed its end
        pass


async def test_a_gateway_without_platforms_needs_the_page_alone(person: Person, tmp_path: Path):
    """Not even the libraries of a platform that is disabled."""
    disabled = "".join(
        f"[platforms.{platform}]\nenabled = false\n{VALUES[platform]}\n"
        for platform in (Platform.TELEGRAM, Platform.DISCORD)
    )
    settings = tmp_path / "config.toml"
    settings.write_text(disabled)
    settings.chmod(0o600)
    person.environment["SEGUE_CONFIG"] = str(settings)
    file = tmp_path / "modules"
    program = watched("from segue.cli.main import main", "main(['gateway', 'run'])", file)
    with begin_python(person, "-c", program) as gateway:
        try:
            async with asyncio.timeout(WITHIN):
                while not any(Platform.WEB in it.platforms for it in await alive(person)):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            gateway.send_signal(signal.SIGTERM)
            _, errors = await asyncio.to_thread(gateway.communicate, timeout=WITHIN)
        finally:
            gateway.kill()
    assert gateway.returncode == 0, errors
    assert third_party(modules(file)) - PAGE == set()


@pytest.mark.parametrize("platform", ADAPTERS)
def test_an_adapter_needs_the_libraries_of_its_platform_alone(
    platform: Platform, person: Person, tmp_path: Path
):
    file = tmp_path / "modules"
    settings = tmp_path / "config.toml"
    settings.write_text(f"[web]\nenabled = false\n[platforms.{platform}]\n{VALUES[platform]}\n")
    settings.chmod(0o600)
    setup = "from segue import config\nfrom segue.gateway import connections, service"
    call = (
        "found, server = connections.load_adapters(config.load(), None)\n"
        f"    assert [adapter.platform for adapter in found] == [{platform.value!r}]\n"
        "    assert not isinstance(found[0], connections.UnavailableAdapter), found[0]"
    )
    run(
        watched(setup, call, file),
        environment={**person.environment, "SEGUE_CONFIG": str(settings)},
    )
    assert third_party(modules(file)) - ADAPTERS[platform] == set()
    if platform is not Platform.WHATSAPP:  # its messages arrive at our server
        assert not SERVER & modules(file)


def test_every_platform_is_watched():
    assert {*ADAPTERS} == {spec.platform for spec in registry.BUILT_IN}
