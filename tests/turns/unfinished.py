"""A turn that does not finish, in a separate process that a test kills."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import structs

import segue.store
from segue import config
from segue.agent.models.base import Model
from segue.agent.models.scripted import ScriptedModel
from segue.config import Approvals
from segue.core.approval import Policy
from segue.core.transcript import ToolCall
from segue.turns import Turns
from segue.turns.agents import Agents

WORDS = "Here is what I found. " * 3


class Only:
    """Provides a single model."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def get(self, wanted: str | None) -> Model:
        return self._model

    async def close(self) -> None: ...


def begin(url: str, session_id: str, what: str, shown: Path) -> None:
    """Take one turn with the script for `what`, and write the names of its events to `shown`."""
    hang = ToolCall("c1", "shell", '{"command": "echo $$ > pid; sleep 50"}')
    read = ToolCall("c0", "list_files", "{}")
    script = {"words": [WORDS], "tool": [read, hang, "Never."]}[what]
    model = ScriptedModel(script, pause=30 if what == "words" else 0)
    asyncio.run(_take(url, session_id, model, shown))


async def _take(url: str, session_id: str, model: Model, shown: Path) -> None:
    settings = structs.replace(
        config.load({"SEGUE_STORE": url}), approvals=Approvals(policy=Policy.AUTO)
    )
    async with (
        await segue.store.open(url) as store,
        Turns(store, Agents(store, settings, Only(model)), titles=False) as turns,
    ):
        with shown.open("w", buffering=1) as file:
            async for event in turns.take_turn(session_id, "Go"):
                print(type(event).__name__, file=file)
