"""Files that the agent sends. Their content was read when sending them was approved."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from segue.platforms.base import Capabilities, Upload

_ANYTHING = "application/octet-stream"


def upload(path: Path, data: bytes, able: Capabilities) -> Upload | str:
    """The file to send, or a sentence for the user that explains why it cannot be sent."""
    if not able.files:
        return f"{path} (it stays on the machine: no files can be sent here)"
    if not data:
        return f"{path} (what was in it is no longer known; ask for it again)"
    if len(data) > able.upload_bytes:
        megabytes = able.upload_bytes // 1024**2
        return f"{path} (it stays on the machine: only {megabytes} MB can be sent here)"
    return Upload(path.name, mimetypes.guess_type(path.name)[0] or _ANYTHING, data)
