"""What an adapter remembers about users and messages: the newest entries of many."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

_MOST = 10_000


class Recent(dict[K, V]):
    """A dict that drops its oldest entry when it is full."""

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > _MOST:
            del self[next(iter(self))]
