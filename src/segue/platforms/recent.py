"""The former module of `Recent`, for adapters outside of Segue. The next version removes it."""

from __future__ import annotations

import warnings

from segue.platforms.updates import Recent as Recent

warnings.warn(
    "segue.platforms.recent is now in segue.platforms.updates", DeprecationWarning, stacklevel=2
)
