"""Files that the agent sends: read when they are delivered."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from segue.platforms.base import Capabilities, Upload

_ANYTHING = "application/octet-stream"


def load(path: Path, able: Capabilities) -> Upload | str:
    """The file; or, where it cannot be sent, the sentence that says so to its reader."""
    if not able.files:
        return f"{path} (it stays on the machine: no files can be sent here)"
    try:
        with path.open("rb") as file:
            data = file.read(able.upload_bytes + 1)
    except OSError as error:
        return f"{path} (it could not be read: {error.strerror})"
    if not data:
        return f"{path} (it is empty)"
    if len(data) > able.upload_bytes:
        megabytes = able.upload_bytes // 1024**2
        return f"{path} (it stays on the machine: only {megabytes} MB can be sent here)"
    return Upload(path.name, mimetypes.guess_type(path.name)[0] or _ANYTHING, data)
