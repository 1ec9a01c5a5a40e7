"""The content of a message as the model reads it.

Each line that others wrote is marked, so that it cannot pass for the user's own: forwarded text,
and the message that another one answers, by a reply or in a thread under it. The inbox and the
outbox know the text of that message where the platform does not send it. Files other than images
are saved where tools can read them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from pathlib import Path

from msgspec.structs import replace

from segue.core import provenance
from segue.core.address import Address
from segue.core.errors import BadImage, DeliveryFailed
from segue.core.images import image
from segue.core.provenance import Provenance
from segue.core.session import Session
from segue.core.text import one_line
from segue.core.transcript import Image
from segue.gateway import messages
from segue.platforms.base import Adapter, Attachment, Inbound, Quote
from segue.store import Store, outbox, sessions
from segue.store.outbox import Outgoing
from segue.system import files

_AUTHOR_LENGTH = 80
_QUOTE_LENGTH = 4096
"""Maximum characters shown of a message that is replied to."""
_OWN_QUOTE_LENGTH = 300
"""The same for a message that the agent wrote and already knows."""
_NAME_LENGTH = 80
_PLAIN = re.compile(r"[^\w.-]+")


async def read(
    adapter: Adapter, inbound: Inbound, folder: Path, *, is_first: bool = False
) -> tuple[str, list[Image]]:
    """The text, with a line for each file saved in `folder` or failed, and the images. `is_first`:
    the session has no messages yet."""
    said = words(inbound, is_first=is_first)
    if not inbound.attachments:
        return said, []
    lines = [said] if said.strip() else []
    pictures: list[Image] = []
    for attachment in inbound.attachments:
        name = one_line(attachment.name, _NAME_LENGTH)
        try:
            data = await _data(adapter, attachment)
            if attachment.media_type.startswith("image/"):
                pictures.append(image(data))
            else:
                path = await asyncio.to_thread(_save, folder, attachment.name, data)
                lines.append(f"[attached file: {path}]")
        except (DeliveryFailed, BadImage) as error:
            lines.append(f"[the attached file {name!r} could not be read: {error}]")
        except OSError as error:
            lines.append(f"[the attached file {name!r} could not be saved: {error.strerror}]")
    return "\n\n".join(lines), pictures


async def _data(adapter: Adapter, attachment: Attachment) -> bytes:
    limit = adapter.capabilities.attachment_bytes
    if attachment.size > limit:
        reason = f"it has more than {limit // 1024**2} megabytes"
        raise DeliveryFailed(platform=adapter.platform, reason=reason)
    return await adapter.fetch(attachment)


def _save(folder: Path, name: str, data: bytes) -> Path:
    """Save `data` in `folder` under a unique name without path separators."""
    files.make_folder(folder)
    plain = _PLAIN.sub("_", name).strip("._")[-_NAME_LENGTH:] or "file"
    number = 1
    while True:
        path = folder / (plain if number == 1 else f"{number}-{plain}")
        try:
            with files.new_file(path) as file:
                file.write(data)
        except FileExistsError:
            number += 1
        else:
            return path


async def with_quote(store: Store, account: str, inbound: Inbound, session: Session) -> Inbound:
    """The message, with the text of the one that it replies to. The first message of a session in a
    thread brings the message along under which the thread was opened, if the agent wrote that."""
    quote = inbound.quote
    if quote is None and session.messages == 0:
        root = await find_root(store, inbound.address, session.owner)
        quote = None if root is None else Quote(text=root.body, ours=True)
    elif quote is not None and not quote.text and quote.message_id:
        quote = replace(quote, text=await _quoted_text(store, account, inbound.address, quote))
    return replace(inbound, quote=quote)


async def find_root(store: Store, thread: Address, owner: str) -> Outgoing | None:
    """The message of ours under which a thread was opened. It has the thread's id. None if it is
    not known, or is not of a session of that owner."""
    if thread.thread_id is None:
        return None
    chat = dataclasses.replace(thread, thread_id=None)
    root = await outbox.sent_as(store, chat, thread.thread_id)
    if root is None or root.session_id is None:
        return None
    wrote = await sessions.get(store, root.session_id)
    return root if wrote is not None and wrote.owner == owner else None


async def _quoted_text(store: Store, account: str, at: Address, quote: Quote) -> str:
    """The text of a message in that chat. Empty if it is not known."""
    if quote.ours:
        sent = await outbox.sent_as(store, at, quote.message_id)
        return "" if sent is None else sent.body
    said = await messages.said(store, account, at, quote.message_id)
    return "" if said is None else said.text


def words(inbound: Inbound, *, is_first: bool = False) -> str:
    """The text of a message, preceded by the message it replies to. Forwarded text is quoted. In
    the first message of a session, the agent does not know what it wrote before."""
    said = inbound.text
    if inbound.forwarded_from is not None:
        author = _name(inbound.forwarded_from)
        said = _quoted(f"[The user forwarded this. It was written by {author}:]", said)
    if inbound.quote is None:
        return said
    is_known = inbound.quote.ours and not is_first
    return f"{_replied(inbound.quote, is_known=is_known)}\n\n{said}".rstrip()


def authors(inbound: Inbound) -> Provenance:
    """Whose words the message has, with the message it replies to and its files."""
    by = provenance.OWNER if inbound.forwarded_from is None else provenance.STRANGER
    if inbound.quote is not None and inbound.quote.text:  # some platforms only name it
        # What the bot wrote may be of another session, and repeat what was read there.
        by |= provenance.UNKNOWN if inbound.quote.ours else provenance.STRANGER
    if inbound.attachments:
        by |= provenance.FILE
    return by


def _replied(quote: Quote, *, is_known: bool) -> str:
    author = "you" if quote.ours else _name(quote.author)
    most = _OWN_QUOTE_LENGTH if is_known else _QUOTE_LENGTH
    text = quote.text if len(quote.text) <= most else f"{quote.text[:most]}…"
    return _quoted(f"[The user replies to this message. It was written by {author}:]", text)


def _quoted(header: str, text: str) -> str:
    """Prefix every line of `text`, splitting at every character that ends a line."""
    return "\n".join((header, *(f"> {line}" for line in text.splitlines())))


def _name(author: str) -> str:
    """The name in quotes that it cannot close."""
    name = one_line(author, _AUTHOR_LENGTH)
    return json.dumps(name, ensure_ascii=False) if name else "an unknown author"
