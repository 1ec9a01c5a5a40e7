"""The conversation in a real pty."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.terminal.pty import terminal


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of a person who has a stand-in for a model and nothing else."""
    return {
        "HOME": str(tmp_path),
        "SEGUE_STORE": f"sqlite://{tmp_path}/segue.db",
        "SEGUE_MODEL": "scripted",
    }


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


async def test_what_is_typed_is_answered(environment: dict[str, str], cwd: Path):
    async with terminal(environment=environment, cwd=cwd) as shown:
        await shown.ready()
        shown.say("Good morning")
        await shown.see("can only repeat what I hear:\nGood morning")
        await shown.ready()
        shown.press("c-d")
        assert await shown.end() == 0
        assert "To come back: segue resume 'Good morning'" in shown.text
