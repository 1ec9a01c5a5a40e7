"""The environment of the crash tests.

The platform and the model stay up, gateways and terminals are killed, and the user keeps writing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

import segue
import segue.store
from segue.core.address import Address, ChatType, HomeChannel, Platform
from segue.core.session import ME, Origin
from segue.core.transcript import Role
from segue.handoffs import queries as handoffs
from segue.handoffs.values import Handoff
from segue.store import (
    Store,
    bindings,
    bubbles,
    gateways,
    inbox,
    outbox,
    owners,
    sessions,
    transcripts,
)
from segue.store.base import Row, Tx
from segue.store.gateways import LinkState
from segue.store.outbox import Outgoing
from segue.store.processes import whose
from segue.testing.peers import Peer
from tests import program
from tests.crash import terminals, trap
from tests.crash.model import HANDOFF, TASK, WORD, WordModel
from tests.crash.terminals import HandOff, Leave, Open, Order, Resume, Say, Told, here
from tests.crash.trap import Traps
from tests.program import Program
from tests.rigs import Kind, PlatformRig

STUCK = 30.0
"""Seconds after which an operation counts as stuck."""
WITHIN = 60.0
"""Timeout in seconds for everything else."""
LOOK = 0.01
_ROOT = Path(__file__).parents[2]
_CODE = os.pathsep.join([str(Path(segue.__file__).parents[1]), str(_ROOT)])
_SETTINGS = """
[web]
enabled = false

[approvals]
policy = "auto"

"""


class Stuck(AssertionError):
    """An operation did not finish."""


class Story:
    """A log of events, shown on failure."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._lines: list[str] = []

    def tell(self, text: str) -> None:
        self._lines.append(f"{time.monotonic() - self._began:7.3f}  {text}")

    def __str__(self) -> str:
        return "\n".join(self._lines)


async def until(condition: Callable[[], Awaitable[bool]], what: str, within: float) -> None:
    """Poll until the condition holds. Raises Stuck after `within` seconds."""
    deadline = time.monotonic() + within
    while not await condition():
        if time.monotonic() > deadline:
            raise Stuck(f"{what}: not within {within:.1f} s")
        await asyncio.sleep(LOOK)


class Terminal:
    """The test's connection to a running terminal process."""

    def __init__(
        self, orders: asyncio.StreamWriter, told: asyncio.StreamReader, pid: int, story: Story
    ) -> None:
        self.pid = pid
        self._orders = orders
        self._told = told
        self._story = story
        self._handing_off: asyncio.Task[Told] | None = None

    @property
    def is_handing_off(self) -> bool:
        """Whether a handoff is in progress, or its outcome has not been read yet."""
        return self._handing_off is not None

    @property
    def was_told(self) -> bool:
        """Whether the terminal has the outcome of its handoff."""
        return self._handing_off is None or self._handing_off.done()

    async def do(self, order: Order) -> Told:
        """Send an order and wait for its result."""
        self._send(order)
        return await self._outcome()

    def begin_handoff(self, platform: Platform) -> None:
        self._begin(HandOff(platform))

    def begin_move(self, platform: Platform, text: str, *, late: bool) -> None:
        """Hand the session off in the middle of the turn about `text`."""
        self._begin(Leave(text, platform, late))

    def _begin(self, order: HandOff | Leave) -> None:
        self._send(order)
        self._handing_off = asyncio.create_task(self._outcome())

    async def handed_off(self, within: float) -> Told:
        """Return the outcome of the handoff as the terminal received it."""
        assert self._handing_off is not None
        try:
            async with asyncio.timeout(within):
                return await self._handing_off
        except TimeoutError:
            raise Stuck(f"the terminal was not told within {within:.1f} s") from None
        finally:
            self._handing_off = None

    async def kill(self) -> None:
        """Kill the process and wait until it is gone."""
        self.end()
        if self._handing_off is not None:
            self._handing_off.cancel()
            await asyncio.wait({self._handing_off})
            self._handing_off = None

        async def is_gone() -> bool:
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return True
            return False

        await until(is_gone, f"terminal {self.pid} is gone", WITHIN)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._orders.close()

    def _send(self, order: Order) -> None:
        self._orders.write(msgspec.json.encode(order) + b"\n")

    async def _outcome(self) -> Told:
        while line := await self._told.readline():
            told = msgspec.json.decode(line, type=Told)
            self._story.tell(f"terminal {self.pid}: {told.text} {told.error}")
            if told.over:
                return told
        raise Stuck(f"terminal {self.pid} has ended")


