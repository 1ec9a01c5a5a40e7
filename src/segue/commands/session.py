"""Commands about the session: its conversation, its details and its place."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from segue.commands.base import (
    PREFIX,
    ChatContext,
    CommandContext,
    TerminalContext,
    bad_command,
    number,
    there,
    unquoted,
)
from segue.core.address import TARGETS, Address, HomeChannel, Platform
from segue.core.errors import (
    AmbiguousSession,
    ModelError,
    SessionNotFound,
    no_home_channel,
)
from segue.core.session import Session
from segue.core.text import count, one_line, quoted
from segue.core.transcript import Message, Role, Transcript
from segue.platforms import registry
from segue.system import files

if TYPE_CHECKING:
    from segue.store.gateways import PlatformHealth

NEW_THREAD = "--new-thread"
"""The argument of /handoff and /move that opens a new thread for a session that has one there."""
_LAN = "--lan"
_TERMINAL = {"terminal", "local"}
_SHOWN = 120
_OFFERED = 10
_DIGITS = 2
_NAME_WIDTH = 48


async def new(context: CommandContext, arguments: str) -> None:
    await context.fresh(arguments or None)


async def retry(context: CommandContext, _: str) -> None:
    """Undo the last turn and send the user's last message again."""
    from segue.store import transcripts  # noqa: PLC0415

    async with context.in_hand() as held:
        said = await transcripts.repeat(context.store, held.lease)
    await context.notice(f"Again: {one_line(said.content, _SHOWN)}")
    await context.say(None)


async def undo(context: CommandContext, arguments: str) -> None:
    from segue.store import transcripts  # noqa: PLC0415

    turns = number(arguments, "undo NUMBER", default=1)
    async with context.in_hand() as held:
        undone = await transcripts.undo(context.store, held.lease, turns)
    back = one_line(_asked(undone).content, _SHOWN)
    await context.notice(f"Undone from this message on: {back}\nType {PREFIX}redo to restore it.")


async def redo(context: CommandContext, _: str) -> None:
    from segue.store import transcripts  # noqa: PLC0415

    async with context.in_hand() as held:
        restored = await transcripts.restore(context.store, held.lease)
    await context.notice(f"Restored {count(len(restored), 'message')}.")


async def compress(context: CommandContext, _: str) -> None:
    async with context.in_hand() as held:
        summary = await context.turns.compress(held.lease.session_id, context.place, held=held)
    await context.notice(f"The conversation continues from this summary:\n\n{summary.content}")


async def history(context: CommandContext, arguments: str) -> None:
    from segue.store import transcripts  # noqa: PLC0415

    turns = number(arguments, "history NUMBER", default=5)
    transcript = await transcripts.load(context.store, there(context).id)
    recap = transcript.recap(last=turns, length=600)
    await context.notice(recap or "There are no messages yet.")


async def stop(context: ChatContext, _: str) -> None:
    await context.stop()


def _asked(undone: Transcript) -> Message:
    """The user message with which the undone messages start."""
    return next(message for message in undone if message.role is Role.USER)


async def title(context: CommandContext, arguments: str) -> None:
    from segue.store import sessions as stored_sessions  # noqa: PLC0415

    session = await context.begun()
    if arguments:
        session = await stored_sessions.rename(context.store, session.id, arguments)
    if session.title is None:
        await context.notice(f"This session has no title yet. Type {PREFIX}title and a title.")
        return
    await context.notice(f"The title of this session is {quoted(session.title)}.")


async def sessions(context: CommandContext, arguments: str) -> None:
    from segue.store import sessions as stored_sessions  # noqa: PLC0415

    limit = number(arguments, "sessions NUMBER", default=20)
    found = await stored_sessions.list_sessions(context.store, context.owner, limit=limit)
    here = context.session.id if context.session else None
    lines = [_line(session, here=session.id == here) for session in found]
    hint = f"Type {PREFIX}resume and a name to continue one."
    await context.notice("\n".join([*lines, "", hint]) if lines else "There are no sessions yet.")


async def resume(context: CommandContext, arguments: str) -> None:
    from segue.store import sessions as stored_sessions  # noqa: PLC0415

    name = unquoted(arguments) or "latest"
    await context.resume(await stored_sessions.find(context.store, context.owner, name))


async def resume_in_chat(context: ChatContext, arguments: str) -> None:
    """Move a session here. Without a name, or with an unknown or ambiguous one, the user chooses
    from a list. A number refers to that list."""
    from segue.store import sessions  # noqa: PLC0415

    offered = await sessions.list_sessions(
        context.store, context.owner, titled=True, limit=_OFFERED
    )
    if not arguments:
        await context.offer(offered)
    elif arguments.isdecimal() and len(arguments) <= _DIGITS:
        if not 0 < int(arguments) <= len(offered):
            reason = f"there is no number {arguments} in the list"
            raise bad_command(f"{PREFIX}resume to see it", reason)
        await context.resume(offered[int(arguments) - 1])
    else:
        try:
            name = unquoted(arguments)
            await context.resume(await sessions.find(context.store, context.owner, name))
        except (SessionNotFound, AmbiguousSession) as error:
            await context.notice(str(error))
            await context.offer(offered)


