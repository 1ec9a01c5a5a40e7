"""Which of many similar cases `make test` runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def brief(cases: Iterable[Any], usual: Collection[Any]) -> list[Any]:
    """The cases for `pytest.mark.parametrize`: all but `usual` run only in `make test-long`."""
    cases = list(cases)
    assert all(case in cases for case in usual)
    return [case if case in usual else pytest.param(case, marks=pytest.mark.long) for case in cases]
