"""Setup for the tests of all platforms."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any, cast

import pytest

# Assertions in this module get pytest's detailed messages too.
pytest.register_assert_rewrite("tests.platforms.contract")

# While sniffio is missing, httpcore searches the whole import path for it for every lock.
if importlib.util.find_spec("sniffio") is None:
    cast("dict[str, Any]", sys.modules)["sniffio"] = None
