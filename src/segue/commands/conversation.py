"""Commands about the conversation."""

from __future__ import annotations

from segue.commands.base import PREFIX, CommandContext, number, there
from segue.core.text import count, one_line
from segue.core.transcript import Message, Role, Transcript

_SHOWN = 120


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


def _asked(undone: Transcript) -> Message:
    """The user message with which the undone messages start."""
    return next(message for message in undone if message.role is Role.USER)
