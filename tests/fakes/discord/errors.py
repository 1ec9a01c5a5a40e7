"""Error responses of the REST API. `errors.json` has the status and the text of each code.

Their format is documented in `reference.mdx` (Error Messages) and `topics/rate-limits.mdx` of
discord/discord-api-docs, the codes in `topics/opcodes-and-status-codes.mdx`. The documentation
paraphrases the texts and gives no statuses: these are as reported by bots, such as in
discord-api-docs 61, 6647, 6884 and 6928, undiscord 399 and discord.py 1219, 6883 and 10201.
"""

from __future__ import annotations

from pathlib import Path

from segue.testing.peers import Refuse, Trouble
from segue.testing.peers.errors import Codes

refuse = Codes(Path(__file__).with_suffix(".json"), invalid=50035)
check = refuse.check


def injected(trouble: Trouble, seconds: float) -> Refuse:
    """Return the error for a fault that a test ordered.

    BROKEN is 503, because discord.py repeats a call after 500, 502, 504 and 524 by itself.
    """
    if trouble is Trouble.BUSY:
        return refuse.too_often(seconds)
    return refuse(50001 if trouble is Trouble.FORBIDDEN else 503)
