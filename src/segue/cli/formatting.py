"""Formats times and sizes for display."""

from __future__ import annotations

from datetime import datetime

from segue.core.text import count

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_DAYS = 30
"""Older times are shown as a date."""


def ago(then: datetime, now: datetime) -> str:
    """Return how long before `now` the time `then` was, in words."""
    seconds = int((now - then).total_seconds())
    if seconds < _MINUTE:
        return "just now"
    if seconds < _HOUR:
        return f"{count(seconds // _MINUTE, 'minute')} ago"
    if seconds < _DAY:
        return f"{count(seconds // _HOUR, 'hour')} ago"
    if seconds < _DAYS * _DAY:
        return f"{count(seconds // _DAY, 'day')} ago"
    return f"{then.astimezone():%Y-%m-%d}"


def size(number: int) -> str:
    """Return a number of bytes with a unit: `17 bytes`, `3.4 MB`, `120 GB`."""
    if number < 1000:
        return count(number, "byte")
    amount = float(number)
    for unit in ("kB", "MB", "GB", "TB"):
        amount /= 1000
        if amount < 999.5 or unit == "TB":
            break
    return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:,.0f} {unit}"
