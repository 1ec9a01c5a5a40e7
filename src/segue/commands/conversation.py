"""Commands about the conversation."""

from __future__ import annotations

from msgspec import structs

from segue.commands.base import PREFIX, Scene, number, there
from segue.core.text import count, one_line
from segue.core.transcript import Message, Role, Transcript

_SHOWN = 120


async def new(scene: Scene, arguments: str) -> None:
    await scene.fresh(arguments or None)


async def retry(scene: Scene, _: str) -> None:
    """Undo the last turn and send the user's last message again."""
    async with scene.in_hand() as held:
        undone = await scene.store.transcripts.undo(held.lease)
    said = _asked(undone)
    await scene.notice(f"Again: {one_line(said.content, _SHOWN)}")
    await scene.say(structs.replace(said, seq=0))


async def undo(scene: Scene, arguments: str) -> None:
    turns = number(arguments, "undo NUMBER", default=1)
    async with scene.in_hand() as held:
        undone = await scene.store.transcripts.undo(held.lease, turns)
    back = one_line(_asked(undone).content, _SHOWN)
    await scene.notice(f"Undone from this message on: {back}\nType {PREFIX}redo to restore it.")


async def redo(scene: Scene, _: str) -> None:
    async with scene.in_hand() as held:
        restored = await scene.store.transcripts.restore(held.lease)
    await scene.notice(f"Restored {count(len(restored), 'message')}.")


async def compress(scene: Scene, _: str) -> None:
    async with scene.in_hand() as held:
        summary = await scene.turns.compress(held.lease.session_id, scene.place, held=held)
    await scene.notice(f"The conversation continues from this summary:\n\n{summary.content}")


async def history(scene: Scene, arguments: str) -> None:
    turns = number(arguments, "history NUMBER", default=5)
    transcript = await scene.store.transcripts.load(there(scene).id)
    recap = transcript.recap(last=turns, length=600)
    await scene.notice(recap or "There are no messages yet.")


def _asked(undone: Transcript) -> Message:
    """The user message with which the undone messages start."""
    return next(message for message in undone if message.role is Role.USER)
