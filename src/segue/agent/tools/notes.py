"""Saves notes for all later sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from msgspec import Meta, Struct

from segue.agent.tools.base import Plan, Tool, ToolFailed, Workplace
from segue.approvals.rules import Risk
from segue.core import provenance
from segue.core.approval import Description
from segue.core.errors import NoteError
from segue.core.note import NOTE_LIMIT, Note, clean_note
from segue.core.provenance import Provenance
from segue.core.text import visible

Keep = Callable[[str, Provenance], Awaitable[Note]]
"""Saves a text about the owner, with its authors, and returns the new note."""


class RememberArguments(Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[
        str,
        Meta(
            description=f"One fact, in one short sentence of at most {NOTE_LIMIT} characters.",
            min_length=1,
        ),
    ]


def remember(keep: Keep) -> Tool[RememberArguments]:
    """The tool that saves notes with `keep`. Notes affect every later session, so saving one needs
    approval like writing a file."""

    async def add(text: str, by: Provenance) -> str:
        try:
            note = await keep(text, by)
        except NoteError as error:
            raise ToolFailed(str(error)) from error
        return f"Kept as note {note.number}: {note.text}"

    def plan(arguments: RememberArguments, place: Workplace) -> Plan:
        try:
            text = clean_note(arguments.text)  # in the form that will be saved
        except NoteError as error:
            raise ToolFailed(str(error)) from error
        by = place.read | provenance.AGENT
        return Plan(
            what=Description("remember about you in every session:", visible(text)),
            work=lambda: add(text, by),
        )

    return Tool(
        name="remember",
        description=(
            "Keep a fact about the person that will matter in later sessions, such as a "
            "preference or a name. You are shown all notes in every session."
        ),
        risk=Risk.WRITE,
        arguments=RememberArguments,
        plan=plan,
    )
