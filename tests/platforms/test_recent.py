"""What an adapter remembers."""

from __future__ import annotations

import pytest

from segue.platforms import recent


def test_the_oldest_entry_is_dropped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recent, "_MOST", 2)
    known = recent.Recent[str, int]()
    for number, name in enumerate("abcb"):
        known[name] = number
    assert known == {"b": 3, "c": 2}
