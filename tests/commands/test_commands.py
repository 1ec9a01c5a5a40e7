"""The commands, on a real store, in a context that records their effects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path

import pytest

import segue.store
from segue import commands, config
from segue.agent.models.scripted import ScriptedModel
from segue.commands import Where
from segue.commands.base import Command
from segue.config import Settings
from segue.core.address import HomeChannel, Platform
from segue.core.errors import (
    CommandElsewhere,
    NoModel,
    NothingSaid,
    SessionError,
    SessionNotFound,
    UnknownCommand,
    UserError,
    no_home_channel,
)
from segue.core.session import ME, Session
from segue.core.transcript import Message
from segue.handoffs import HandoffRequest
from segue.store import Store, gateways, owners, sessions, transcripts
from segue.store.gateways import LinkState
from segue.turns import HeldLease, Place, Turns, hold
from segue.turns.agents import Agents
from tests.harness.house import Offered
from tests.store.samples import DM


class Scripted(Offered):
    """The default model, which answers everything, and one with another name."""

    def __init__(self) -> None:
        super().__init__(ScriptedModel(), {"scripted": ScriptedModel()})


class Stage:
    """A context in which everything happens at once and is recorded."""

    where = Where.TERMINAL
    owner = ME
    place = Place()
    zone = UTC

    def __init__(self, store: Store, turns: Turns, cwd: Path) -> None:
        self.store = store
        self.turns = turns
        self.session: Session | None = None
        self.told: list[str] = []
        self.left = False
        self.handed_to: list[HandoffRequest] = []
        self.followed = 0
        self._cwd = cwd

    async def begun(self) -> Session:
        if self.session is None:
            self.session = await sessions.create(self.store, ME, Platform.LOCAL, cwd=str(self._cwd))
        return await self.look()

    async def look(self) -> Session:
        assert self.session is not None
        self.session = await sessions.find(self.store, ME, self.session.id)
        return self.session

    @asynccontextmanager
    async def in_hand(self) -> AsyncGenerator[HeldLease]:
        if self.session is None:
            raise NothingSaid
        async with hold(self.store, self.session.id, "the stage") as held:
            yield held

    async def notice(self, text: str) -> None:
        self.told.append(text)

    async def list_commands(self, listed: Sequence[Command]) -> None:
        self.told += [command.usage for command in listed]

    async def say(self, message: str | Message | None) -> None:
        session = await self.begun()
        _ = [event async for event in self.turns.take_turn(session.id, message)]
        await self.look()

    async def fresh(self, title: str | None) -> None:
        self.session = None
        if title:
            self.session = await sessions.create(self.store, ME, Platform.LOCAL, title=title)

    async def resume(self, session: Session) -> None:
        self.session = session

    async def hand_off(self, request: HandoffRequest, *, lan: bool = False) -> None:
        self.handed_to.append(request)

    async def follow(self) -> None:
        self.followed += 1

    async def leave(self) -> None:
        self.left = True

    # For the tests

    async def do(self, text: str) -> str:
        """Run the command and return its output."""
        self.told.clear()
        await commands.run(self, text)
        return "\n".join(self.told)

    async def transcript(self) -> list[str]:
        session = await self.begun()
        return [m.content for m in await transcripts.load(self.store, session.id)]


@pytest.fixture
def stage(tmp_path: Path, runner: asyncio.Runner) -> Generator[Stage]:
    settings: Settings = config.load({"SEGUE_STORE": f"sqlite://{tmp_path}/segue.db"})

    async def open_stage() -> Stage:
        store = await segue.store.open(settings.store)
        await owners.ensure(store, ME)
        return Stage(
            store, Turns(store, Agents(store, settings, Scripted()), titles=False), tmp_path
        )

    stage = runner.run(open_stage())
    yield stage
    runner.run(stage.store.close())


# Finding commands


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/help", True),
        ("  /undo 2", True),
        ("/nonesuch", True),
        ("/etc/passwd", False),
        ("/", False),
        ("/ help", False),
        ("// a comment", False),
        ("help", False),
        ("what is /help?", False),
        ("", False),
    ],
)
def test_a_command_is_a_slash_and_a_word(text: str, expected: bool):
    assert commands.is_command(text) is expected


@pytest.mark.parametrize("where", Where)
def test_every_command_name_is_unique(where: Where):
    names = [name for c in commands.available(where) for name in (c.name, *c.aliases)]
    assert len(names) == len(set(names))


def test_the_essential_commands_are_available_in_chats():
    wanted = (
        "help new title sessions resume move status stop retry undo compress usage model sethome"
        " whoami approve deny"
    )
    assert set(wanted.split()) <= {c.name for c in commands.available(Where.CHAT)}


@pytest.mark.parametrize("name", ["quit", "follow"])
def test_a_terminal_command_is_unknown_in_a_chat(name: str):
    commands.find(f"/{name}", Where.TERMINAL)
    with pytest.raises(UnknownCommand):
        commands.find(f"/{name}", Where.CHAT)


@pytest.mark.parametrize(
    ("typed", "where", "says"),
    [
        (
            "/handoff telegram",
            Where.CHAT,
            "/handoff works only in the terminal. Here, type /move PLATFORM.",
        ),
        ("/move web", Where.TERMINAL, "/move works only in chats. Here, type /handoff PLATFORM."),
    ],
)
def test_moving_a_session_away_has_its_own_command_in_the_terminal_and_in_chats(
    typed: str, where: Where, says: str
):
    assert typed.split(maxsplit=1)[0][1:] not in {c.name for c in commands.available(where)}
    with pytest.raises(CommandElsewhere) as refused:
        commands.find(typed, where)
    assert str(refused.value) == says


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [("/hnadoff", "/handoff"), ("/modle", "/model"), ("/SESSION", "/sessions")],
)
def test_an_unknown_command_suggests_the_nearest(typed: str, nearest: str):
    with pytest.raises(UnknownCommand) as caught:
        commands.find(typed, Where.TERMINAL)
    assert nearest in str(caught.value.fields["hint"])


def test_an_unknown_command_without_a_similar_one_has_no_suggestion():
    with pytest.raises(UnknownCommand) as caught:
        commands.find("/xyzzy", Where.TERMINAL)
    assert caught.value.fields == {"name": "xyzzy", "hint": ""}


async def test_help_lists_the_available_commands(stage: Stage):
    assert (await stage.do("/help")).splitlines() == [
        c.usage for c in commands.available(Where.TERMINAL)
    ]


async def test_help_explains_one_command(stage: Stage):
    assert await stage.do("/help undo") == "/undo [NUMBER]\nUndo the last messages."
    assert "Also: /exit." in await stage.do("/help quit")


# The conversation


async def test_undo_removes_a_turn_and_redo_restores_it(stage: Stage):
    for words in ("one", "two", "three"):
        await stage.say(words)
    assert "two" in await stage.do("/undo 2")
    assert [text for text in await stage.transcript() if len(text) < 6] == ["one"]
    assert await stage.do("/redo") == "Restored 4 messages."
    assert len(await stage.transcript()) == 6
    with pytest.raises(SessionError, match="no earlier message of yours to undo"):
        await stage.do("/undo 9")
    assert len(await stage.transcript()) == 6


async def test_retry_sends_the_last_message_again(stage: Stage):
    await stage.say("one")
    await stage.say("two")
    assert await stage.do("/retry") == "Again: two"
    said = await stage.transcript()
    assert [text for text in said if len(text) < 6] == ["one", "two"]
    assert len(said) == 4


async def test_history_shows_the_last_turns(stage: Stage):
    for number in range(4):
        await stage.say(f"question {number}")
    told = await stage.do("/history 2")
    assert "question 1" not in told
    assert "You: question 2" in told
    assert "You: question 3" in told


async def test_compress_continues_from_a_summary(stage: Stage):
    for number in range(5):
        await stage.say(f"question {number}")
    assert "continues from this summary" in await stage.do("/compress")
    assert len(await stage.transcript()) == 11


@pytest.mark.parametrize("text", ["/undo x", "/undo -1", "/undo 0", "/history 1.5", "/undo ²"])
async def test_an_invalid_number_is_refused(stage: Stage, text: str):
    await stage.say("one")
    with pytest.raises(UserError, match="is not a number"):
        await stage.do(text)


@pytest.mark.parametrize("text", ["/retry", "/undo", "/redo", "/history", "/status", "/usage",
                                  "/export", "/compress"])  # fmt: skip
async def test_commands_that_need_a_message_are_refused_in_an_empty_session(
    stage: Stage, text: str
):
    with pytest.raises(NothingSaid):
        await stage.do(text)


# The session


async def test_a_title_is_given_and_shown(stage: Stage):
    assert await stage.do("/title My trip") == "The title of this session is “My trip”."
    assert await stage.do("/title") == "The title of this session is “My trip”."
    await stage.do("/new")
    with pytest.raises(UserError, match="You already have a session called"):
        await stage.do("/title my trip")


async def test_sessions_are_listed_and_resumed_by_name(stage: Stage):
    assert await stage.do("/sessions") == "There are no sessions yet."
    await stage.do("/new Boats")
    boats = await stage.begun()
    await stage.do("/new Cars")
    told = await stage.do("/sessions")
    assert "* Cars" in told
    assert "  Boats" in told
    await stage.do("/resume 'boats'")  # as in the shell command
    assert (await stage.begun()).id == boats.id
    with pytest.raises(SessionNotFound):
        await stage.do("/resume planes")


async def test_the_session_of_another_owner_cannot_be_resumed_by_title(stage: Stage):
    await owners.ensure(stage.store, "you")
    await sessions.create(stage.store, "you", Platform.LOCAL, title="Secrets")
    with pytest.raises(SessionNotFound):
        await stage.do("/resume Secrets")
    assert "Secrets" not in await stage.do("/sessions")


async def test_status_and_usage_show_the_session(stage: Stage):
    await stage.say("hello")
    told = await stage.do("/status")
    assert (await stage.begun()).id in told
    assert "Messages   2" in told
    assert await stage.do("/usage") == "0 tokens in, 0 out."


async def test_export_writes_a_file_and_never_replaces_one(stage: Stage, tmp_path: Path):
    await stage.say("hello")
    assert await stage.do("/export talk.jsonl") == f"2 messages written to {tmp_path}/talk.jsonl."
    with pytest.raises(UserError, match="File exists"):
        await stage.do("/export talk.jsonl")
    assert (tmp_path / "talk.jsonl").stat().st_mode & 0o077 == 0
    lines = (tmp_path / "talk.jsonl").read_bytes().splitlines()
    again = await transcripts.import_lines(stage.store, ME, lines)
    assert again.messages == 2


async def test_handoff_without_a_platform_lists_the_platforms_and_what_each_needs(stage: Stage):
    told = await stage.do("/handoff")
    assert told.startswith("No gateway is running")
    assert "`segue gateway start`" in told
    await gateways.announce(stage.store, "gateway", [Platform.TELEGRAM, Platform.SLACK])
    await gateways.report(stage.store, Platform.TELEGRAM, LinkState.CONNECTED)
    await gateways.report(stage.store, Platform.SLACK, LinkState.DOWN, detail="it is asleep\x1b")
    await owners.set_home(stage.store, ME, HomeChannel(address=DM, name="Home"))
    assert await stage.do("/handoff") == (
        f"telegram is connected. Handoffs arrive at {DM} (Home): type /handoff telegram.\n"
        f"slack is down (it is asleep). {no_home_channel('slack')}\n"
        "The gateway does not serve web, discord, matrix, whatsapp, signal."
    )
    assert stage.session is None, "nothing was begun for that"
    assert stage.handed_to == []


async def test_a_handoff_needs_no_message(stage: Stage):
    await stage.do("/handoff telegram")
    assert stage.handed_to == [HandoffRequest(Platform.TELEGRAM)]
    assert (await stage.begun()).messages == 0


@pytest.mark.parametrize("typed", ["telegram --new-thread", "--new-thread telegram"])
async def test_a_handoff_opens_a_new_thread_on_request(stage: Stage, typed: str):
    await stage.do(f"/handoff {typed}")
    assert stage.handed_to == [HandoffRequest(Platform.TELEGRAM, new_thread=True)]


# The agent


async def test_the_model_is_shown_and_changed_for_this_session(stage: Stage):
    assert (await stage.do("/model")).startswith("scripted, the default.")
    assert await stage.do("/model scripted") == "This session now uses scripted."
    assert (await stage.begun()).model == "scripted"
    with pytest.raises(NoModel):
        await stage.do("/model nonesuch")


async def test_tools_lists_which_tools_need_approval(stage: Stage):
    rows = [row.split(maxsplit=1) for row in (await stage.do("/tools")).splitlines()]
    asks = {name: rest.partition("  ")[0] for name, rest in rows}
    assert (asks["shell"], asks["read_file"]) == ("asks first", "may ask")


async def test_memory_is_listed_and_edited(stage: Stage):
    assert "no notes yet" in await stage.do("/memory")
    assert await stage.do("/memory add I live in Oslo.") == "Added note 1: I live in Oslo."
    assert await stage.do("/memory edit 1 I live in Bergen.") == "Changed note 1: I live in Bergen."
    assert await stage.do("/memory") == "  1  I live in Bergen."
    assert await stage.do("/memory remove 1") == "Removed note 1: I live in Bergen."
    for wrong in ("/memory remove x", "/memory forget 1", "/memory edit 7 x", "/memory add"):
        with pytest.raises(UserError):
            await stage.do(wrong)


async def test_exit_and_follow_are_passed_to_the_command_context(stage: Stage):
    await stage.do("/follow")
    await stage.do("/exit")
    assert stage.followed == 1
    assert stage.left