class Nursery:
    """The process that forks terminals."""

    def __init__(self) -> None:
        words = [sys.executable, "-m", "tests.crash.terminals"]
        self._process = subprocess.Popen(words, env={"PYTHONPATH": _CODE}, stdin=subprocess.PIPE)

    def fork(self, birth: terminals.Birth) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(birth) + b"\n")
        self._process.stdin.flush()

    def close(self) -> None:
        with self._process:
            self._process.kill()


@dataclass
class Life:
    """One conversation."""

    home: Address
    """The address that it is handed off to."""
    user: str
    """The owner's account there: one per conversation, because some platforms have only one direct
    message with each user."""
    session_id: str
    terminal: Terminal | None
    """The terminal that holds it."""
    words: list[str] = field(default_factory=list[str])
    """Everything the user said, in order."""
    in_chat: set[str] = field(default_factory=set[str])
    """The words that were said in a chat."""
    resumes: int = 0
    """How often it was taken back from a chat."""
    taken_back: bool = False
    """Whether it was taken back since the last handoff."""
    tasks: set[str] = field(default_factory=set[str])
    """The words for which a tool is used."""
    moving: set[str] = field(default_factory=set[str])
    """The words said in a terminal that hands the session off in the middle of the turn."""
    cut_off: set[str] = field(default_factory=set[str])
    """The words whose turn may have no answer: its terminal was killed, or a terminal took the
    session in the middle of it."""
    unheard: set[str] = field(default_factory=set[str])
    """The words that its terminal had not recorded when it was killed."""
    kills: dict[str, int] = field(default_factory=dict[str, int])
    """How often a gateway was killed before the answer to each word was recorded."""
    unanswered: set[str] = field(default_factory=set[str])
    """The words and handoffs whose answers are not recorded yet."""
    waited: float = 0.0
    """The longest time in seconds that it took to settle after a kill."""

    @property
    def chat(self) -> str:
        return self.home.chat_id

    @property
    def arrival(self) -> str:
        """The key under which the model counts the next handoff, or the one in progress."""
        return f"{HANDOFF} after {self.words[-1]}"

    @property
    def desk(self) -> Terminal:
        assert self.terminal is not None, "there is no terminal"
        return self.terminal


async def outgoing(store: Store, chat: str) -> tuple[Outgoing, ...]:
    """Everything ever queued for a chat."""

    def look(tx: Tx) -> list[Row]:
        return tx.rows(f"SELECT {outbox.COLUMNS} FROM outbox ORDER BY no")

    every = map(outbox.parse_row, await store._engine.read(look))
    return tuple(row for row in every if row.address.chat_id == chat)


def title(chat: str) -> str:
    """The title of the session whose home is that chat."""
    return f"Life in {chat}"


