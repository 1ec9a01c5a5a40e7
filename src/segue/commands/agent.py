"""Commands about the agent: its model, its tools and its notes."""

from __future__ import annotations

from segue.commands.base import PREFIX, Scene, number
from segue.core.errors import BadCommand
from segue.core.text import one_line

MEMORY_ARGUMENTS = "[add | edit | remove]"


async def model(scene: Scene, arguments: str) -> None:
    if arguments:
        await scene.begun()
        async with scene.in_hand() as held:
            chosen = await scene.turns.use_model(held, arguments)
        await scene.notice(f"This session now uses {chosen}.")
        return
    session = scene.session
    used = await scene.turns.model(session)
    why = "chosen for this session" if session and session.model else "the default"
    hint = f"Type {PREFIX}model NAME to change it; `segue model list` shows the names."
    await scene.notice(f"{used}, {why}. {hint}")


async def tools(scene: Scene, _: str) -> None:
    brain = await scene.turns.brain(await scene.begun(), scene.place)
    await scene.notice(brain.describe())


async def memory(scene: Scene, arguments: str) -> None:
    verb, _, rest = arguments.partition(" ")
    notes = scene.store.notes
    match verb:
        case "":
            lines = [f"{note.number:>3}  {note.text}" for note in await notes.list(scene.owner)]
            text = "\n".join(lines) or f"There are no notes yet. Type {PREFIX}memory add TEXT."
        case "add":
            note = await notes.add(scene.owner, rest)
            text = f"Added note {note.number}: {note.text}"
        case "edit":
            which, _, text = rest.partition(" ")
            note = await notes.edit(scene.owner, number(which, "memory edit NUMBER TEXT"), text)
            text = f"Changed note {note.number}: {note.text}"
        case "remove":
            note = await notes.remove(scene.owner, number(rest, "memory remove NUMBER"))
            text = f"Removed note {note.number}: {note.text}"
        case _:
            reason = f"unknown action {one_line(verb, 20)!r}"
            raise BadCommand(usage=f"{PREFIX}memory {MEMORY_ARGUMENTS}", reason=reason)
    await scene.notice(text)
