"""A message's text and whom it addresses, from the commands and mentions that Telegram marks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from segue.platforms.telegram.wire import Entity, Me, Message

_AFTER_A_NAME = " \t\n,:;"


@dataclass(frozen=True, slots=True)
class Words:
    text: str
    """Without the bot's name at its start."""
    command: bool = False
    to_us: bool = False
    """It mentions the bot, or is a command."""
    to_another: bool = False
    """It is a command for another bot."""


def of(message: Message, me: Me) -> Words:
    """The text of a message, or the caption of its file."""
    text = message.text or message.caption
    entities = message.entities if message.text else message.caption_entities
    for entity in entities:
        if entity.type == "bot_command" and entity.offset == 0:
            return _command(text, entity, me)
    names = list(_names(text, entities, me))
    if any(entity.offset == 0 for entity in names):
        _, rest = _cut(text, next(entity for entity in names if entity.offset == 0))
        # A message of only the name keeps it as its text.
        return Words(rest.lstrip(_AFTER_A_NAME) or text, to_us=True)
    return Words(text, to_us=bool(names))


def passed_on(message: Message) -> Words:
    """The text of a message that its sender did not write: content, addressed to no bot."""
    return Words(message.text or message.caption)


def _command(text: str, entity: Entity, me: Me) -> Words:
    """`/status@our_bot now` is `/status now`."""
    command, rest = _cut(text, entity)
    name, at, bot = command.partition("@")
    if at and bot.lower() != me.username.lower():
        return Words(text, command=True, to_another=True)
    return Words(name + rest, command=True, to_us=True)


def _names(text: str, entities: Sequence[Entity], me: Me) -> Iterator[Entity]:
    """The entities that mention the bot."""
    for entity in entities:
        if entity.type == "text_mention" and entity.user is not None and entity.user.id == me.id:
            yield entity
        elif entity.type == "mention":
            name = _between(text, entity.offset, entity.offset + entity.length)
            if name.lower() == f"@{me.username}".lower():
                yield entity


def _cut(text: str, entity: Entity) -> tuple[str, str]:
    """Split the text after an entity at its start."""
    return _between(text, 0, entity.length), _between(text, entity.length, None)


def _between(text: str, start: int, end: int | None) -> str:
    units = _units(text)[2 * start : None if end is None else 2 * end]
    return units.decode("utf-16-le", "replace")


def _units(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")
