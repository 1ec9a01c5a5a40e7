"""A user at a terminal: a home, a project, a store, and a model with answers set by the test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import segue.store
from segue.core.session import ME, Session
from segue.core.transcript import Message, ToolCall
from segue.store import sessions, transcripts
from segue.testing.http import Request, Response
from tests.fakes.models.openai import Answer, FakeOpenAI, Say, refusal
from tests.fakes.models.travel import Travel
from tests.harness.pty import Terminal, terminal
from tests.program import PATH


class Model(FakeOpenAI):
    """Gives its answers in order. A request without tools asks for a title."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        super().__init__(self._answer)
        self._answers = iter(answers)
        self.go = asyncio.Event()
        """While it is not set, an answer stops after its first part; see `pausing`."""
        self.go.set()
        self.asked = asyncio.Event()
        """Set when the model is asked for an answer."""

    def pausing(self, first: int = 600) -> None:
        """From now on, send only the first bytes of an answer until `go` is set."""
        self.go.clear()
        self.travel = Travel(chunk=first)

    def _answer(self, request: dict[str, Any]) -> Answer:
        if "tools" not in request:
            return Say(text="A title")
        self.asked.set()
        return next(self._answers, refusal(400, "The script of this test is at its end."))

    async def _handle(self, request: Request) -> Response:
        response = await super()._handle(request)
        if isinstance(response.body, bytes):
            return response
        return replace(response, body=self._held(response.body))

    async def _held(self, body: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
        async for part in body:
            yield part
            await self.go.wait()


@dataclass(frozen=True, slots=True)
class Person:
    """The user of the terminals."""

    environment: dict[str, str]
    cwd: Path

    def opens(self, *arguments: str, **more: Any) -> AbstractAsyncContextManager[Terminal]:
        """`segue` in a terminal. `environment` extends the user's own."""
        environment = {**self.environment, **more.pop("environment", {})}
        cwd = more.pop("cwd", self.cwd)
        return terminal(*arguments, environment=environment, cwd=cwd, **more)

    @contextlib.asynccontextmanager
    async def talks_to(self, *answers: Answer | str) -> AsyncGenerator[Model]:
        """Switch to a model that gives these answers."""
        model = Model(Say(text=a) if isinstance(a, str) else a for a in answers)
        async with model.serving() as url:
            self.environment.update(
                SEGUE_MODEL="openai/gpt-test", OPENAI_BASE_URL=url, OPENAI_API_KEY="sk-test"
            )
            yield model
            model.go.set()

    async def sessions(self) -> list[Session]:
        """Newest first."""
        async with await segue.store.open(self.environment["SEGUE_STORE"]) as store:
            return list(await sessions.list_sessions(store, ME))

    async def transcript(self, name: str = "latest") -> list[Message]:
        async with await segue.store.open(self.environment["SEGUE_STORE"]) as store:
            session = await sessions.find(store, ME, name)
            return list(await transcripts.load(store, session.id))

    async def said(self, name: str = "latest") -> list[tuple[str, str]]:
        """The role and the text of each message in the session with that name."""
        return [(m.role.value, m.content) for m in await self.transcript(name)]


@pytest.fixture
def person(tmp_path: Path) -> Person:
    """A user with a fake model and no other settings."""
    cwd = tmp_path / "project"
    cwd.mkdir()
    environment = {
        "HOME": str(tmp_path),
        "PATH": PATH,
        "SEGUE_STORE": f"sqlite://{tmp_path}/segue.db",
        "SEGUE_MODEL": "scripted",
    }
    return Person(environment, cwd)


async def over(shown: Terminal) -> None:
    """Wait until all turns are finished and stored."""
    before = shown.text.count("tokens in")
    shown.say("/usage")
    await shown.until(lambda: shown.text.count("tokens in") > before, "the end of the turn")


def shell(command: str, number: int = 1) -> Say:
    """An answer in which the model runs a command."""
    arguments = msgspec.json.encode({"command": command}).decode()
    return Say(calls=(ToolCall(f"call_{number}", "shell", arguments),))
