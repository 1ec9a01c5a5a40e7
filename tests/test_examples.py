"""The example works as documented, and stays short."""

from __future__ import annotations

import io
import runpy
from pathlib import Path

import pytest

from segue.core.session import ME
from segue.store import open as open_store
from segue.store import sessions, transcripts

EXAMPLE = Path(__file__).parents[1] / "examples" / "take_a_turn.py"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment of a user with a store, who runs the example."""
    url = f"sqlite://{tmp_path}/segue.db"
    for name, value in {
        "SEGUE_STORE": url,
        "SEGUE_MODEL": "scripted",
        "SEGUE_CONFIG": f"{tmp_path}/config.toml",
        "HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    return url


@pytest.fixture
def printed(url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The output of the example, after the message hello."""
    monkeypatch.setattr("sys.stdin", io.StringIO("Hello there\n"))
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    return capsys.readouterr().out


async def test_a_turn_can_be_run_in_under_20_lines(url: str, printed: str):
    assert len(EXAMPLE.read_text().splitlines()) < 20
    assert printed.endswith("not a real model, and can only repeat what I hear: Hello there")
    async with await open_store(url) as store:
        (session,) = await sessions.list_sessions(store, ME)
        kept = await transcripts.load(store, session.id)
        assert [message.role.value for message in kept] == ["user", "assistant"]
