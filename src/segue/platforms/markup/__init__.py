"""The agent's Markdown in the words of each platform, in parts that each fit into one message.

`reading` parses it into blocks, `writing` puts the blocks into a dialect as a row of atoms, and
`splitting` packs the atoms into parts. An atom knows the frames that it stands in (a quote, a
list item, a code fence, bold), so every part can close them at its end, and open them again at
the beginning of the next.
"""

from __future__ import annotations

from segue.core.text import is_empty, one_line
from segue.platforms.base import Capabilities, Dialect, Part
from segue.platforms.markup import splitting
from segue.platforms.markup.sizes import ruler
from segue.platforms.markup.sizes import size as size


def parts(markdown: str, capabilities: Capabilities) -> list[Part]:
    """`markdown` as messages that a platform takes, in order; none when there is nothing to see.

    Each stands alone, and its text and its plain text are at most `capabilities.length` long,
    which has to be 40 or more. All strings give parts, also broken or hostile Markdown: what
    cannot be understood is shown as it was written.
    """
    if is_empty(markdown):
        return []
    dialect = capabilities.dialect
    if dialect is Dialect.SOURCE:
        if size(markdown, capabilities.unit) <= capabilities.length:
            return [Part(markdown, markdown)]
        dialect = Dialect.MARKDOWN
    # Imported for use, because the parser takes its time.
    from segue.platforms.markup import reading, writing  # noqa: PLC0415

    limit, measure = capabilities.length, ruler(capabilities.unit)
    for blocks in (reading.read(markdown), (reading.as_written(markdown),)):
        atoms = writing.write(blocks, dialect, limit, measure)
        cut = splitting.split(atoms, limit, measure)
        # Marks alone may be a part: they belong to the letter before it.
        found = [part for part in cut if one_line(part.plain)]
        if found:
            return found
    return []
