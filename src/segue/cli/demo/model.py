"""The demo's model: the user's, the embedded one, or a scripted stand-in if requested."""

from __future__ import annotations

import asyncio
import itertools
import re

from segue.agent.models.base import Prompt
from segue.agent.models.catalog import SCRIPTED
from segue.agent.models.choice import Choice, choose
from segue.agent.models.local import runtime
from segue.agent.models.local.weights import QWEN, present
from segue.agent.models.pool import Models
from segue.agent.models.scripted import ScriptedModel
from segue.cli import embedded_model
from segue.config import Settings
from segue.core.errors import LocalMissing, NoModel, PullFailed
from segue.core.text import count, one_line
from segue.core.transcript import Role, words
from segue.terminal.output import is_interactive, notice

_NAMED = re.compile(r"\bcalled ([A-Z]\w+)")
_CANNOT_ASK = (
    "there is no terminal to ask on whether to download the embedded one. Add --yes to download it,"
    " or --scripted to use scripted answers instead"
)

_INSTEAD = (
    "The demo goes on with scripted answers: everything in it is real, except that no model thinks."
)


def ready(settings: Settings, *, yes: bool, scripted: bool) -> Choice:
    """Return the model to use, downloading the embedded one if the user agrees.

    With `yes`, nothing is asked, and scripted answers replace a model that cannot be downloaded.
    Raises a ModelError if there is no model.
    """
    if scripted:
        return Choice(name=SCRIPTED, why="You asked for scripted answers.")
    try:
        return asyncio.run(choose(settings))
    except (NoModel, LocalMissing):
        if not (yes or is_interactive()):
            raise NoModel(reason=_CANNOT_ASK) from None
    try:
        embedded_model.pull(settings.models_folder, ask=not yes)
    except PullFailed as error:
        if not yes:
            raise
        notice(str(error))
        notice(_INSTEAD)
        return Choice(name=SCRIPTED, why="The embedded model could not be downloaded.")
    return asyncio.run(choose(settings))


def installed(settings: Settings) -> list[str]:
    """Return which parts of the embedded model are there, in words."""
    folder = settings.models_folder
    found: list[str] = []
    if present(folder, QWEN):
        found.append(f"the model in {one_line(str(folder))}")
    elif (folder / f"{QWEN.file}.part").exists():
        found.append(f"a part of the model in {one_line(str(folder))}")
    if runtime.present():
        found.append(f"the Python package {runtime.PACKAGE}, which runs the model")
    return found


def models(name: str) -> Models | None:
    """Return the stand-in, or None for a real model."""
    return StandIn() if name == SCRIPTED else None


class StandIn:
    """Names the boat that it finds in the prompt, so a right answer proves that it was there."""

    async def get(self, wanted: str | None) -> ScriptedModel:
        return ScriptedModel(itertools.repeat(_told))

    async def close(self) -> None: ...


def _told(prompt: Prompt) -> str:
    said = [words(message) for message in prompt.messages if message.role is Role.USER]
    names = [found[1] for text in said if (found := _NAMED.search(text))]
    boat = f"which name the boat {names[-1]}" if names else "which do not name a boat"
    seen = count(len(prompt.messages), "message")
    return f"I am a script, not a real model. I got {seen}, {boat}."
