"""The lexers that highlight code in answers, in the terminal and on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pygments.lexer import Lexer

LANGUAGES = frozenset({
    "bash", "c", "clojure", "cmake", "cpp", "csharp", "css", "dart", "diff", "docker", "elixir",
    "go", "graphql", "haskell", "html", "http", "java", "javascript", "json", "jsx", "julia",
    "kotlin", "lua", "make", "markdown", "nginx", "nixos", "objective-c", "perl", "php",
    "powershell", "protobuf", "pycon", "python", "ruby", "rust", "scala", "scss", "splus", "sql",
    "swift", "tex", "toml", "tsx", "typescript", "xml", "yaml", "zig",
})  # fmt: skip
"""The highlighted languages, by the first name that Pygments has for each (R is `splus`).

Of its hundreds of lexers, some take hours for a crafted line, and cannot be interrupted.
"""


def find(language: str) -> Lexer | None:
    """Return the lexer for a language by any of its names, or None if it is not highlighted."""
    from pygments.lexers import find_lexer_class_by_name  # noqa: PLC0415 - not every text has code
    from pygments.util import ClassNotFound  # noqa: PLC0415

    try:
        found = find_lexer_class_by_name(language)
    except ClassNotFound:
        return None
    return found(stripnl=False) if found.aliases[0] in LANGUAGES else None
