"""Commands about the session and its place."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from segue.commands.base import PREFIX, Scene, TerminalScene, number, there
from segue.core.address import HomeChannel
from segue.core.errors import BadCommand, NoHomeChannel
from segue.core.handoff import TARGETS
from segue.core.session import Session
from segue.core.text import count, one_line

if TYPE_CHECKING:
    from segue.store.gateways import PlatformHealth

_NAME_WIDTH = 48


async def title(scene: Scene, arguments: str) -> None:
    session = await scene.begun()
    if arguments:
        session = await scene.store.sessions.rename(session.id, arguments)
    await scene.notice(f"The title of this session is {session.name}.")


async def sessions(scene: Scene, arguments: str) -> None:
    limit = number(arguments, "sessions NUMBER", default=20)
    found = await scene.store.sessions.list(scene.owner, limit=limit)
    here = scene.session.id if scene.session else None
    lines = [_line(session, here=session.id == here) for session in found]
    hint = f"Type {PREFIX}resume and a name to continue one."
    await scene.notice("\n".join([*lines, "", hint]) if lines else "There are no sessions yet.")


async def resume(scene: Scene, arguments: str) -> None:
    await scene.resume(await scene.store.sessions.find(scene.owner, arguments or "latest"))


async def status(scene: Scene, _: str) -> None:
    session = there(scene)
    lines = (
        f"Session    {session.name} ({session.id})",
        f"Place      {session.address or 'here'}",
        f"Directory  {session.cwd or 'none'}",
        f"Model      {session.model or 'the default'}",
        f"Messages   {session.messages:,}",
        f"Started    {session.started.astimezone():%d %B %Y, %H:%M} on {session.source}",
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
    """Write a new file. Raise BadCommand if it exists or cannot be created."""
    path = folder / Path(name).expanduser()
    try:
        with new_file(path) as file:
            file.writelines(lines)
    except OSError as error:
        reason = f"{path}: {error.strerror}"
        raise BadCommand(usage=f"{PREFIX}export FILE", reason=reason) from error
    return path


async def handoff(scene: TerminalScene, arguments: str) -> None:
    if arguments:
        await scene.begun()
        await scene.hand_off(arguments)
    else:
        await scene.notice(await _where_to(scene))


async def _where_to(scene: Scene) -> str:
    """List the platforms that the session can be handed off to, and what each still needs."""
    if not (gateways := await scene.store.gateways.alive()):
        return (
            "No gateway is running, so the session cannot move. Type `segue gateway start` in"
            f" another terminal, or {PREFIX}handoff and a platform: {', '.join(TARGETS)}."
        )
    served = {health.platform: health for g in gateways for health in g.links.values()}
    homes = {home.platform: home for home in await scene.store.owners.homes(scene.owner)}
    lines = [_destination(served[p], homes.get(p)) for p in TARGETS if p in served]
    others = ", ".join(platform for platform in TARGETS if platform not in served)
    lines += [f"The gateway does not serve {others}."] if others else []
    return "\n".join(lines)


def _destination(health: PlatformHealth, home: HomeChannel | None) -> str:
    platform = health.platform
    why = f" ({one_line(health.detail)})" if health.detail else ""
    ready = f"Handoffs arrive at {home}: type {PREFIX}handoff {platform}."
    then = ready if home else NoHomeChannel(platform=platform)
    return f"{platform} is {health.state}{why}. {then}"


async def follow(scene: TerminalScene, _: str) -> None:
    await scene.follow()


@contextlib.contextmanager
def new_file(path: Path) -> Generator[IO[bytes]]:
    """Create a new file, removed again on error. Readable only by its owner, because it holds a
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
