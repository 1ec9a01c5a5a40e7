"""`segue memory`: shows and changes the agent's notes about the user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import click

from segue.cli.common import JSON, pass_json_on, with_store
from segue.core import provenance
from segue.core.session import ME, Note
from segue.core.text import one_line
from segue.store import Store, owners
from segue.terminal.output import folded, print_result, screen

T = TypeVar("T")

_EMPTY = (
    "There are no notes about you yet. The agent reads all notes in every session. To add one:\n"
    "\n"
    "  `segue memory add I prefer short answers.`"
)


@click.group(invoke_without_command=True)
@JSON
@click.pass_context
def memory(ctx: click.Context, *, as_json: bool) -> None:
    """Show or change the notes that the agent keeps about you.

    The agent reads all notes in every session. Without a command, list them.
    """
    if ctx.invoked_subcommand is None:
        found = _with_notes(lambda store: owners.list_notes(store, ME))
        print_result(found, _listed(found), as_json=as_json)
    elif as_json:
        pass_json_on(ctx)


_text = click.argument("text", nargs=-1, required=True)


@memory.command()
@_text
@JSON
def add(text: tuple[str, ...], *, as_json: bool) -> None:
    """Add TEXT as a note."""
    note = _with_notes(lambda store: owners.add_note(store, ME, " ".join(text), provenance.OWNER))
    _print_note("Added", note, as_json=as_json)


@memory.command()
@click.argument("number", type=int)
@_text
@JSON
def edit(number: int, text: tuple[str, ...], *, as_json: bool) -> None:
    """Replace note NUMBER with TEXT."""
    note = _with_notes(
        lambda store: owners.edit_note(store, ME, number, " ".join(text), provenance.OWNER)
    )
    _print_note("Changed", note, as_json=as_json)


@memory.command()
@click.argument("number", type=int)
@JSON
def remove(number: int, *, as_json: bool) -> None:
    """Remove note NUMBER."""
    note = _with_notes(lambda store: owners.remove_note(store, ME, number))
    _print_note("Removed", note, as_json=as_json)


def _with_notes(work: Callable[[Store], Awaitable[T]]) -> T:
    """Run `work` on the configured store, which knows the owner, and return its result."""

    async def run(store: Store) -> T:
        await owners.ensure(store, ME)
        return await work(store)

    return with_store(run)


def _print_note(done: str, note: Note, *, as_json: bool) -> None:
    print_result(note, [f"{done}:", *_listed([note])], as_json=as_json)


def _listed(notes: Sequence[Note]) -> list[str]:
    """Return one line per note, wrapped on a screen so that the numbers stand out."""
    if not notes:
        return [_EMPTY]
    room = max(3, len(str(notes[-1].number)))
    return [
        folded(one_line(note.text), screen(), " " * (room + 2), f"{note.number:>{room}}  ")
        for note in notes
    ]