async def status(context: CommandContext, _: str) -> None:
    session = there(context)
    try:
        model = await context.turns.model(session)
    except ModelError:
        model = "none yet"
    lines = (
        f"Session    {session.name} ({session.id})",
        f"Place      {session.address or 'here'}",
        f"Directory  {session.cwd or 'none'}",
        f"Model      {model}",
        f"Messages   {session.messages:,}",
        f"Started    {session.started.astimezone():%d %B %Y, %H:%M} ({session.source.shown})",
    )
    await context.notice("\n".join(lines))


async def usage(context: CommandContext, _: str) -> None:
    spent = there(context).usage
    cached = f" ({spent.cached:,} of them from a cache)" if spent.cached else ""
    await context.notice(f"{spent.input:,} tokens in{cached}, {spent.output:,} out.")


async def export(context: CommandContext, arguments: str) -> None:
    from segue.store import transcripts  # noqa: PLC0415

    session = there(context)
    lines = [line async for line in transcripts.export(context.store, context.owner, session.id)]
    path = await asyncio.to_thread(
        _write, Path(session.cwd or Path.home()), arguments or f"{session.id}.jsonl", lines
    )
    await context.notice(f"{count(len(lines) - 1, 'message')} written to {path}.")


def _write(folder: Path, name: str, lines: list[bytes]) -> Path:
    """Write a new file. Raise UserError if it exists or cannot be created."""
    path = folder / Path(name).expanduser()
    try:
        with files.new_file(path) as file:
            file.writelines(lines)
    except OSError as error:
        reason = f"{path}: {error.strerror}"
        raise bad_command(f"{PREFIX}export FILE", reason) from error
    return path


async def handoff(context: TerminalContext, arguments: str) -> None:
    if not await _hand_off(context, "handoff", arguments):
        text, _ = await _destinations(context, "handoff")
        await context.notice(text)


async def move(context: ChatContext, arguments: str) -> None:
    if arguments.strip().casefold() in _TERMINAL:
        await context.notice(await _way_to_terminal(there(context), context))
        return
    if await _hand_off(context, "move", arguments):
        return
    text, ready = await _destinations(context, "move")
    if context.session is not None:
        text += "\n" + await _way_to_terminal(context.session, context)
    await context.offer_platforms(text, ready)


async def _way_to_terminal(session: Session, context: ChatContext) -> str:
    from segue.handoffs import way_back  # noqa: PLC0415 - commands without it load fast

    return f"To continue in a terminal, type there: `{await way_back(context.store, session)}`"


async def _hand_off(context: CommandContext, command: str, arguments: str) -> bool:
    """Hand off the session to the platform that the user typed. Return False if there is none."""
    from segue.handoffs import HandoffRequest, platform_named  # noqa: PLC0415

    words = arguments.split()
    name = " ".join(word for word in words if word not in {NEW_THREAD, _LAN})
    if _LAN in words and name != Platform.WEB:
        usage = f"{PREFIX}{command} {Platform.WEB} {_LAN}"
        raise bad_command(usage, f"{_LAN} is for the web page")
    if not name:
        return False
    request = HandoffRequest(platform_named(name), new_thread=NEW_THREAD in words)
    await context.hand_off(request, lan=_LAN in words)
    return True


async def _destinations(context: CommandContext, command: str) -> tuple[str, list[Platform]]:
    """List the platforms that the session can be handed off to, and what each still needs. Return
    the list, and the platforms that need nothing."""
    from segue.store import gateways, owners  # noqa: PLC0415

    if not (alive := await gateways.alive(context.store)):
        nowhere = (
            "No gateway is running, so the session cannot move. Type `segue gateway start` in"
            f" another terminal, or {PREFIX}{command} and a platform: {registry.listed()}."
        )
        return nowhere, []
    served = {health.platform: health for g in alive for health in g.links.values()}
    homes = {home.platform: home for home in await owners.homes(context.store, context.owner)}
    here = context.place.context.source
    shown = [p for p in TARGETS if p in served and not _is_home(homes.get(p), here)]
    lines = [_destination(served[p], homes.get(p), command) for p in shown]
    if not lines:
        lines.append("No other platform is connected.")
    others = [platform for platform in TARGETS if platform not in served]
    if others:
        lines.append(f"The gateway does not serve {', '.join(others)}.")
    return "\n".join(lines), [platform for platform in shown if platform in homes]


def _is_home(home: HomeChannel | None, here: Address) -> bool:
    """Whether handoffs to the platform arrive in this chat, where the session is already."""
    if home is None:
        return False
    return (home.platform, home.address.chat_id) == (here.platform, here.chat_id)


def _destination(health: PlatformHealth, home: HomeChannel | None, command: str) -> str:
    platform = health.platform
    why = f" ({one_line(health.detail)})" if health.detail else ""
    ready = f"Handoffs arrive at {home}: type {PREFIX}{command} {platform}."
    then = ready if home else no_home_channel(platform)
    return f"{platform} is {health.state}{why}. {then}"


async def follow(context: TerminalContext, _: str) -> None:
    await context.follow()


def _line(session: Session, *, here: bool) -> str:
    name = one_line(session.name, _NAME_WIDTH)
    active = f"{session.active.astimezone():%d %b %H:%M}"
    return f"{'*' if here else ' '} {name:<{_NAME_WIDTH}}  {session.where:<9}  {active}"
