"""Connections that are not authenticated. Their number is limited: beyond it, the address with the
most connections loses its oldest one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import NamedTuple

MOST = 64


class _Stranger(NamedTuple):
    address: str
    send_away: Callable[[], None]


class Strangers:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._strangers: dict[Hashable, _Stranger] = {}
        """By connection, oldest first."""

    def __len__(self) -> int:
        return len(self._strangers)

    def add(self, connection: Hashable, address: str, send_away: Callable[[], None]) -> None:
        """`send_away` closes the connection, saying that there are too many. A connection that is
        added again keeps its age."""
        self._strangers[connection] = _Stranger(address, send_away)
        if len(self) > self._most:
            self._make_room()

    def remove(self, connection: Hashable) -> None:
        """Remove a connection that was closed or authenticated."""
        self._strangers.pop(connection, None)

    def _make_room(self) -> None:
        addresses = Counter(stranger.address for stranger in self._strangers.values())
        [(crowded, _)] = addresses.most_common(1)
        oldest = next(c for c, s in self._strangers.items() if s.address == crowded)
        self._strangers.pop(oldest).send_away()
