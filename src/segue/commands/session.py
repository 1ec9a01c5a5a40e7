"""Commands about the session, and where it is."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import IO

from segue.commands.base import PREFIX, Scene, TerminalScene, number, there
from segue.core.errors import BadCommand
from segue.core.session import Session
from segue.core.text import count, one_line

_NAME_WIDTH = 48


async def title(scene: Scene, arguments: str) -> None:
    session = await scene.begun()
    if arguments:
        session = await scene.store.sessions.rename(session.id, arguments)
    await scene.notice(f"This session is called {session.name}.")


async def sessions(scene: Scene, arguments: str) -> None:
    limit = number(arguments, "sessions NUMBER", default=20)
    found = await scene.store.sessions.list(scene.owner, limit=limit)
    here = scene.session.id if scene.session else None
    lines = [_line(session, here=session.id == here) for session in found]
    hint = f"Type {PREFIX}resume and a name to go on with one."
    await scene.notice("\n".join([*lines, "", hint]) if lines else "There are no sessions yet.")


async def resume(scene: Scene, arguments: str) -> None:
    await scene.resume(await scene.store.sessions.find(scene.owner, arguments or "latest"))


async def status(scene: Scene, _: str) -> None:
    session = there(scene)
    lines = (
        f"Session    {session.name} ({session.id})",
        f"Place      {session.address or 'here'}",
        f"Directory  {session.cwd or 'none'}",
        f"Model      {session.model or 'the usual one'}",
        f"Messages   {session.messages:,}",
        f"Begun      {session.started.astimezone():%d %B %Y, %H:%M} on {session.source}",
    )
    await scene.notice("\n".join(lines))


async def usage(scene: Scene, _: str) -> None:
    spent = there(scene).usage
    cached = f" ({spent.cached:,} of them from a cache)" if spent.cached else ""
    await scene.notice(f"{spent.input:,} tokens in{cached}, {spent.output:,} out.")


async def export(scene: Scene, arguments: str) -> None:
    session = there(scene)
    lines = [line async for line in scene.store.transcripts.export(scene.owner, session.id)]
    path = await asyncio.to_thread(
        _write, Path(session.cwd or Path.home()), arguments or f"{session.id}.jsonl", lines
    )
    await scene.notice(f"{count(len(lines) - 1, 'message')} written to {path}.")


def _write(folder: Path, name: str, lines: list[bytes]) -> Path:
    """A new file; BadCommand when there is one of that name, or none can be made."""
    path = folder / Path(name).expanduser()
    try:
        with new_file(path) as file:
            file.writelines(lines)
    except OSError as error:
        reason = f"{path}: {error.strerror}"
        raise BadCommand(usage=f"{PREFIX}export FILE", reason=reason) from error
    return path


async def handoff(scene: TerminalScene, arguments: str) -> None:
    if not arguments:
        reason = "it needs the name of a platform"
        raise BadCommand(usage=f"{PREFIX}handoff PLATFORM", reason=reason)
    await scene.begun()
    await scene.hand_off(arguments)


async def follow(scene: TerminalScene, _: str) -> None:
    await scene.follow()


@contextlib.contextmanager
def new_file(path: Path) -> Generator[IO[bytes]]:
    """A file that was not there, whole or not at all; for its owner alone, since it holds a
    conversation."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(number, "wb") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _line(session: Session, *, here: bool) -> str:
    where = session.address.platform if session.address else "set aside"
    name = one_line(session.name, _NAME_WIDTH)
    active = f"{session.active.astimezone():%d %b %H:%M}"
    return f"{'*' if here else ' '} {name:<{_NAME_WIDTH}}  {where:<9}  {active}"
