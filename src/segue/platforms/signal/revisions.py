"""The versions of our messages. Each edit gives a message a new timestamp, and the next edit must
name that one: clients silently drop an edit of an older version."""

from __future__ import annotations

from segue.platforms.base import Receipt

_MOST = 10_000


class Revisions:
    def __init__(self) -> None:
        self._newest: dict[str, int] = {}
        self._first: dict[int, str] = {}

    def add(self, receipt: str, timestamp: int) -> Receipt:
        """Note the newest version of a message."""
        self._newest[receipt] = timestamp
        self._first[timestamp] = receipt
        if len(self._first) > _MOST:
            gone = self._first.pop(next(iter(self._first)))
            self._newest.pop(gone, None)
        return Receipt(receipt)

    def newest(self, receipt: str) -> int | None:
        """The version to edit. None if it is not known: another process sent the message, or the
        answer to an edit was lost."""
        return self._newest.get(receipt)

    def lose(self, receipt: str) -> None:
        """The newest version is not known any more."""
        self._newest.pop(receipt, None)

    def first(self, timestamp: int) -> str | None:
        """The message of which `timestamp` is a version, if it is one of ours."""
        return self._first.get(timestamp)
