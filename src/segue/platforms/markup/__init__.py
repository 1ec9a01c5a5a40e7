"""Convert the agent's Markdown to a platform's markup, split into parts that each fit one message.

`parser` turns the text into blocks, `renderer` turns the blocks into atoms of a dialect, and
`splitter` packs the atoms into parts. An atom knows the frames around it (a quote, a list item, a
code fence, bold), so each part can close them at its end, and the next part can reopen them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from segue.core.text import is_empty, one_line
from segue.platforms.base import Capabilities, Dialect, Part
from segue.platforms.markup import splitter
from segue.platforms.markup.sizes import Ruler, chop, ruler
from segue.platforms.markup.sizes import size as size

logger = logging.getLogger(__name__)

_GROWTH = 8
"""The factor by which escaping can make a character longer."""


def parts(markdown: str, capabilities: Capabilities, *, buttons: bool = False) -> list[Part]:
    """Return `markdown` as messages for the platform, in order. Empty if nothing is visible. With
    `buttons`, the last one is short enough to have buttons.

    Each part stands alone. Its text and its plain text have at most `capabilities.length` units,
    which must be 40 or more. Never raises: text that cannot be rendered is sent as written.
    """
    if is_empty(markdown):
        return []
    dialect = capabilities.dialect
    limit = capabilities.length
    last = min(limit, capabilities.longest(buttons=buttons))
    if dialect is Dialect.SOURCE:
        if size(markdown, capabilities.unit) <= last:
            return [Part(markdown, markdown)]
        dialect = Dialect.MARKDOWN
    # Imported here because the parser is slow to import.
    from segue.platforms.markup import parser, renderer  # noqa: PLC0415

    measure = ruler(capabilities.unit)
    for read in (parser.read, parser.as_written):
        try:
            atoms = renderer.write(read(markdown), dialect, last, measure)
            found = splitter.split(atoms, limit, last, measure)
        except Exception:
            # A model's answer must arrive even if it triggers a bug in the parser or in our code.
            logger.exception("markdown not rendered dialect=%s size=%d", dialect, len(markdown))
        else:
            if found:
                return found
    return list(_cut(markdown, dialect, last // _GROWTH, measure))


def _cut(markdown: str, dialect: Dialect, room: int, measure: Ruler) -> Iterator[Part]:
    """The source text, escaped and cut anywhere."""
    from segue.platforms.markup import dialects, parser  # noqa: PLC0415

    marks = dialects.marks_of(dialect)
    for piece in chop(parser.clean(markdown), room, room, measure):
        if one_line(piece):
            yield Part(marks.escape(marks.still(piece)), piece)
