"""Setup for the tests of all platforms."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any, cast

# While sniffio is missing, httpcore searches the whole import path for it for every lock.
if importlib.util.find_spec("sniffio") is None:
    cast("dict[str, Any]", sys.modules)["sniffio"] = None
