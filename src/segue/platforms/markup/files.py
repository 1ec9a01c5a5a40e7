"""Code blocks that are too long for one message become files."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from segue.platforms import markup
from segue.platforms.base import Capabilities, Part, Upload
from segue.platforms.markup.sizes import size

logger = logging.getLogger(__name__)

_ENDINGS = {
    "": "txt", "bash": "sh", "javascript": "js", "python": "py", "rust": "rs", "shell": "sh",
    "text": "txt", "typescript": "ts",
}  # fmt: skip


def pieces(markdown: str, capabilities: Capabilities) -> list[Part | Upload]:
    """Return `markdown` as messages and files, in order. The first is a message. Never raises."""
    if capabilities.code_files and size(markdown, capabilities.unit) > capabilities.length:
        try:
            return list(_pieces(markdown, capabilities))
        except Exception:
            logger.exception("code not separated size=%d", len(markdown))
    return [*markup.parts(markdown, capabilities)]


def _pieces(markdown: str, capabilities: Capabilities) -> Iterator[Part | Upload]:
    # Imported here because the parser is slow to import.
    from segue.platforms.markup import parser  # noqa: PLC0415

    source = parser.clean(markdown)
    lines, done, number = source.split("\n"), 0, 0
    for begin, end, code in parser.code_blocks(source):
        if len(markup.parts("\n".join(lines[begin:end]), capabilities)) <= 1:
            continue
        number += 1
        language = code.language.lower()
        name = f"code-{number}.{_ENDINGS.get(language, language)}"
        before = markup.parts("\n".join(lines[done:begin]), capabilities)
        if number == 1 and not before:  # an answer begins with a message
            before = markup.parts(f"`{name}`", capabilities)
        yield from before
        yield Upload(name, "text/plain", code.text.encode("utf-8", "replace"))
        done = end
    yield from markup.parts("\n".join(lines[done:]), capabilities)
