"""Keeping something in mind for every later session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec

from segue.agent.tools.base import Plan, Risk, Tool, ToolFailed, Workplace, visible
from segue.core.errors import NoteError
from segue.core.note import NOTE_LIMIT, Note, clean_note

Keep = Callable[[str], Awaitable[Note]]
"""Keeps a text about the owner, and gives the note that it is now."""


class RememberArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[
        str,
        msgspec.Meta(
            description=f"One fact, in one short sentence of at most {NOTE_LIMIT} characters.",
            min_length=1,
        ),
    ]


def remember(keep: Keep) -> Tool[RememberArguments]:
    """The tool that writes notes with `keep`. It changes every later session, so that a person is
    asked as for a file."""

    async def add(text: str) -> str:
        try:
            note = await keep(text)
        except NoteError as error:
            raise ToolFailed(str(error)) from error
        return f"Kept as note {note.number}: {note.text}"

    def plan(arguments: RememberArguments, _: Workplace) -> Plan:
        try:
            text = clean_note(arguments.text)  # as it will be kept
        except NoteError as error:
            raise ToolFailed(str(error)) from error
        return Plan(
            what=visible(f"remember about you in every session:\n{text}"), work=lambda: add(text)
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
