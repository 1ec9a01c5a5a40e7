"""Error responses of the REST API. `errors.json` has the status and the text of each code.

Their format is documented in `reference.mdx` (Error Messages) and `topics/rate-limits.mdx` of
discord/discord-api-docs, the codes in `topics/opcodes-and-status-codes.mdx`. The documentation
paraphrases the texts and gives no statuses: these are as reported by bots, such as in
discord-api-docs 61, 6647, 6884 and 6928, undiscord 399 and discord.py 1219, 6883 and 10201.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from segue.testing.peers import Refuse, Trouble
from segue.testing.peers.errors import Codes

refuse = Codes(Path(__file__).with_suffix(".json"))
check = refuse.check


def invalid(reason: str, code: str = "BASE_TYPE_INVALID", *, mistake: bool = True) -> Refuse:
    """The body or a parameter is not as documented. No bot should send it.

    The error is in a tree of the names of the fields.
    """
    message, _, field = reason.partition(" - at `$")
    tree: dict[str, Any] = {"_errors": [{"code": code, "message": message}]}
    for name in reversed(re.findall(r"\w+", field)):
        tree = {name: tree}
    return refuse(50035, mistake=mistake, errors=tree)


def too_often(seconds: float, *, everywhere: bool = False) -> Refuse:
    """The limit of a bucket, or the global one."""
    scope = {"X-RateLimit-Scope": "global" if everywhere else "user"}
    headers = {"Retry-After": str(math.ceil(seconds)), **scope}
    headers |= {"X-RateLimit-Global": "true"} if everywhere else {}
    return refuse(429, headers=headers, retry_after=round(seconds, 3), **{"global": everywhere})


def injected(trouble: Trouble, seconds: float) -> Refuse:
    """Return the error for a fault that a test ordered.

    BROKEN is 503, because discord.py repeats a call after 500, 502, 504 and 524 by itself.
    """
    if trouble is Trouble.BUSY:
        return too_often(seconds)
    return refuse(50001 if trouble is Trouble.FORBIDDEN else 503)
