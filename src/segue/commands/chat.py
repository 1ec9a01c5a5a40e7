"""Chat-only commands, and commands that work differently in chats."""

from __future__ import annotations

from segue.commands.base import PREFIX, ChatContext, number, unquoted
from segue.core.approval import Answer
from segue.core.errors import AmbiguousSession, BadCommand, SessionNotFound

_APPROVE = "approve NUMBER [session]"
_OFFERED = 10
_DIGITS = 2


async def resume(context: ChatContext, arguments: str) -> None:
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
            raise BadCommand(usage=f"{PREFIX}resume to see it", reason=reason)
        await context.resume(offered[int(arguments) - 1])
    else:
        try:
            name = unquoted(arguments)
            await context.resume(await sessions.find(context.store, context.owner, name))
        except (SessionNotFound, AmbiguousSession) as error:
            await context.notice(str(error))
            await context.offer(offered)


async def stop(context: ChatContext, _: str) -> None:
    await context.stop()


async def approve(context: ChatContext, arguments: str) -> None:
    match arguments.lower().split():
        case []:
            await context.answer(Answer.ONCE, None)
        case [which]:
            await context.answer(Answer.ONCE, number(which, _APPROVE))
        case [which, "session"]:
            await context.answer(Answer.SESSION, number(which, _APPROVE))
        case _:
            reason = "allow it once, or for the whole session"
            raise BadCommand(usage=f"{PREFIX}{_APPROVE}", reason=reason)


async def deny(context: ChatContext, arguments: str) -> None:
    await context.answer(Answer.NEVER, number(arguments, "deny NUMBER") if arguments else None)


async def show(context: ChatContext, arguments: str) -> None:
    await context.show(number(arguments, "show NUMBER") if arguments else None)


async def sethome(context: ChatContext, arguments: str) -> None:
    await context.set_home(confirmed=arguments.lower() == "yes")


async def start(context: ChatContext, arguments: str) -> None:
    await context.greet(arguments)


async def whoami(context: ChatContext, _: str) -> None:
    await context.who_am_i()
