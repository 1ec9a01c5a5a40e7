"""What the tests of all platforms share."""

from __future__ import annotations

import pytest

# Its assertions are explained as those of a test module are.
pytest.register_assert_rewrite("tests.platforms.contract")
