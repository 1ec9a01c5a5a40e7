"""Provenance: whose words a Message contains.

What the agent reads can contain instructions, and what it sends can contain what it has read. So
every Message carries the Authors of its words, and rules read those rather than guess from roles.
Text that is made of other text inherits all its Authors: a summary those of what it condenses, a
report those of what its run has read. The least trusted Author decides how a Message counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import TypeAlias


class Author(StrEnum):
    """Who wrote words that the agent reads."""

    OWNER = "owner"
    AGENT = "agent"
    PROGRAM = "program"
    """Segue itself."""
    PAGE = "page"
    """A web page. What it says is from outside, but not private."""
    TOOL = "tool"
    """The output of a tool other than the one for pages."""
    FILE = "file"
    COMMAND = "command"
    STRANGER = "stranger"
    """Another person, such as the author of a forwarded message."""
    UNKNOWN = "unknown"


Provenance: TypeAlias = frozenset[Author]
"""The Authors of a text. A text with several has words of each of them."""

NOTHING: Provenance = frozenset()
"""The provenance of an empty text."""
OWNER: Provenance = frozenset({Author.OWNER})
AGENT: Provenance = frozenset({Author.AGENT})
PROGRAM: Provenance = frozenset({Author.PROGRAM})
FILE: Provenance = frozenset({Author.FILE})
STRANGER: Provenance = frozenset({Author.STRANGER})
UNKNOWN: Provenance = frozenset({Author.UNKNOWN})

_NOT_PRIVATE = OWNER | AGENT | PROGRAM | {Author.PAGE}


def union(parts: Iterable[Provenance]) -> Provenance:
    """The provenance of a text that is made of these parts."""
    return NOTHING.union(*parts)


def is_private(provenance: Provenance) -> bool:
    """Whether a text has words that came from outside, and not just from web pages."""
    return not provenance <= _NOT_PRIVATE


def encode(provenance: Provenance) -> str:
    """Write the provenance for a column, such as `owner,stranger`."""
    return ",".join(author for author in Author if author in provenance)


@lru_cache(maxsize=1024)
def parse(stored: str) -> Provenance:
    """Read what `encode` wrote. A word that this version does not know counts as unknown."""
    return frozenset(_AUTHORS.get(name, Author.UNKNOWN) for name in stored.split(","))


_AUTHORS = {author.value: author for author in Author}
