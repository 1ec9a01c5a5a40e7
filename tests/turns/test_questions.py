"""The longest question of every tool: what it asks for is in sight in the smallest places."""

from __future__ import annotations

import asyncio
import importlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from msgspec import inspect

from segue.agent.tools.base import Proposal, Tool, ToolFailed, Workplace
from segue.agent.tools.shell import shell
from segue.approvals import questions
from segue.approvals.queries import Approval, ApprovalState
from segue.core.address import Address, ChatType, Delivery, HomeChannel, Platform
from segue.core.approval import Description, excerpt
from segue.core.context import Context
from segue.core.session import ME, NOTE_LIMIT, Session, Ticks
from segue.core.transcript import ToolCall
from segue.jobs import reminders
from segue.jobs.queries import jobs
from segue.jobs.schedule import Cron
from segue.jobs.service import unattended
from segue.jobs.values import PROMPT_LIMIT, Job, NewJob
from segue.platforms import markup
from segue.platforms.base import Capabilities
from segue.platforms.whatsapp.client import from_template
from segue.store import gateways, owners
from segue.terminal.render.events import approval
from segue.terminal.render.screen import Screen
from segue.turns import agents
from segue.turns.brain import Assignment, deny_all
from tests.turns.conftest import Desk

ROOM = Address(platform=Platform.MATRIX, chat_type=ChatType.GROUP, chat_id=f"!{'r' * 120}:x.org")
HERE = Address(platform=Platform.TELEGRAM, chat_type=ChatType.GROUP, chat_id="-1001234567890")
LONG = "\n".join(f"{n} " + "x" * 90 for n in range(400))
DEEP = "/".join(["d" * 200] * 6)
COMMAND = "df -h; " + "y" * 1900
GRANTS = ["shell", "git push", "write_file"]
DETAILS: dict[str, Any] = {
    "prompt": LONG[: PROMPT_LIMIT - 1],
    "name": "n" * 60,
    "every_minutes": 60,
    "zone": "America/Argentina/ComodRivadavia",
    "until": "2999-01-01 09:00",
    "runs": 5,
    "deliver": ["origin"],
    "model": "m" * 2000,
    "only_if": {"kind": "command", "target": COMMAND},
    "allows": GRANTS,
    "may_change_jobs": True,
    "fallback": True,
    "daily_tokens": 5000,
}
GIVEN: dict[str, dict[str, Any]] = {
    "send_message": {"to": f"matrix:{ROOM.chat_id}"},
    "send_file": {"to": f"matrix:{ROOM.chat_id}", "path": f"{DEEP}/file.txt"},
    "make_job": DETAILS,
    "change_job": {**DETAILS, "number": 1},
    "list_jobs": {"number": 1},
}
"""Arguments that cannot be just anything. The others are filled as far as they go."""
PERMITS = [
    "may do without asking: shell, git push, write_file",
    "its runs: may make and change jobs",
    "delivers to: the chat where you asked",
    "or else to: your other home channels",
]
SHOWS: dict[str, list[str]] = {
    "shell": ["run in /"],
    "read_file": ["read /"],
    "write_file": ["write /", "outside the working directory"],
    "edit_file": ["change /", "outside the working directory"],
    "fetch_page": ["fetch https://example.org/"],
    "send_message": ["send to matrix group !rrr", "rrr:x.org:"],
    "send_file": ["send to matrix group !rrr", "the file /", "/file.txt"],
    "remember": ["remember about you in every session:"],
    "make_job": ["make a job", *PERMITS, "runs first: df -"],
    "change_job": ["change job 1, 'w", *PERMITS, "runs first: df -"],
    "remind": ["make a job", "delivers to: the chat where you asked"],
}
"""What must be in sight. For any other tool it is the beginning of its head."""


