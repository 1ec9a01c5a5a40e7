"""Chat-only commands, and commands that work differently in chats."""

from __future__ import annotations

from segue.commands.base import PREFIX, ChatScene, number
from segue.core.approval import Answer
from segue.core.errors import AmbiguousSession, BadCommand, SessionNotFound

_APPROVE = "approve NUMBER [session]"
_OFFERED = 10
_DIGITS = 2


async def resume(scene: ChatScene, arguments: str) -> None:
    """Move a session here. Without a name, or with an unknown or ambiguous one, the user chooses
    from a list. A number refers to that list."""
    offered = await scene.store.sessions.list(scene.owner, titled=True, limit=_OFFERED)
    if not arguments:
        await scene.offer(offered)
    elif arguments.isdecimal() and len(arguments) <= _DIGITS:
        if not 0 < int(arguments) <= len(offered):
            reason = f"there is no number {arguments} in the list"
            raise BadCommand(usage=f"{PREFIX}resume to see it", reason=reason)
        await scene.resume(offered[int(arguments) - 1])
    else:
        try:
            await scene.resume(await scene.store.sessions.find(scene.owner, arguments))
        except (SessionNotFound, AmbiguousSession) as error:
            await scene.notice(str(error))
            await scene.offer(offered)


async def stop(scene: ChatScene, _: str) -> None:
    await scene.stop()


async def approve(scene: ChatScene, arguments: str) -> None:
    match arguments.lower().split():
        case []:
            await scene.answer(Answer.ONCE, None)
        case [which]:
            await scene.answer(Answer.ONCE, number(which, _APPROVE))
        case [which, "session"]:
            await scene.answer(Answer.SESSION, number(which, _APPROVE))
        case _:
            reason = "allow it once, or for the whole session"
            raise BadCommand(usage=f"{PREFIX}{_APPROVE}", reason=reason)


async def deny(scene: ChatScene, arguments: str) -> None:
    await scene.answer(Answer.NEVER, number(arguments, "deny NUMBER") if arguments else None)


async def show(scene: ChatScene, arguments: str) -> None:
    which, _, page = arguments.partition(" ")
    usage = "show NUMBER PAGE"
    await scene.show(number(which, usage) if which else None, number(page.strip(), usage, 1))


async def sethome(scene: ChatScene, arguments: str) -> None:
    await scene.set_home(confirmed=arguments.lower() == "yes")


async def start(scene: ChatScene, arguments: str) -> None:
    await scene.greet(arguments)


async def whoami(scene: ChatScene, _: str) -> None:
    await scene.who_am_i()