class World:
    def __init__(
        self,
        folder: Path,
        url: str,
        rig: PlatformRig,
        nursery: Nursery,
        store: Store,
    ) -> None:
        self.folder = folder
        self.url = url
        self.rig = rig
        self.store = store
        self.model = WordModel()
        self.model.command = (
            f"echo {{word}} >> {folder}/runs; while test -e {folder}/hold; do sleep 0.02; done"
        )
        self.traps = Traps(folder / "traps")
        self.traps.adapter = rig.adapter
        self.story = Story()
        self.kills = 0
        self.standby = not url.startswith("sqlite")
        """Whether a second gateway stands by to replace the first."""
        self._gateways: list[Program] = []
        self._terminals: list[Terminal] = []
        self._spare: list[Terminal] = []
        self._lives: list[Life] = []
        self._nursery = nursery
        self._door = folder / "terminals"
        self._born: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        self._born = asyncio.Queue()
        self._server: asyncio.Server | None = None
        self._errors = folder / "errors"
        self._said = 0
        self._asking = asyncio.Lock()
        self._environment = {
            "PYTHONPATH": _CODE,
            "HOME": str(folder),
            "PATH": program.PATH,
            "SEGUE_STORE": url,
            "SEGUE_CONFIG": str(folder / "config.toml"),
            "SEGUE_MODEL": "openai/gpt-test",
            "OPENAI_API_KEY": "sk-test",
            **program.constants({"segue.gateway.janitor.POLL_SECONDS": 0.5, **rig.constants}),
        }

    # Gateways

    @property
    def log(self) -> Path:
        return self.folder / "gateway.log"

    async def have_gateways(self) -> None:
        """Start gateways until one serves and, where that is possible, another stands by."""
        wanted = 2 if self.standby else 1
        while len(self._gateways) < wanted:
            await self.start_gateway()
        await until(self._is_served, "a gateway is serving", WITHIN)

    async def start_gateway(self) -> None:
        with self._errors.open("ab") as errors:
            process = program.start(
                *("gateway", "run", "--log", str(self.log)),
                environment=self._environment,
                cwd=self.folder,
                output=errors.fileno(),
                errors=errors.fileno(),
            )
        self._gateways.append(process)
        self.story.tell(f"gateway {process.pid} is started")

        async def is_there() -> bool:
            if process.poll() is not None:
                raise Stuck(f"gateway {process.pid} has ended by itself")
            return any(whose(g.process)[1] == process.pid for g in await gateways.alive(self.store))

        await until(is_there, f"gateway {process.pid} is there", WITHIN)

    async def _is_served(self) -> bool:
        platform = self.rig.platform
        serving = await gateways.serving(self.store, platform)
        if serving is None or serving.links[platform].state is not LinkState.CONNECTED:
            return False
        return any(process.pid == whose(serving.process)[1] for process in self._gateways)

    async def kill_gateway(self) -> None:
        """Kill the serving gateway, or else the first."""
        serving = await gateways.serving(self.store, self.rig.platform)
        pids = [process.pid for process in self._gateways]
        pid = whose(serving.process)[1] if serving else pids[0]
        process = self._gateways.pop(pids.index(pid))
        process.kill()
        self.kills += 1
        self.story.tell(f"gateway {process.pid} is killed")
        for life in self._lives:
            life.kills.update({about: life.kills.get(about, 0) + 1 for about in life.unanswered})
        await asyncio.to_thread(process.wait)

    # Terminals

    async def terminal(self) -> Terminal:
        """Return a terminal that holds no session."""
        if self._spare:
            return self._spare.pop()
        birth = terminals.Birth(str(self.folder), self._environment, str(self._door))
        self._nursery.fork(birth)
        async with asyncio.timeout(WITHIN):
            told, orders = await self._born.get()
            hello = msgspec.json.decode(await told.readline(), type=Told)
        terminal = Terminal(orders, told, int(hello.text), self.story)
        self._terminals.append(terminal)
        return terminal

    async def open(self) -> None:
        """Accept connections of new terminals."""

        async def born(told: asyncio.StreamReader, orders: asyncio.StreamWriter) -> None:
            self._born.put_nowait((told, orders))

        self._server = await asyncio.start_unix_server(born, self._door)

    def spare(self, life: Life) -> None:
        """Make the conversation's terminal available for other sessions."""
        if life.terminal is not None:
            self._spare.append(life.terminal)
        life.terminal = None

    async def kill_terminal(self, life: Life) -> None:
        pid = life.desk.pid
        await life.desk.kill()
        life.terminal = None
        life.cut_off |= life.moving
        life.unheard |= life.moving - await self._recorded(life)
        self.story.tell(f"terminal {pid} is killed")

    async def forget_unheard(self, life: Life) -> None:
        """Words that a killed terminal never recorded count as not said. Call it when all is over:
        a commit may have been on its way to PostgreSQL."""
        never = life.unheard - await self._recorded(life)
        life.words[:] = [word for word in life.words if word not in never]
        for words in (life.unanswered, life.tasks, life.moving, life.cut_off):
            words -= never
        life.unheard.clear()

    async def _recorded(self, life: Life) -> set[str]:
        """The words of the user in the transcript."""
        messages = (await transcripts.load(self.store, life.session_id)).messages
        return {word for m in messages if m.role is Role.USER for word in WORD.findall(m.content)}

    # A conversation

    async def begin(self, kind: Kind, *, said: int = 2) -> Life:
        """Start a session with some messages in a terminal, and create a chat as its home
        channel."""
        user = await self.rig.user("Anna")
        await self.rig.pair(self.store, user)
        chat = await self.rig.chat(kind, [user])
        home = self.rig.address(kind, chat)
        terminal = await self.terminal()
        told = await terminal.do(Open(title=title(chat)))
        assert not told.error, told
        life = Life(home=home, user=user, session_id=told.text, terminal=terminal)
        self._lives.append(life)
        await self.aim(life)
        for _ in range(said):
            await self.say_in_terminal(life)
        self.story.tell(f"{life.session_id} has begun, with a home in {chat}")
        return life

    async def aim(self, life: Life) -> None:
        """Make the conversation's chat the home channel, so that the next handoff goes there."""
        home = HomeChannel(address=life.home, name="Home")
        await owners.set_home(self.store, ME, home)

    @property
    def next_word(self) -> str:
        return f"w{self._said + 1}"

    def word(self, life: Life) -> str:
        """Return a new word and record it as said."""
        word = self.next_word
        self._said += 1
        life.words.append(word)
        return word

    async def say_in_terminal(self, life: Life) -> None:
        told = await life.desk.do(Say(text=self.word(life)))
        assert told.text == "TurnDone", told

    async def say_in_chat(self, life: Life, *, task: bool = False, in_thread: bool = True) -> str:
        """The user writes in the newest thread of the chat, where the session is or will be, or in
        the chat itself if it has none, or if `in_thread` is false."""
        word = self.word(life)
        life.in_chat.add(word)
        life.unanswered.add(word)
        if task:
            life.tasks.add(word)
        thread = await self.thread(life) if in_thread else None
        text = f"{word} {TASK}" if task else word
        if thread is None and life.home.chat_type is not ChatType.DM:
            text = self.rig.addressed(text)
        await self.rig.say(life.user, life.chat, text, thread=thread)
        self.story.tell(f"the person writes {word} in {thread or life.chat}")
        return word

    async def thread(self, life: Life) -> str | None:
        """The newest thread of its chat."""
        threads = (await self.rig.look(life.chat)).threads
        return threads[-1].id if threads else None

    async def hand_over(self, life: Life) -> None:
        """Complete a whole handoff without faults."""
        self.begin_handoff(life)
        told = await life.desk.handed_off(WITHIN)
        assert told.text == "Completed", told
        self.spare(life)
        await self.settle(life)

    def begin_handoff(self, life: Life) -> None:
        self.story.tell(f"{life.session_id} is to be handed off")
        life.taken_back = False
        life.unanswered.add(life.arrival)
        life.desk.begin_handoff(self.rig.platform)

    def begin_move(self, life: Life, *, late: bool = False) -> None:
        """Say something in the terminal, and hand the session off in the middle of the turn, before
        its tool call or, if `late`, after it."""
        word = self.word(life)
        self.story.tell(f"{life.session_id} is to be handed off in the turn about {word}")
        life.taken_back = False
        for words in (life.unanswered, life.tasks, life.moving):
            words.add(word)
        life.desk.begin_move(self.rig.platform, f"{word} {TASK}", late=late)

    async def ask(self, life: Life, begin: Callable[[Life], None] | None = None) -> None:
        """Start a handoff to the conversation's chat while others start theirs."""
        async with self._asking:
            await self.aim(life)
            before = await self.latest(life)
            if life.terminal is None:  # it was killed
                return
            (begin or self.begin_handoff)(life)

            async def is_asked() -> bool:
                terminal = life.terminal
                if terminal is None or terminal.was_told:
                    return True
                latest = await self.latest(life)
                return latest is not None and (before is None or latest.id != before.id)

            await until(is_asked, f"{life.session_id} is asked for", WITHIN)

    async def take_back(self, life: Life, *, now: bool = False) -> None:
        """Take the session back into a terminal: `now`, even in the middle of a turn."""
        terminal = life.terminal = life.terminal or await self.terminal()

        async def is_taken() -> bool:
            told = await terminal.do(Resume(session_id=life.session_id, now=now))
            assert told.error in ("", "SessionHeld"), told
            return not told.error

        was = await self.address(life)
        await until(is_taken, "it is taken back", STUCK)
        life.resumes += was is not None and was.platform is not Platform.LOCAL
        life.taken_back = True

    async def bring_to_chat(self, life: Life) -> None:
        """The user brings the session from its thread to the chat itself."""
        await bindings.rebind(self.store, life.session_id, life.home, Origin.RESUME)
        life.resumes += 1
        await self.settle(life)

    async def address(self, life: Life) -> Address | None:
        session = await sessions.get(self.store, life.session_id)
        assert session is not None
        return session.address

    async def is_here(self, life: Life) -> bool:
        """Return whether the session is in the terminal."""
        return await self.address(life) == here(life.session_id)

    async def latest(self, life: Life) -> Handoff | None:
        """The newest handoff, read without changing anything."""
        latest = await handoffs.history(self.store, life.session_id, limit=1)
        return latest[0] if latest else None

    async def settle(self, life: Life, *, since: float | None = None) -> None:
        """Wait until nothing is in progress in the conversation. Raises Stuck."""
        began = since if since is not None else time.monotonic()

        async def is_settled() -> bool:
            left[:] = [what async for what in self._unsettled(life)]
            return not left

        left: list[str] = []
        try:
            await until(is_settled, f"{life.session_id} settles", STUCK - time.monotonic() + began)
        except Stuck as error:
            raise Stuck(f"{error}\n" + "\n".join(left)) from None
        life.waited = max(life.waited, time.monotonic() - began)
        life.unanswered.clear()

    async def _unsettled(self, life: Life) -> AsyncGenerator[str]:
        """What is in progress in the conversation."""
        latest = await self.latest(life)
        if latest is not None and latest.in_flight:
            yield f"{latest}"
        every = await handoffs.history(self.store, life.session_id)
        places = {life.home, *(it.thread for it in every if it.thread is not None)}
        if not await self.rig.is_recorded(self.store, life.chat, places):
            yield "the platform has updates that no gateway confirmed"
        for incoming in await inbox.waiting(self.store):
            if incoming.address.chat_id == life.chat:
                yield f"{incoming}"
        for address, receipt in (await bubbles.shown(self.store, [self.rig.platform])).items():
            if address.chat_id == life.chat:
                yield f"a bubble: {receipt}"
        for row in await outgoing(self.store, life.chat):
            if not row.finished:
                yield f"{row}"

    @contextlib.contextmanager
    def tools_held(self) -> Generator[None]:
        """Inside the block, running tools do not finish."""
        hold = self.folder / "hold"
        hold.touch()
        try:
            yield
        finally:
            hold.unlink()

    def told(self) -> str:
        """The log and the error output of the processes."""
        return self.log.read_text() + self._errors.read_text()

    def runs(self) -> Counter[str]:
        """The number of tool runs for each word."""
        done = self.folder / "runs"
        return Counter(done.read_text().split() if done.exists() else ())

    async def close(self) -> None:
        """Kill every process."""
        for terminal in self._terminals:
            terminal.end()
        for process in self._gateways:
            process.kill()
            await asyncio.to_thread(process.wait)
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()


@contextlib.asynccontextmanager
async def world(
    rig: type[PlatformRig], peer: Peer, nursery: Nursery, url: str | None = None
) -> AsyncGenerator[World]:
    """Reset the platform and start gateways on SQLite or on the PostgreSQL at `url`."""
    async with contextlib.AsyncExitStack() as stack:
        # Short, because it contains Unix sockets, whose paths have a length limit.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="segue-crash-")))
        url = url or f"sqlite://{folder}/segue.db"
        settings = folder / "config.toml"
        phone = await stack.enter_async_context(rig.opened(peer))
        settings.write_text(_SETTINGS + phone.settings(trap.ADAPTER))
        settings.chmod(0o600)
        store = await stack.enter_async_context(await segue.store.open(url))
        world = World(folder, url, phone, nursery, store)
        base = await stack.enter_async_context(world.model.serving())
        world._environment["OPENAI_BASE_URL"] = base
        stack.push_async_callback(world.close)
        await world.open()
        await owners.ensure(store, ME)
        await owners.introduced(store, ME)
        await world.have_gateways()
        yield world
