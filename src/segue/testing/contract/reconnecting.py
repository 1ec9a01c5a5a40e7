"""The former module of `ReconnectContract`, for tests outside of Segue.

The next version removes it.
"""

from __future__ import annotations

import warnings

from segue.testing.contract.connection import ReconnectContract as ReconnectContract
from segue.testing.contract.connection import ReconnectRig as ReconnectRig

warnings.warn(
    "segue.testing.contract.reconnecting is now segue.testing.contract.connection",
    DeprecationWarning,
    stacklevel=2,
)
