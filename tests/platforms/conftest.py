"""What the tests of all platforms share."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any, cast

import pytest

# Its assertions are explained as those of a test module are.
pytest.register_assert_rewrite("tests.platforms.contract")

# httpcore looks for this on the whole path for every lock that it makes, as long as it is missing.
if importlib.util.find_spec("sniffio") is None:
    cast("dict[str, Any]", sys.modules)["sniffio"] = None
