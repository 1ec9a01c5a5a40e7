"""Files that come with a message. Images go to the model; other files are saved where the agent's
tools can read them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from segue.core.errors import BadImage, DeliveryFailed
from segue.core.images import image
from segue.core.text import one_line
from segue.core.transcript import Image
from segue.gateway import quotes
from segue.platforms.base import Adapter, Attachment, Inbound

_PLAIN = re.compile(r"[^\w.-]+")
_NAME_LENGTH = 80


async def fetch(adapter: Adapter, inbound: Inbound, folder: Path) -> tuple[str, list[Image]]:
    """Return the message text and its images. The text has a line for each file that was saved to
    `folder` or could not be fetched."""
    lines = [said] if (said := quotes.words(inbound)).strip() else []
    pictures: list[Image] = []
    for attachment in inbound.attachments:
        name = one_line(attachment.name, _NAME_LENGTH)
        try:
            data = await _data(adapter, attachment)
            if attachment.media_type.startswith("image/"):
                pictures.append(image(data))
            else:
                path = await asyncio.to_thread(_keep, folder, attachment.name, data)
                lines.append(f"[attached file: {path}]")
        except (DeliveryFailed, BadImage) as error:
            lines.append(f"[the attached file {name!r} could not be read: {error}]")
        except OSError as error:
            lines.append(f"[the attached file {name!r} could not be kept: {error.strerror}]")
    return "\n\n".join(lines), pictures


async def _data(adapter: Adapter, attachment: Attachment) -> bytes:
    limit = adapter.capabilities.attachment_bytes
    if attachment.size > limit:
        raise DeliveryFailed(
            platform=adapter.platform, reason=f"it has more than {limit // 1024**2} megabytes"
        )
    return await adapter.fetch(attachment)


def _keep(folder: Path, name: str, data: bytes) -> Path:
    """Save `data` in `folder` under a unique name without path separators."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    plain = _PLAIN.sub("_", name).strip("._")[-_NAME_LENGTH:] or "file"
    number = 1
    while True:
        path = folder / (plain if number == 1 else f"{number}-{plain}")
        try:
            with path.open("xb") as file:
                path.chmod(0o600)
                file.write(data)
        except FileExistsError:
            number += 1
        else:
            return path
