"""Terminals and gateways in separate processes, for tests that stop and kill them.

Run as a program, this is a fork server, the stage door: it listens on a socket, and each connection
gets a new process, forked with everything already imported. The process reads one command per line
as JSON, and answers with one line. `Troupe` and `Player` are the test's side.
"""

# ruff: noqa: ASYNC221, ASYNC230, ASYNC240 - these processes have nothing else to do.

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import apsw

import segue.cli.restore  # pyright: ignore[reportUnusedImport] - import it before the fork
import segue.store
from segue.cli import main as cli
from segue.core.address import Address, Platform
from segue.core.errors import SegueError
from segue.core.session import Lease
from segue.handoffs import queries as handoffs
from segue.handoffs.values import Handoff, Step
from segue.store import Store, Topic, Tx, database, leases, owners, sessions, transcripts
from segue.store.base import SqlDialect
from tests.store.samples import said

with suppress(SegueError):  # import it before the fork, if it is installed
    import segue.store.postgres  # pyright: ignore[reportUnusedImport]

BOUND = 40.0
"""Timeout in seconds for an answer."""


# The test's side


class Player:
    """One process, as seen by the test."""

    def __init__(self, door: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(BOUND)
        self._socket.connect(door)
        self._lines = self._socket.makefile("rb")
        self.pid = int(self.hear()["pid"])
        self._pidfd = os.pidfd_open(self.pid)

    def ask(self, do: str, **values: Any) -> Any:
        self.tell(do, **values)
        return self.answer()

    def tell(self, do: str, **values: Any) -> None:
        """Send a command without waiting for the answer."""
        self._socket.sendall(json.dumps([do, values]).encode() + b"\n")

    def answer(self) -> Any:
        """Return the answer to the last command. Raises Refused if the store raised an error."""
        heard = self.hear()
        if "error" in heard:
            raise Refused(heard["error"], heard["text"])
        return heard["answer"]

    def hear(self) -> dict[str, Any]:
        line = self._lines.readline()
        if not line.endswith(b"\n"):
            raise EOFError("the process ended")
        return json.loads(line)

    def rest(self) -> list[dict[str, Any]]:
        """Every complete line that the process wrote before it ended."""
        with suppress(ConnectionResetError):
            lines = self._lines.readlines()
            return [json.loads(line) for line in lines if line.endswith(b"\n")]
        return []

    def kill(self) -> None:
        """Send SIGKILL and wait until the kernel has released the process's resources."""
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        self.ended()

    def ended(self) -> None:
        exit_watch = select.poll()  # unlike select(), with any number of open files
        exit_watch.register(self._pidfd, select.POLLIN)
        assert exit_watch.poll(1000 * BOUND), "the process did not end"

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        self.stopped()

    def stopped(self) -> None:
        """Wait until all its threads are stopped: one may be about to take a lock."""
        tasks = Path(f"/proc/{self.pid}/task")
        until(lambda: {_state(thread) for thread in tasks.iterdir()} == {"T"})

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        self.ended()
        os.close(self._pidfd)
        self._lines.close()
        self._socket.close()


def _state(thread: Path) -> str:
    """The kernel's state letter of a thread: T if it is stopped.

    A thread that is gone counts as T.
    """
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "T"


class Refused(Exception):
    """The store raised an error in another process."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name


class Troupe:
    """Creates players and closes all of them at the end."""

    def __init__(self, door: str) -> None:
        self._door = door
        self._players: list[Player] = []

    def player(self) -> Player:
        self._players.append(Player(self._door))
        return self._players[-1]

    def opened(self, url: str) -> Player:
        """A player that has the store open."""
        player = self.player()
        player.ask("open", url=url)
        return player

    def dismiss(self, player: Player) -> None:
        """Close a player that is not needed any more."""
        self._players.remove(player)
        player.close()

    def close(self) -> None:
        for player in self._players:
            player.close()
        self._players.clear()


@contextmanager
def stage_door(folder: Path, *wrapper: str) -> Generator[str]:
    """Run the fork server and yield its socket path for `Troupe`. `wrapper` is a command prefix."""
    door = str(folder / "door")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(door)
        listening.listen(64)
        process = subprocess.Popen(
            [*wrapper, sys.executable, "-m", "tests.store.processes", str(listening.fileno())],
            pass_fds=[listening.fileno()],
            cwd=Path(__file__).parents[2],
        )
    try:
        yield door
    finally:
        process.terminate()
        process.wait(BOUND)


def until(happens: Callable[[], Any], seconds: float = BOUND) -> Any:
    """Poll every two milliseconds until `happens` returns a true value, and return it."""
    deadline = time.monotonic() + seconds
    while not (found := happens()):
        assert time.monotonic() < deadline, "it never happened"
        select.select([], [], [], 0.002)
    return found


# The player's side


class Part:
    """The commands of a player. Leases and claims stay in its process."""

    def __init__(self, say: Callable[..., None], line: socket.socket) -> None:
        self._say = say
        self._line = line
        self._leases: dict[str, Lease] = {}
        self._claims: dict[int, Handoff] = {}
        self.store: Store

    # The store

    async def open(self, url: str) -> str:
        self.store = await segue.store.open(url)
        return self.store.process

    async def close(self) -> None:
        await self.store.close()

    async def open_at_once(self, url: str, barrier: str) -> str:
        """Open the store at the same time as other players, then create a session."""
        fd = os.open(barrier, os.O_RDWR)
        self._say(ready=True)
        os.read(fd, 1)
        os.close(fd)
        await self.open(url)
        return await self.session()

    async def open_and_tell(self, url: str) -> str:
        self._say(opening=True)
        return await self.open(url)

    async def open_and_die(self, url: str, at: int) -> int:
        """Open the store with umask 0, but kill the process at the `at`th step that leaves a
        trace."""
        os.umask(0)
        steps = Steps(at)
        sys.addaudithook(steps.audit)
        shim = DyingVFS(steps)
        await self.open(url)
        shim.unregister()
        return steps.taken

    async def migrate_and_die(self, url: str, migration: int, statements: int) -> str:
        """Open the store, but kill the process after so many statements of a migration."""
        whole = database.scripts

        def scripts(dialect: SqlDialect, version: int) -> list[str]:
            missing = whole(dialect, version)
            earlier = missing[: len(missing) - len(whole(dialect, migration - 1))]
            return DyingScripts([*earlier, *begun[dialect]], self._say)

        begun = {d: statements_of(d, migration)[:statements] for d in SqlDialect}
        database.scripts = scripts
        return await self.open(url)

    async def command_and_die(self, words: list[str], environment: dict[str, str], at: int) -> int:
        """Run a command, but kill the process at the `at`th step that leaves a trace."""
        os.environ.update(environment)  # noqa: TID251 - that of a process to be killed
        steps = Steps(at)
        sys.addaudithook(steps.audit)
        shim = DyingVFS(steps)
        cli.main(words, standalone_mode=False)
        shim.unregister()
        return steps.taken

    async def reopen(self, url: str) -> str:
        """Close the open store, if any, and open another."""
        if hasattr(self, "store"):
            await self.store.close()
        return await self.open(url)

    # The machine

    async def become(self, user: int) -> None:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)

    async def umask(self, mask: int) -> None:
        os.umask(mask)

    async def run(self, command: list[str]) -> None:
        subprocess.run(command, check=True)

    async def mount(self, folder: str, size: str) -> None:
        await self.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder])

    async def make_read_only(self, folder: str) -> None:
        await self.run(["mount", "-o", "remount,bind,ro", folder])

    async def fill(self, path: str, size: int | None = None) -> int:
        """Write a file of that size, or one that fills the remaining space."""
        written = 0
        with Path(path).open("wb", buffering=0) as file:
            while size is None or written < size:
                try:
                    written += file.write(b"." * min(4096, size - written if size else 4096))
                except OSError as error:
                    if error.errno != errno.ENOSPC or size is not None:
                        raise
                    break
        return written

    async def remove(self, path: str) -> None:
        Path(path).unlink()

    async def files(self, folder: str) -> dict[str, str]:
        """Every file below the folder, with a digest of its content."""
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file()
        }

    # Sessions

    async def session(self) -> str:
        await owners.ensure(self.store, "me")
        return (await sessions.create(self.store, "me", Platform.LOCAL)).id

    async def sessions(self) -> int:
        return len(await sessions.list_sessions(self.store, "me", limit=1000))

    async def acquire(self, session: str, seconds: float = 60, take_over: bool = False) -> int:
        lease = await leases.acquire(
            self.store, session, "a player", seconds=seconds, take_over=take_over
        )
        self._leases[session] = lease
        return lease.epoch

    async def renew(self, session: str) -> None:
        self._leases[session] = await leases.renew(self.store, self._leases[session])

    async def append(self, session: str, texts: list[str]) -> int:
        return await transcripts.append(self.store, self._leases[session], list(map(said, texts)))

    async def append_each(self, session: str, texts: list[str]) -> list[str]:
        """Append all texts concurrently. Return for each `kept` or the text of the error."""

        async def one(text: str) -> str:
            try:
                await self.append(session, [text])
            except SegueError as error:
                return str(error)
            return "kept"

        return await asyncio.gather(*map(one, texts))

    async def append_for_ever(self, session: str, first: int) -> NoReturn:
        while True:
            await self.append(session, [str(first)])
            self._say(kept=first)
            first += 1

    async def load(self, session: str) -> list[str]:
        return [message.content for message in await transcripts.load(self.store, session)]

    async def where(self, session: str) -> str | None:
        found = await sessions.get(self.store, session)
        return found.address.key if found and found.address else None

    # Handoffs: the terminal's side

    async def request(self, session: str, leased: bool = True) -> int:
        lease = self._leases[session] if leased else None
        asked = await handoffs.request(self.store, session, Platform.TELEGRAM, lease=lease)
        return asked.id

    async def request_and_hang(self, session: str) -> None:
        def work(tx: Tx) -> None:
            handoffs.request(
                tx,
                session,
                Platform.TELEGRAM,
                key="hanging",
                lease=self._leases[session],
                home=None,
                message=None,
                claim_seconds=60,
            )
            self._hang()

        await self.store.write(work)

    async def requests(self, count: int) -> list[int]:
        """Request handoffs for `count` new sessions, a few at a time."""

        async def ask() -> int:
            return await self.request(await self.session(), leased=False)

        asked: list[int] = []
        for _ in range(0, count, 20):
            asked += await asyncio.gather(*(ask() for _ in range(20)))
        return asked

    async def prepared(self, count: int) -> list[tuple[str, int]]:
        """Create `count` sessions with two messages each and a requested handoff."""

        async def prepare(n: int) -> tuple[str, int]:
            session = await self.session()
            await self.acquire(session, seconds=300)
            await self.append(session, [f"{n} asked", f"{n} answered"])
            return session, await self.request(session)

        made: list[tuple[str, int]] = []
        for start in range(0, count, 50):
            made += await asyncio.gather(*(prepare(n) for n in range(start, start + 50)))
        return made

    async def cancel(self, handoff: int) -> bool:
        return await handoffs.cancel(self.store, handoff)

    async def cancel_and_hang(self, handoff: int) -> None:
        def work(tx: Tx) -> None:
            assert handoffs.cancel(tx, handoff, "cancelled")
            self._hang()

        await self.store.write(work)

    async def state(self, session: str) -> str | None:
        handoff = await handoffs.current(self.store, session)
        return handoff.state if handoff else None

    async def look(self, sessions: list[str]) -> list[tuple[Any, ...]]:
        """The handoff state, the address and the messages of each session."""

        async def one(session: str) -> tuple[Any, ...]:
            return await self.state(session), await self.where(session), await self.load(session)

        return await asyncio.gather(*map(one, sessions))

    async def pending(self) -> int:
        return len(await handoffs.pending(self.store))

    # Handoffs: the gateway's side

    async def claim(self, handoff: int, seconds: float = 60) -> dict[str, Any] | None:
        claim = await handoffs.claim(self.store, handoff, seconds=seconds)
        if claim is None:
            return None
        self._claims[handoff] = claim
        thread = claim.thread.key if claim.thread else None
        return {"step": claim.step, "thread": thread, "attempt": claim.attempt}

    async def claim_all(self) -> int:
        while claim := await handoffs.claim_next(self.store, [Platform.TELEGRAM], seconds=300):
            self._claims[claim.id] = claim
        return len(self._claims)

    async def heartbeat(self, handoff: int) -> bool:
        return await handoffs.heartbeat(self.store, self._claims[handoff])

    async def step(self, handoff: int, step: str, thread: str | None = None) -> bool:
        address = Address.parse(thread) if thread else None
        return await handoffs.record_step(
            self.store, self._claims[handoff], Step(step), thread=address
        )

    async def complete(self, handoff: int, thread: str, texts: list[str]) -> bool:
        done = await handoffs.complete(
            self.store,
            self._claims[handoff],
            address=Address.parse(thread),
            messages=list(map(said, texts)),
        )
        return done is not None

    async def complete_and_hang(self, handoff: int, thread: str, texts: list[str]) -> None:
        await self.store.write(self._completing(handoff, thread, texts, self._hang))

    async def complete_and_stop(self, handoff: int, thread: str, texts: list[str]) -> None:
        """Stop before the commit. When the process is continued, it commits."""

        def stop() -> None:
            os.kill(os.getpid(), signal.SIGSTOP)

        await self.store.write(self._completing(handoff, thread, texts, stop))

    def _completing(
        self, handoff: int, thread: str, texts: list[str], then: Callable[[], None]
    ) -> Callable[[Tx], None]:
        def work(tx: Tx) -> None:
            assert handoffs.complete(
                tx,
                self._claims[handoff],
                address=Address.parse(thread),
                messages=list(map(said, texts)),
                usage=None,
                drafts=(),
            )
            then()

        return work

    async def carry_out(self, handoff: int, thread: str, texts: list[str]) -> bool:
        """Carry out the rest of a handoff, from any step."""
        claim = await self.claim(handoff)
        if claim is None:
            return False
        thread = claim["thread"] or thread
        await self.step(handoff, Step.OPENING, thread)
        await self.step(handoff, Step.REPLYING)
        await self.step(handoff, Step.DELIVERING)
        return await self.complete(handoff, thread, texts)

    async def fail(self, handoff: int) -> bool:
        return await handoffs.fail(self.store, self._claims[handoff], "it failed")

    async def drain(self) -> list[int]:
        """Claim handoffs as they arrive, until another command is received."""
        claimed: list[int] = []
        async with self.store.listen(Topic.HANDOFFS) as wake:
            while True:
                claim = await handoffs.claim_next(self.store, [Platform.TELEGRAM], seconds=300)
                if claim is not None:
                    claimed.append(claim.id)
                elif select.select([self._line], [], [], 0)[0]:
                    return claimed
                else:
                    await wake.wait(0.1)

    # Races

    async def race_to_complete(
        self, ids: list[int], threads: list[str], mine: str, theirs: str, seed: int
    ) -> list[bool]:
        async def run(i: int) -> bool:
            return await self.complete(ids[i], threads[i], [f"{i} here", f"{i} I am"])

        return await self._race(run, len(ids), mine, theirs, seed)

    async def race_to_cancel(self, ids: list[int], mine: str, theirs: str, seed: int) -> list[bool]:
        async def run(i: int) -> bool:
            return await self.cancel(ids[i])

        return await self._race(run, len(ids), mine, theirs, seed)

    async def _race(
        self, run: Callable[[int], Any], count: int, mine: str, theirs: str, seed: int
    ) -> list[bool]:
        start, other = os.open(mine, os.O_RDWR), os.open(theirs, os.O_RDWR)
        chance = random.Random(seed)
        won: list[bool] = []
        for i in range(count):
            os.write(other, b".")
            os.read(start, 1)
            spin(chance.uniform(0, 0.0003))
            won.append(await run(i))
        return won

    def _hang(self) -> None:
        self._say(hanging=True)
        threading.Event().wait()


def spin(seconds: float) -> None:
    """Busy-wait, with microsecond precision."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Steps:
    """Counts the steps that leave a trace, and kills the process at the chosen one."""

    TRACES = frozenset(
        {"os.mkdir", "os.chmod", "open", "fcntl.flock", "os.remove", "socket.bind"}
        | {"os.rename", "os.link", "os.rmdir", "os.truncate"}
    )

    def __init__(self, at: int) -> None:
        self._at = at
        self.taken = 0

    def audit(self, event: str, _: tuple[Any, ...]) -> None:
        if event in self.TRACES:
            self.take()

    def take(self) -> None:
        self.taken += 1
        if self.taken == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


def statements_of(dialect: SqlDialect, migration: int) -> list[str]:
    """The statements of one migration."""
    later = len(database.scripts(dialect, migration))
    scripts = database.scripts(dialect, migration - 1)
    whole = "\n".join(scripts[: len(scripts) - later])
    return [part for part in whole.split(";\n") if part.strip()]


class DyingScripts(list[str]):
    """Statements of migrations. When all have been executed, the process is killed."""

    def __init__(self, scripts: list[str], say: Callable[..., None]) -> None:
        super().__init__(scripts)
        self._say = say

    def __bool__(self) -> bool:
        """Be executed, even if no statement is left before the kill."""
        return True

    def __iter__(self) -> Iterator[str]:
        yield from super().__iter__()
        self._say(dies=True)
        os.kill(os.getpid(), signal.SIGKILL)


class DyingVFS(apsw.VFS):
    """SQLite's own file access, in which every write is a step."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        super().__init__("dying", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        self._steps.take()
        return DyingFile(self._steps, name, flags)


class DyingFile(apsw.VFSFile):
    def __init__(self, steps: Steps, name: Any, flags: list[int]) -> None:
        self._steps = steps
        super().__init__("unix", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        half = len(data) // 2
        super().xWrite(data[:half], offset)
        self._steps.take()  # a torn write; a complete one equals the state before the next step
        super().xWrite(data[half:], offset + half)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._steps.take()

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._steps.take()


async def play(line: socket.socket) -> None:
    def say(**values: Any) -> None:
        line.sendall(json.dumps(values).encode() + b"\n")

    part = Part(say, line)
    say(pid=os.getpid())
    buffer = b""
    while chunk := line.recv(1 << 16):
        buffer += chunk
        while b"\n" in buffer:
            question, _, buffer = buffer.partition(b"\n")
            do, values = json.loads(question)
            if do == "enough":
                continue
            try:
                say(answer=await getattr(part, do)(**values))
            except SegueError as error:
                say(error=type(error).__name__, text=str(error))


async def rehearse() -> None:
    """Import everything that a player needs, because a player may lack permission to read it."""
    with tempfile.TemporaryDirectory(prefix="segue-") as folder:
        async with await segue.store.open(f"sqlite://{folder}/segue.db") as store:
            await owners.ensure(store, "me")
            async with store.listen(Topic.HANDOFFS):
                await owners.all_owners(store)


def main() -> None:
    asyncio.run(rehearse())
    assert threading.active_count() == 1, "a fork would lose the other threads"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        listening.settimeout(None)
        while True:
            line, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                try:
                    asyncio.run(play(line))
                except BaseException:
                    traceback.print_exc()
                    raise
                finally:
                    os._exit(0)
            line.close()


def _leave(_: int, __: FrameType | None) -> None:
    os._exit(0)


if __name__ == "__main__":
    main()
