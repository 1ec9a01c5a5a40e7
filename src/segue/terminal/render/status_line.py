"""The line under the prompt: title, model, tokens used and place of the conversation."""

from __future__ import annotations

from collections.abc import Iterator

from segue.core.session import Usage
from segue.core.text import one_line
from segue.terminal.render import cells
from segue.terminal.render.screen import Screen

_SHORT_TITLE = 16
"""Columns. A title is shortened to this width before anything else is left out."""
_THOUSAND = 1000


def status_line(*, title: str, model: str, usage: Usage, where: str, screen: Screen) -> str:
    """Return one line without colours, never wider than the screen. Empty parts are left out.

    If the line is too long, first the title is shortened, then these are dropped in order: the
    tokens, the provider of the model, the place, the model.
    """
    title, model, where = one_line(title), one_line(model), one_line(where)
    spent = usage.input + usage.output
    tokens = f"{_short(spent)} tokens" if spent else ""
    between, more = f" {screen.glyphs.dot} ", screen.glyphs.more
    brief = cells.fit(title, _SHORT_TITLE, more)

    def versions() -> Iterator[tuple[str, ...]]:
        yield title, model, tokens, where
        room = screen.columns - cells.width(between.join(filter(None, ("", model, tokens, where))))
        yield cells.fit(title, max(room - len(between), _SHORT_TITLE), more), model, tokens, where
        yield brief, model, where
        yield brief, _own_name(model), where
        yield brief, _own_name(model)

    for parts in versions():
        line = between.join(filter(None, parts))
        if cells.width(line) <= screen.columns:
            return line
    return cells.fit(title or model, screen.columns, more)


def _own_name(model: str) -> str:
    """Return the name without its provider."""
    return model.rpartition("/")[2]


def _short(count: int) -> str:
    """Return the count in about three digits: 950, 1.2k, 34k, 5.6M."""
    if count < _THOUSAND:
        return str(count)
    value, unit = (count / 1e3, "k") if count < 999_500 else (count / 1e6, "M")
    return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
