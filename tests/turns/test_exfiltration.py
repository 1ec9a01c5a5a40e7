"""Data that the agent reads on the machine does not leave it without approval."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import structs

from segue.core.approval import Answer, Policy
from segue.core.session import Session
from segue.core.transcript import Outcome, Role, ToolCall
from segue.store import transcripts
from segue.testing.http import Request, Response, serving
from segue.turns import Place
from tests.harness.approver import Approver
from tests.turns.conftest import Desk, call

PLAIN = {"Content-Type": "text/plain"}


class Site:
    """A host that records its requests."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.moved = ""

    async def __call__(self, request: Request) -> Response:
        self.heard.append(request.target)
        if self.moved and request.target == "/moved":
            return Response(302, {"Location": self.moved, **PLAIN})
        return Response(200, PLAIN, b"a page")


@asynccontextmanager
async def sites() -> AsyncGenerator[tuple[Site, str]]:
    site = Site()
    async with serving(site) as url:
        yield site, url


async def results(
    desk: Desk, session: Session, said: str, *calls: ToolCall, person: Approver | None = None
) -> list[str]:
    place = Place(approve=person or Approver(always=Answer.NEVER))
    async with desk.turns([*calls, "Ok."], private_network=True) as turns:
        _ = [event async for event in turns.take_turn(session.id, said, place)]
    transcript = await transcripts.load(desk.store, session.id)
    return [m.outcome or m.content for m in transcript if m.role is Role.TOOL]


async def test_reading_our_settings_and_the_store_needs_approval(
    desk: Desk, session: Session, cwd: Path
):
    desk.settings.path.write_text('[keys]\nopenai = "sk-1"\n')
    (cwd / "harmless").symlink_to(desk.settings.path)
    for number, made in enumerate(
        (
            call("read_file", path=str(desk.settings.path)),
            call("read_file", path="harmless"),
            call("search_files", pattern="sk-", path=str(desk.settings.path)),
        )
    ):
        done = await results(desk, session, "go", made)
        assert done[number] == Outcome.DENIED
    found = await results(desk, session, "go", call("search_files", pattern="sk-"))
    assert "sk-" not in found[-1]


async def test_a_host_that_the_user_did_not_name_needs_approval(desk: Desk, session: Session):
    async with sites() as (site, url):
        made = call("fetch_page", url=f"{url}/?q=secret")
        person = Approver(always=Answer.NEVER)
        assert await results(desk, session, "Look it up.", made, person=person) == [Outcome.DENIED]
        assert site.heard == []
        assert len(person.asked) == 1
        assert "This address is not one of yours" in person.asked[0]
        allowed = Approver(always=Answer.ONCE)
        done = await results(desk, session, "Look it up.", made, person=allowed)
        assert done[-1] == "a page"


async def test_fetching_after_reading_needs_approval_even_for_a_named_host(
    desk: Desk, session: Session, cwd: Path
):
    (cwd / "diary").write_text("dear diary")
    async with sites() as (site, url):
        done = await results(
            desk,
            session,
            f"Compare {url}/page with my diary.",
            call("fetch_page", 1, url=f"{url}/page"),
            call("fetch_page", 2, url=f"{url}/other"),
            call("read_file", 3, path="diary"),
            call("fetch_page", 4, url=f"{url}/?q=dear+diary"),
            call("fetch_page", 5, url=f"{url}/page"),
        )
    assert done == ["a page", "a page", "dear diary", Outcome.DENIED, "a page"]
    assert site.heard == ["/page", "/other", "/page"]


@pytest.mark.parametrize("named", [False, True])
async def test_a_redirect_to_another_host_needs_approval(desk: Desk, session: Session, named: bool):
    async with sites() as (site, url), sites() as (other, elsewhere):
        site.moved = f"{elsewhere}/there"
        also = f" or {elsewhere}" if named else ""
        made = call("fetch_page", url=f"{url}/moved")
        (done,) = await results(desk, session, f"Read {url}/moved{also}", made)
        assert other.heard == (["/there"] if named else [])
    assert done == "a page" if named else f"the page redirects to {elsewhere}/there" in done


async def test_an_allowed_git_command_needs_approval_if_the_repository_names_a_program(
    desk: Desk, session: Session, cwd: Path
):
    for arguments in (["init", "-q"], ["config", "core.fsmonitor", "touch ran; false"]):
        git = await asyncio.create_subprocess_exec("git", *arguments, cwd=cwd)
        assert await git.wait() == 0
    approvals = structs.replace(
        desk.settings.approvals, policy=Policy.ALLOW_LIST, allowed_commands=("git status",)
    )
    person = Approver(always=Answer.NEVER)
    status = call("shell", command="git status")
    async with desk.turns([status, "Ok."], approvals=approvals) as turns:
        place = Place(approve=person)
        _ = [event async for event in turns.take_turn(session.id, "go", place)]
    assert len(person.asked) == 1
    assert not (cwd / "ran").exists()


async def test_a_private_file_can_be_read_after_approval(desk: Desk, session: Session, cwd: Path):
    (cwd / ".env").write_text("KEY=1")
    reading = call("read_file", path=".env")
    person = Approver(always=Answer.SESSION)
    for _ in range(2):
        done = await results(desk, session, "go", reading, person=person)
        assert done[-1] == "KEY=1"
    assert len(person.asked) == 1
    assert "which may hold passwords or keys" in person.asked[0]
