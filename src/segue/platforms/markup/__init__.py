"""The agent's Markdown in the words of each platform, in parts that each fit into one message.

`reading` parses it into blocks, `writing` puts the blocks into a dialect as a row of atoms, and
`splitting` packs the atoms into parts. An atom knows the frames that it stands in (a quote, a
list item, a code fence, bold), so every part can close them at its end, and open them again at
the beginning of the next.
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
"""How many times its size a character may have once it is escaped."""


def parts(markdown: str, capabilities: Capabilities) -> list[Part]:
    """Return `markdown` as messages that a platform takes, in order; none if nothing is visible.

    Each stands alone, and its text and its plain text are at most `capabilities.length` long,
    which has to be 40 or more. No string makes this raise: what cannot be rendered is sent as it
    was written.
    """
    if is_empty(markdown):
        return []
    dialect = capabilities.dialect
    if dialect is Dialect.SOURCE:
        if size(markdown, capabilities.unit) <= capabilities.length:
            return [Part(markdown, markdown)]
        dialect = Dialect.MARKDOWN
    # Imported for use, because the parser takes its time.
    from segue.platforms.markup import parser, renderer  # noqa: PLC0415

    limit, measure = capabilities.length, ruler(capabilities.unit)
    for read in (parser.read, parser.as_written):
        try:
            atoms = renderer.write(read(markdown), dialect, limit, measure)
            cut = splitter.split(atoms, limit, measure)
            # Marks alone may be a part: they belong to the letter before it.
            found = [part for part in cut if one_line(part.plain)]
        except Exception:
            # A model's answer must arrive even if it finds a fault in the parser or in ours.
            logger.exception("markdown not rendered dialect=%s size=%d", dialect, len(markdown))
        else:
            if found:
                return found
    return list(_cut(markdown, dialect, limit // _GROWTH, measure))


def _cut(markdown: str, dialect: Dialect, room: int, measure: Ruler) -> Iterator[Part]:
    """The text itself, escaped and cut anywhere."""
    from segue.platforms.markup import dialects, parser  # noqa: PLC0415

    marks = dialects.marks_of(dialect)
    for piece in chop(parser.clean(markdown), room, room, measure):
        if one_line(piece):
            yield Part(marks.escape(marks.still(piece)), piece)
