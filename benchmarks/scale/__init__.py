"""What every operation costs in a large store, against a small one.

    make bench scale                               # 1,000 to 1,000,000 sessions
    make bench scale ARGS="--small"                # 200 and 2,000, in seconds
    make bench scale ARGS="--postgres"             # PostgreSQL, up to 100,000 sessions
"""

from __future__ import annotations
