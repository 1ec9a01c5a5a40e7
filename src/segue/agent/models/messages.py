"""Messages as a provider wants them: the pictures that a model sees, and messages that consist of
parts, as at Anthropic and Gemini.

There, user and model must alternate. An answer is sent back with its parts in their original order:
its layout, which is stored in its extras, lists them. The texts and the calls are stored only in
the message, not repeated in the layout. Other details of a part are meaningful only to the
provider.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from segue.agent.models.base import as_user, by_agent
from segue.core.text import one_line
from segue.core.transcript import Image, Message, Role

MAX_PICTURES = 8
"""The maximum number of pictures. Each one costs tokens and megabytes in every request."""
MAX_BYTES = 12_000_000
"""The maximum total size in bytes: 16 MB as base64, out of Gemini's 20 MB for a whole request."""


def shown(
    messages: Sequence[Message], kinds: Container[str]
) -> Iterator[tuple[Message, list[Image | str]]]:
    """Yield each message with its pictures, in order. A sentence replaces those that are too old,
    and those whose media types are not among `kinds`, which the model accepts."""
    visible = [i for m in messages if m.images for i in m.images if i.media_type in kinds]
    hidden = _too_old(visible)
    for message in messages:
        pictures: list[Image | str] = []
        for picture in message.images:
            seen = picture.media_type in kinds
            pictures.append(picture if seen and not hidden else sentence(picture))
            if seen and hidden:
                hidden -= 1
        yield message, pictures


def sentence(picture: Image) -> str:
    """The text that replaces a picture."""
    about = f"{one_line(picture.media_type, 40)}, {_size(len(picture.data))}"
    return f"[A picture ({about}) that you cannot see now.]"


def _too_old(pictures: Sequence[Image]) -> int:
    """The number of oldest pictures to leave out."""
    room = MAX_BYTES
    for newer, picture in enumerate(reversed(pictures)):
        room -= len(picture.data)
        if newer == MAX_PICTURES or room < 0:
            return len(pictures) - newer
    return 0


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB" if count >= 1_000_000 else f"{-(-count // 1000)} kB"


OPENING = "(The beginning of this conversation is not shown.)"
"""Sent as the user when the window starts with the model, because the user must speak first."""
ONWARD = "(Go on.)"
"""Sent as the user when the window ends with the model. The user must speak last, and newer models
do not continue their own text."""

Json = dict[str, Any]

C = TypeVar("C")


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


def layout_of(message: Message, provider: str) -> list[Any]:
    """The layout that `provider` stored for this message, or an empty list."""
    layout: Any = message.extras.get(provider) if message.extras else None
    return cast("list[Any]", layout) if isinstance(layout, list) else []


class Unlaid(Generic[C]):
    """The text and calls of a message that are still to be matched with its layout."""

    def __init__(self, message: Message, calls: Sequence[C]) -> None:
        """`calls` are the calls of the message in wire format, in the same order."""
        self._text = message.content
        self._ids = [call.id for call in message.tool_calls]
        self._calls = calls
        self._at = self._called = 0

    def text(self, length: int) -> str:
        """The next `length` characters of the text."""
        begin = self._at
        self._at = self._at + length
        return self._text[begin : self._at]

    def call(self, call_id: str) -> C | None:
        """The next call in wire format, or None if its id is not `call_id`."""
        if self._called == len(self._calls) or self._ids[self._called] != call_id:
            return None
        self._called += 1
        return self._calls[self._called - 1]

    @property
    def is_nothing(self) -> bool:
        """True if the layout covered the whole message. Otherwise it belongs to another one."""
        return self._at == len(self._text) and self._called == len(self._calls)
