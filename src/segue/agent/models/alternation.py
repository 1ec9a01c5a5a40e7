"""Conversations for providers that want the person and the model to speak by turns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Protocol

from segue.agent.models.base import as_user, by_agent
from segue.agent.models.pictures import shown
from segue.core.transcript import Image, Message, Role

OPENING = "(The beginning of this conversation is not shown.)"
"""Said for the person when the window begins with the model: the first word is a user's."""
ONWARD = "(Go on.)"
"""Said for the person when the window ends with the model: the last word is a user's, and newer
models do not go on from their own words."""

Json = dict[str, Any]


class Wire(Protocol):
    """How a provider writes down what was said: in parts."""

    role: ClassVar[str]
    """What it calls the model."""
    parts: ClassVar[str]
    """What it calls the parts of what somebody said."""

    def text(self, words: str) -> list[Json]:
        """One part; or none for a blank text, which would be refused."""
        ...

    def picture(self, picture: Image) -> Json: ...

    def answer(self, message: Message) -> list[Json]:
        """What the model said, and its calls."""
        ...

    def result(self, message: Message) -> Json:
        """What came of a call."""
        ...


def by_turns(messages: Sequence[Message], wire: Wire, kinds: Collection[str]) -> list[Json]:
    """The user and the model by turns, from a user to a user, with pictures of these kinds.

    Neighbours of one role are joined, and where the user's word is missing, it is said in
    brackets.
    """
    turns: list[Json] = []

    def say(role: str, parts: list[Json]) -> None:
        if parts and turns and turns[-1]["role"] == role:
            turns[-1][wire.parts].extend(parts)
        elif parts:
            turns.append({"role": role, wire.parts: parts})

    for message, pictures in shown(messages, kinds):
        if message.role is Role.TOOL:
            say("user", [wire.result(message)])
        elif by_agent(message):
            if not turns:
                say("user", wire.text(OPENING))
            say(wire.role, wire.answer(message))
        else:
            say("user", [*_seen(pictures, wire), *wire.text(as_user(message))])
    if not turns or turns[-1]["role"] == wire.role:
        say("user", wire.text(ONWARD if turns else OPENING))
    return turns


def _seen(pictures: Sequence[Image | str], wire: Wire) -> list[Json]:
    seen: list[Json] = []
    for picture in pictures:
        seen += wire.text(picture) if isinstance(picture, str) else [wire.picture(picture)]
    return seen
