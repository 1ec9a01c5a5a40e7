"""A user at home: a terminal, a gateway in a separate process, and a model with a memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import segue.store
from segue.store.processes import whose
from tests.fakes.models.openai import Answer, Say
from tests.harness.gateways import alive, none_left, segue_says
from tests.harness.networks import reserved_port
from tests.harness.terminal import Model, Person
from tests.program import PATH
from tests.web.chromium.watched_page import link
from tests.web.gateways import environment


class Remembering(Model):
    """Repeats every message of the session. A request without tools asks for a title."""

    def __init__(self) -> None:
        super().__init__(())

    def _answer(self, request: dict[str, Any]) -> Answer:
        if "tools" not in request:
            return Say(text="A title")
        told = [m["content"] for m in request["messages"] if m["role"] == "user"]
        if told[-1].startswith("[This session has just been handed off"):
            return Say(text="I am here.")
        return Say(text=f"You told me: {', '.join(t for t in told if not t.startswith('['))}.")


@dataclass
class Home:
    person: Person
    model: Remembering

    async def start_gateway(self) -> None:
        started = await asyncio.to_thread(segue_says, self.person, "gateway", "start")
        assert started.returncode == 0, started.stderr

    async def kill_gateway(self) -> None:
        (gateway,) = await alive(self.person)
        os.kill(whose(gateway.process)[1], signal.SIGKILL)

    async def link(self) -> str:
        """A link that opens the page."""
        async with await segue.store.open(self.person.environment["SEGUE_STORE"]) as store:
            return await link(store)


@contextlib.asynccontextmanager
async def at_home(folder: Path) -> AsyncGenerator[Home]:
    """A home with a gateway, which is stopped at the end."""
    (folder / "project").mkdir()
    model = Remembering()
    with reserved_port() as port:
        told = {"HOME": str(folder), "PATH": PATH, **environment(folder, port)}
        person = Person(told, folder / "project")
        async with model.serving() as url, none_left(person):
            told.update(
                SEGUE_MODEL="openai/gpt-test", OPENAI_BASE_URL=url, OPENAI_API_KEY="sk-test"
            )
            home = Home(person, model)
            await home.start_gateway()
            yield home
            model.go.set()
