"""The examples do what they say, and stay short."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from segue.core.session import ME
from segue.store import open as open_store

EXAMPLE = Path(__file__).parents[1] / "examples" / "take_a_turn.py"


async def test_a_turn_is_taken_in_under_20_lines(tmp_path: Path):
    assert len(EXAMPLE.read_text().splitlines()) < 20
    url = f"sqlite://{tmp_path}/segue.db"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        EXAMPLE,
        env={"SEGUE_STORE": url, "SEGUE_MODEL": "scripted", "HOME": str(tmp_path)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate(b"Hello there\n")
    assert process.returncode == 0
    assert printed.decode().endswith(
        "not a real model, and can only repeat what I hear: Hello there"
    )
    async with await open_store(url) as store:
        (session,) = await store.sessions.list(ME)
        kept = await store.transcripts.load(session.id)
        assert [message.role.value for message in kept] == ["user", "assistant"]
