"""What a run may do and use: permissions, approvals, runs at once, tokens."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec import structs

import segue.gateway.jobs
from segue.agent.models.base import Piece, Prompt
from segue.agent.models.scripted import Say, ScriptedModel
from segue.approvals import queries as approvals
from segue.approvals.rules import fingerprint
from segue.config import Approvals
from segue.core.address import Platform
from segue.core.approval import Policy
from segue.core.session import ME, Usage
from segue.core.transcript import Role, ToolCall
from segue.gateway.jobs import AT_ONCE
from segue.jobs.queries import jobs, runs
from segue.jobs.values import RunState
from segue.store import transcripts
from segue.testing.http import Request, Response, serving
from segue.turns import hold
from tests.gateway.test_approvals import numbered, question
from tests.gateway.test_jobs import ended, home, make, run_now
from tests.harness.house import WITHIN, House
from tests.turns.conftest import call

# What a run may do


async def test_a_run_does_what_its_job_allows_without_asking(house: House, tmp_path: Path):
    await home(house)
    steps = [call("shell", command="mkdir made"), call("write_file", path="x", content="y"), "done"]
    async with house.gateway(model=steps):
        job = await make(house, cwd=str(tmp_path), allows=("mkdir", "write_file"))
        run, _ = await run_now(house, job)
    assert run.state is RunState.REPORTED
    assert (tmp_path / "made").is_dir()
    assert (tmp_path / "x").read_text() == "y"


async def test_a_run_pulls_a_repository_if_its_job_allows_that(house: House, tmp_path: Path):
    """As in the documentation. Git runs as on the allow-list: without hooks, for example."""

    def git(*words: str) -> None:
        who = ("-c", "user.name=me", "-c", "user.email=me@here")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--quiet", "theirs")
    git("-C", "theirs", "commit", "--quiet", "--allow-empty", "--message", "first")
    git("clone", "--quiet", "theirs", "ours")
    (tmp_path / "theirs" / "new").write_text("x")
    git("-C", "theirs", "add", "new")
    git("-C", "theirs", "commit", "--quiet", "--message", "second")
    async with house.gateway(model=[call("shell", command="git pull"), "done"]):
        cwd = str(tmp_path / "ours")
        await run_now(house, await make(house, cwd=cwd, deliver="local", allows=("git pull",)))
    assert (tmp_path / "ours" / "new").read_text() == "x"


async def test_what_the_settings_and_the_session_allow_does_not_hold_for_a_run(
    house: House, tmp_path: Path
):
    """The allow-list of a job is fixed when it is made."""
    chat, _ = await home(house)
    house.settings = structs.replace(house.settings, approvals=Approvals(policy=Policy.AUTO))
    command = call("shell", command=f"echo x >> {tmp_path}/made")
    async with house.gateway(model=[command, "done", command, "done"]):
        job = await make(house, cwd=str(tmp_path))
        await runs.ask(house.store, ME, job.id)
        first = await question(house, chat)
        assert first.labels == ("Allow", "Deny")  # none for the whole session
        await house.driver.say(house.anna, chat, f"/approve {numbered(first)} session")
        await ended(house, job)
        session_id = (await jobs.found(house.store, ME, job.id)).session_id or ""
        assert await approvals.granted(house.store, session_id) == frozenset()
        async with hold(house.store, session_id, "the terminal") as held:
            await approvals.grant(house.store, held.lease, fingerprint(command, tmp_path))
        await runs.ask(house.store, ME, job.id)
        shown = await house.driver.until(
            lambda s: sum("May I do this?" in t for t in s.texts) == 2, chat=chat
        )
        again = next(m for m in reversed(shown.messages) if "May I do this?" in m.text)
        await house.driver.press(house.anna, again.id, "Deny")
        await ended(house, job, runs=2)
    assert (tmp_path / "made").read_text() == "x\n"


async def test_pages_that_its_owner_named_need_no_approval_in_a_run(house: House):
    await home(house)
    house.settings = structs.replace(house.settings, private_network=True)

    async def page(request: Request) -> Response:
        return Response(200, {"Content-Type": "text/plain"}, b"three rooms")

    async with serving(page) as url:
        steps = [call("fetch_page", url=f"{url}/a"), call("fetch_page", url=f"{url}/b"), "done"]
        async with house.gateway(model=steps):
            job = await make(house, f"Read {url}/a", deliver="local")
            await run_now(house, job)
    found = await jobs.found(house.store, ME, job.id)
    transcript = await transcripts.load(house.store, found.session_id or "")
    results = [m.content for m in transcript if m.role is Role.TOOL]
    assert results[0] == "three rooms"


# Approvals that no one can answer


async def test_a_run_asks_where_a_gateway_can_hear_the_answer(house: House, tmp_path: Path):
    """Slack comes first, but no gateway serves it."""
    chat, _ = await home(house)
    await house.home("C1", "channel", Platform.SLACK)
    async with house.gateway(model=[call("shell", command=f"touch {tmp_path}/made"), "done"]):
        job = await make(house, deliver="slack, telegram")
        await runs.ask(house.store, ME, job.id)
        await house.driver.press(house.anna, (await question(house, chat)).id, "Allow")
        await house.driver.message("done", chat=chat)
    assert (tmp_path / "made").exists()


async def test_runs_that_wait_for_an_approval_do_not_hold_up_others(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(segue.gateway.jobs, "AT_ONCE", 1)
    monkeypatch.setattr(segue.gateway.jobs, "CHECK_SECONDS", 0.05)
    chat, _ = await home(house)
    async with house.gateway(model=[call("shell", command=f"touch {tmp_path}/made"), "done"]):
        asking = await make(house)
        await runs.ask(house.store, ME, asking.id)
        asked = await question(house, chat)
        run, _ = await run_now(house, await make(house, "Call the bank.", verbatim=True))
        assert run.state is RunState.REPORTED
        await house.driver.press(house.anna, asked.id, "Allow")
        await ended(house, asking)


class Gated(ScriptedModel):
    """Answers only after `go` is set, and counts who waits."""

    def __init__(self) -> None:
        super().__init__(["done"] * 10)
        self.go, self.full = asyncio.Event(), asyncio.Event()
        self.waiting = 0
        self.most = 0

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        if self.waiting == AT_ONCE:
            self.full.set()
        await self.go.wait()
        self.waiting -= 1
        async for piece in super().stream(prompt):
            yield piece


async def test_a_gateway_carries_out_a_limited_number_of_runs_at_once(house: House):
    model = Gated()
    async with house.gateway(model=model):
        made = [await make(house, deliver="local") for _ in range(AT_ONCE + 3)]
        for job in made:
            await runs.ask(house.store, ME, job.id)
        async with asyncio.timeout(WITHIN):
            await model.full.wait()
        await jobs.list_jobs(house.store, ME)  # the gateway could claim another one meanwhile
        model.go.set()
        for job in made:
            await ended(house, job)
    assert model.most == AT_ONCE


async def test_a_reminder_is_on_time_while_the_agent_is_busy(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(segue.gateway.jobs, "AT_ONCE", 1)
    chat, _ = await home(house)
    model = Gated()
    async with house.gateway(model=model):
        busy, waiting = await make(house, deliver="local"), await make(house, deliver="local")
        for job in (busy, waiting):
            await runs.ask(house.store, ME, job.id)
        soon = datetime.now(UTC) + timedelta(seconds=0.2)
        await make(house, "Call the bank.", verbatim=True, at=soon)
        await house.driver.message("Call the bank.", chat=chat)
        assert model.most == 1
        model.go.set()
        for job in (busy, waiting):
            await ended(house, job)


# Tokens


def costs(tokens: int, *calls: ToolCall, text: str = "") -> Say:
    """An answer of the model that uses so many tokens."""
    return Say(text=text, calls=calls, usage=Usage(input=tokens - 1, output=1))


async def test_a_run_without_tokens_left_is_stopped_before_its_next_call(
    house: House, tmp_path: Path
):
    await home(house)
    made = [call("shell", number, command=f"mkdir {number}") for number in (1, 2)]
    async with house.gateway(model=[costs(60, made[0]), costs(40, made[1])]):
        job = await make(house, daily_tokens=100, allows=("mkdir",), cwd=str(tmp_path))
        run, (notice,) = await run_now(house, job)
    assert (run.state, run.tokens) == (RunState.FAILED, 100)
    assert f"segue jobs edit {job.id} --daily-tokens NUMBER" in notice.body
    assert [(tmp_path / name).exists() for name in "12"] == [True, False]


async def test_the_answer_that_uses_the_last_tokens_is_delivered(house: House):
    await home(house)
    async with house.gateway(model=[costs(500, text="Sun.")]):
        run, (report,) = await run_now(house, await make(house, daily_tokens=100))
    assert (run.state, run.tokens, report.body) == (RunState.REPORTED, 500, "Sun.")
