"""Validation of the texts, captions and buttons that a bot sends.

core.telegram.org/bots/api#formatting-options and #inlinekeyboardbutton. The documentation gives
limits but no error texts; these are as reported by bots (such as nullclaw's pull request 329 for a
blank text). Texts in capitals come from the servers behind the Bot API.
"""

from __future__ import annotations

from segue.testing.telegram.entities import (
    Entity,
    Formatted,
    cleaned,
    is_empty,
    trimmed,
    units,
    with_found,
)
from segue.testing.telegram.errors import Malformed, bad
from segue.testing.telegram.markup import parse_html
from segue.testing.telegram.snapshot import Button
from segue.testing.telegram.wire import InlineButton, InlineKeyboard, ParseMode

TEXT_LIMIT = 4096
CAPTION_LIMIT = 1024
DATA_LIMIT = 64
_BUTTONS = 100


def message_text(
    text: str, parse_mode: ParseMode | None, entities: tuple[Entity, ...], *, too_long: str
) -> Formatted:
    """A message's text: 1 to 4096 characters after parsing the markup."""
    if not text:
        raise bad("message text is empty")
    formatted = read(text, parse_mode, entities)
    if is_empty(formatted.text):
        raise bad("text must be non-empty")
    if units(formatted.text) > TEXT_LIMIT:
        raise bad(too_long)
    return formatted


def caption(text: str, parse_mode: ParseMode | None, entities: tuple[Entity, ...]) -> Formatted:
    """A file's caption: 0 to 1024 characters after parsing the markup."""
    formatted = read(text, parse_mode, entities)
    if units(formatted.text) > CAPTION_LIMIT:
        raise bad("message caption is too long")
    return formatted


def read(text: str, parse_mode: ParseMode | None, entities: tuple[Entity, ...]) -> Formatted:
    if parse_mode is not None and entities:
        raise Malformed("entities are given besides a parse_mode")
    if parse_mode not in (None, "HTML"):
        raise Malformed(f"only HTML is read here, not {parse_mode}")
    clean = cleaned(text)
    if parse_mode is None:
        _check(clean, entities)
        formatted = Formatted(clean, entities)
    else:
        formatted = parse_html(clean)
    return with_found(trimmed(formatted))


def _check(text: str, entities: tuple[Entity, ...]) -> None:
    end = units(text)
    for it in entities:
        if it.offset < 0 or it.length <= 0 or it.offset + it.length > end:
            raise Malformed(f"an entity is outside of the text: {it}")


def buttons(keyboard: InlineKeyboard | None) -> tuple[Button, ...]:
    """The buttons of a message, row by row."""
    if keyboard is None:
        return ()
    rows = keyboard.inline_keyboard
    if sum(map(len, rows)) > _BUTTONS:
        raise bad("reply markup is too long")
    return tuple(_button(it, number) for number, row in enumerate(rows) for it in row)


def _button(it: InlineButton, row: int) -> Button:
    if is_empty(it.text):
        raise Malformed("a button has no text")
    if it.callback_data is not None and it.url is not None:
        raise Malformed("a button has both callback_data and url; exactly one is to be used")
    if it.callback_data is None and it.url is None:
        raise bad(
            "can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard"
        )
    if it.callback_data is not None and not 1 <= len(it.callback_data.encode()) <= DATA_LIMIT:
        raise bad("BUTTON_DATA_INVALID")
    return Button(label=it.text, data=it.callback_data, url=it.url, row=row)