def filled(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The longest values of the required and the text arguments."""
    info = inspect.type_info(arguments)
    assert isinstance(info, inspect.StructType)
    return {field.name: value for field in info.fields if (value := longest(field)) is not None}


def longest(field: inspect.Field) -> Any:
    if field.name == "path":
        return f"/outside/{DEEP}"
    if field.name == "url":
        return f"https://example.org/{'u' * 3900}"
    kind = field.type.type if isinstance(field.type, inspect.Metadata) else field.type
    if isinstance(kind, inspect.StrType):
        return LONG[: kind.max_length]
    is_number = isinstance(kind, inspect.IntType | inspect.FloatType)
    return 60 if is_number and field.required else None


async def never(_: str) -> None:
    raise AssertionError("nothing is granted")


class Table:
    """Every tool of the program, for a chat, with the proposal for its longest call."""

    def __init__(self, desk: Desk, session: Session, cwd: Path, job: Job) -> None:
        context = Context(source=HERE, cwd=str(cwd))
        self._place = Workplace(cwd=cwd)
        self.tools: dict[str, Tool[Any]] = {}
        for small, run in ((False, None), (True, None), (False, unattended(job))):
            assignment = Assignment(
                session=session,
                context=context,
                notes=(),
                approve=deny_all,
                granted=frozenset(),
                grant=never,
                now=lambda: datetime.now(UTC),
                unattended=run,
            )
            more = reminders.tools(desk.store, assignment, ZoneInfo("UTC"), small=small)
            self.tools |= agents.tools(
                desk.store, session, context, shell({}), more=more, small=small
            )

    async def propose(self, name: str) -> tuple[ToolCall, Proposal]:
        tool = self.tools[name]
        given = GIVEN.get(name, {})
        if "prompt" not in given:
            given = {**filled(tool.arguments), **given}
        if name == "remember":
            given["text"] = given["text"][:NOTE_LIMIT]
        if name == "remind":
            given["text"] = given["text"][: PROMPT_LIMIT - 1]
        call = ToolCall("1", name, msgspec.json.encode(given).decode())
        return call, await tool.prepare(call, self._place)


@pytest.fixture
def table(desk: Desk, session: Session, tmp_path: Path, runner: asyncio.Runner) -> Table:
    folder = tmp_path / "cwd" / DEEP
    folder.mkdir(parents=True)
    (folder / "file.txt").write_text("a")
    job = NewJob(
        prompt="Look at the weather.",
        schedule=Cron("0 8 * * 1-5", ZoneInfo("UTC")),
        zone="UTC",
        deliver=(Delivery(),),
        name="w" * 60,
        origin=HERE,
    )

    async def prepare() -> Job:
        await gateways.announce(desk.store, "a gateway", list(Platform), seconds=3600)
        await owners.set_home(desk.store, ME, HomeChannel(address=ROOM, name="Room"))
        return await jobs.create(desk.store, ME, job)

    return Table(desk, session, tmp_path / "cwd", runner.run(prepare()))


def wanted(name: str, what: Description) -> list[str]:
    return SHOWS.get(name) or [what.head[:30]]


def dense(text: str) -> str:
    """`text` without the places where a screen or a platform breaks its lines."""
    return "".join(text.split()).replace("│", "").replace("┊", "")


def asked(what: Description) -> Approval:
    return Approval(
        id=1234,
        session_id="s",
        call_id="c",
        fingerprint="f",
        what=str(what),
        address=HERE,
        owner=ME,
        asked=datetime.now(UTC),
        until=Ticks(0),
        state=ApprovalState.WAITING,
        answer=None,
        in_run=False,
    )


def chats() -> dict[Platform, Capabilities]:
    """What each platform can do, the page included."""
    found: dict[Platform, Capabilities] = {}
    for platform in Platform:
        if platform is Platform.WEB:
            from segue.web.adapter import WebAdapter

            found[platform] = WebAdapter.capabilities
        elif platform is not Platform.LOCAL:
            module = importlib.import_module(f"segue.platforms.{platform}.adapter")
            found[platform] = module.CAPABILITIES
    return found


async def test_every_question_shows_what_it_asks_for_in_a_terminal_of_40_by_12(table: Table):
    for name in table.tools:
        call, proposal = await table.propose(name)
        lines = approval(call, proposal.what, Screen(width=40, height=12, styled=False))
        assert len(lines) <= 12 - 2, f"{name}: the question and the status take two rows"
        for words in wanted(name, proposal.what):
            assert dense(words) in dense("".join(lines)), (name, words, lines)


async def test_every_question_shows_what_it_asks_for_in_the_first_message_of_every_chat(
    table: Table,
):
    for name in table.tools:
        _, proposal = await table.propose(name)
        question = questions.question(asked(proposal.what), proposal.what)
        for platform, able in chats().items():
            first = markup.parts(question.body, able, buttons=True)[0]
            for words in wanted(name, proposal.what):
                assert dense(words) in dense(first.plain), (name, platform, words)


async def test_every_question_shows_what_it_asks_for_in_a_template_of_whatsapp(table: Table):
    for name in table.tools:
        _, proposal = await table.propose(name)
        question = questions.question(asked(proposal.what), proposal.what, in_run=True)
        (part, *_) = markup.parts(question.body, chats()[Platform.WHATSAPP], buttons=True)
        sent = str(from_template("segue/en", part.text))
        assert "/show 1234" in sent
        for words in wanted(name, proposal.what):
            assert dense(words) in dense(sent), (name, words, sent)


async def test_a_question_that_hides_a_line_offers_to_show_it_and_not_to_allow_it(table: Table):
    hiding: list[str] = []
    for name in table.tools:
        _, proposal = await table.propose(name)
        labels = [
            label for label, _ in questions.question(asked(proposal.what), proposal.what).buttons
        ]
        if excerpt(proposal.what).is_whole:
            assert labels == ["Allow", "Allow in this session", "Deny"]
        else:
            assert labels == ["Show all", "Deny"]
            hiding.append(name)
    assert {"shell", "write_file", "send_message", "make_job", "change_job"} <= set(hiding)


@pytest.mark.parametrize(
    "more",
    [
        {"allows": [f"command{n}" for n in range(50)]},
        {"allows": ["git " + "x" * 1900]},
        {"deliver": ["origin", "all", "local", f"matrix:{ROOM.chat_id}"]},
    ],
    ids=["many commands", "a long command", "many places"],
)
@pytest.mark.parametrize("name", ["make_job", "change_job"])
async def test_a_job_that_may_do_more_than_a_question_can_show_is_refused(
    table: Table, monkeypatch: pytest.MonkeyPatch, name: str, more: dict[str, Any]
):
    monkeypatch.setitem(GIVEN, name, {**GIVEN[name], **more})
    with pytest.raises(ToolFailed, match="more than one question can show"):
        await table.propose(name)
