"""Values that no output shows."""

from __future__ import annotations

from typing import NoReturn

from segue.core import redaction


class Secret:
    """A key, and the setting it came from.

    Only `reveal` shows it: it appears in no repr, dump or error.
    """

    __slots__ = ("_value", "setting")

    def __init__(self, value: str, setting: str) -> None:
        self._value = value
        self.setting = setting
        redaction.remember(value)

    def reveal(self) -> str:
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return f"<the key in {self.setting}>"

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not written down")
