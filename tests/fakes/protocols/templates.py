"""JSON objects with gaps, in a file: the shapes of a platform's objects as data.

    {"chat": {"id": "{it.id}", "type": "=it.kind", "topic?": "=it.topic", "pinned": false,
      "owner": "=user it.by", "members": "=user* it.members"}}

A text has values in braces. After `=` the value itself is meant, of any type; or what a maker makes
of it, or with `*` of each of several values. All else is fixed. A field with `?` is left out if its
value is None. Makers are methods, here or in a subclass, and get no value that is None.
"""

from __future__ import annotations

import operator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec

Json = dict[str, Any]


class Templates:
    def __init__(self, path: Path) -> None:
        self._all = msgspec.json.decode(path.read_bytes(), type=dict[str, Json])

    def __call__(self, shape: str, /, **given: object) -> Json:
        """The object of that shape, with these values in its gaps."""
        return self._filled(self._all[shape], given)

    def text(self, number: int) -> str | None:
        """The digits of a number. 0 is none."""
        return str(number) if number else None

    def date(self, at: float) -> str | None:
        """A date in ISO format. 0 is none."""
        return datetime.fromtimestamp(at, UTC).isoformat() if at else None

    def _filled(self, template: Any, given: Json) -> Any:
        if isinstance(template, str) and template.startswith("="):
            maker, _, path = template[1:].rpartition(" ")
            name, _, path = path.partition(".")
            value = operator.attrgetter(path)(given[name]) if path else given[name]
            return self._made(maker, value) if maker and value is not None else value
        if isinstance(template, str):
            return template.format(**given)
        if isinstance(template, dict):
            made = {k: self._filled(it, given) for k, it in cast("Json", template).items()}
            return {k.rstrip("?"): it for k, it in made.items() if it is not None or k[-1] != "?"}
        if isinstance(template, list):
            return [self._filled(it, given) for it in cast("list[Any]", template)]
        return template

    def _made(self, maker: str, value: Any) -> Any:
        make = getattr(self, maker.rstrip("*"))
        return [make(it) for it in value] if maker.endswith("*") else make(value)
