"""Message lists for providers that require the user and the model to alternate."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Protocol

from segue.agent.models.base import as_user, by_agent
from segue.agent.models.pictures import shown
from segue.core.transcript import Image, Message, Role

OPENING = "(The beginning of this conversation is not shown.)"
"""Sent as the user when the window starts with the model, because the user must speak first."""
ONWARD = "(Go on.)"
"""Sent as the user when the window ends with the model. The user must speak last, and newer models
do not continue their own text."""

Json = dict[str, Any]


class WireFormat(Protocol):
    """A provider's format for messages, which consist of parts."""

    role: ClassVar[str]
    """The role name of the model."""
    parts: ClassVar[str]
    """The key for the parts of a message."""

    def text(self, words: str) -> list[Json]:
        """A list with one part, or empty for blank text, which the provider would reject."""
        ...

    def picture(self, picture: Image) -> Json: ...

    def answer(self, message: Message) -> list[Json]:
        """The parts of an answer: its text and its calls."""
        ...

    def result(self, message: Message) -> Json:
        """The result of a tool call."""
        ...


def by_turns(messages: Sequence[Message], wire: WireFormat, kinds: Collection[str]) -> list[Json]:
    """Convert the messages so that user and model alternate, starting and ending with the user.

    Consecutive messages of one role are merged. A missing user message is filled in with a text in
    brackets. `kinds` are the media types of the pictures to include.
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


def _seen(pictures: Sequence[Image | str], wire: WireFormat) -> list[Json]:
    seen: list[Json] = []
    for picture in pictures:
        seen += wire.text(picture) if isinstance(picture, str) else [wire.picture(picture)]
    return seen
