"""Commands about the agent: its model, its tools, its notes, and what it asks to do."""

from __future__ import annotations

from segue.commands.base import PREFIX, ChatContext, CommandContext, bad_command, number
from segue.core import provenance
from segue.core.approval import Answer
from segue.core.text import one_line

_APPROVE = "approve NUMBER [session]"
MEMORY_ARGUMENTS = "[add | edit | remove]"


async def model(context: CommandContext, arguments: str) -> None:
    if arguments:
        await context.begun()
        async with context.in_hand() as held:
            chosen = await context.turns.use_model(held, arguments)
        await context.notice(f"This session now uses {chosen}.")
        return
    session = context.session
    used = await context.turns.model(session)
    why = "chosen for this session" if session and session.model else "the default"
    hint = f"Type {PREFIX}model NAME to change it; `segue model list` shows the names."
    await context.notice(f"{used}, {why}. {hint}")


async def tools(context: CommandContext, _: str) -> None:
    brain = await context.turns.brain(await context.begun(), context.place)
    await context.notice(brain.describe())


async def memory(context: CommandContext, arguments: str) -> None:
    from segue.store import owners  # noqa: PLC0415

    verb, _, rest = arguments.partition(" ")
    match verb:
        case "":
            lines = [
                f"{note.number:>3}  {note.text}"
                for note in await owners.list_notes(context.store, context.owner)
            ]
            text = "\n".join(lines) or f"There are no notes yet. Type {PREFIX}memory add TEXT."
        case "add":
            note = await owners.add_note(context.store, context.owner, rest, provenance.OWNER)
            text = f"Added note {note.number}: {note.text}"
        case "edit":
            which, _, text = rest.partition(" ")
            wanted = number(which, "memory edit NUMBER TEXT")
            note = await owners.edit_note(
                context.store, context.owner, wanted, text, provenance.OWNER
            )
            text = f"Changed note {note.number}: {note.text}"
        case "remove":
            note = await owners.remove_note(
                context.store, context.owner, number(rest, "memory remove NUMBER")
            )
            text = f"Removed note {note.number}: {note.text}"
        case _:
            reason = f"unknown action {one_line(verb, 20)!r}"
            raise bad_command(f"{PREFIX}memory {MEMORY_ARGUMENTS}", reason)
    await context.notice(text)


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
            raise bad_command(f"{PREFIX}{_APPROVE}", reason)


async def deny(context: ChatContext, arguments: str) -> None:
    await context.answer(Answer.NEVER, number(arguments, "deny NUMBER") if arguments else None)


async def show(context: ChatContext, arguments: str) -> None:
    await context.show(number(arguments, "show NUMBER") if arguments else None)
