"""Convert the agent's Markdown to a platform's markup, split into parts that each fit one message.

The gateway calls `parts`, or `pieces`, which makes files of long code. `parser` turns the text into
`blocks`, `renderer` turns the blocks into atoms of a dialect of `dialects`, and `splitter` packs
the atoms into parts. An atom knows the frames around it (a quote, a list item, a code fence, bold),
so each part can close them at its end, and the next part can reopen them. `growing` shortens text
that is still being written.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from segue.core.text import is_empty, one_line
from segue.platforms.base import Capabilities, Dialect, Part, Upload
from segue.platforms.markup import splitter
from segue.platforms.markup.splitter import Ruler, chop, ruler
from segue.platforms.markup.splitter import size as size

logger = logging.getLogger(__name__)

_GROWTH = 8
"""The factor by which escaping can make a character longer."""

_ENDINGS = {
    "": "txt", "bash": "sh", "javascript": "js", "python": "py", "rust": "rs", "shell": "sh",
    "text": "txt", "typescript": "ts",
}  # fmt: skip


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


def pieces(markdown: str, capabilities: Capabilities) -> list[Part | Upload]:
    """Return `markdown` as messages and files, in order. The first is a message. Never raises."""
    if capabilities.code_files and size(markdown, capabilities.unit) > capabilities.length:
        try:
            return list(_pieces(markdown, capabilities))
        except Exception:
            logger.exception("code not separated size=%d", len(markdown))
    return [*parts(markdown, capabilities)]


def _cut(markdown: str, dialect: Dialect, room: int, measure: Ruler) -> Iterator[Part]:
    """The source text, escaped and cut anywhere."""
    from segue.platforms.markup import dialects, parser  # noqa: PLC0415

    marks = dialects.marks_of(dialect)
    for piece in chop(parser.clean(markdown), room, room, measure):
        if one_line(piece):
            yield Part(marks.escape(marks.still(piece)), piece)


def _pieces(markdown: str, capabilities: Capabilities) -> Iterator[Part | Upload]:
    # Imported here because the parser is slow to import.
    from segue.platforms.markup import parser  # noqa: PLC0415

    source = parser.clean(markdown)
    lines = source.split("\n")
    done = 0
    number = 0
    for begin, end, code in parser.code_blocks(source):
        if len(parts("\n".join(lines[begin:end]), capabilities)) <= 1:
            continue
        number += 1
        language = code.language.lower()
        name = f"code-{number}.{_ENDINGS.get(language, language)}"
        before = parts("\n".join(lines[done:begin]), capabilities)
        if number == 1 and not before:  # an answer begins with a message
            before = parts(f"`{name}`", capabilities)
        yield from before
        yield Upload(name, "text/plain", code.text.encode("utf-8", "replace"))
        done = end
    yield from parts("\n".join(lines[done:]), capabilities)
