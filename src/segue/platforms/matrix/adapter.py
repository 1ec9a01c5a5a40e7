"""The Matrix adapter."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
from nio.crypto.attachments import decrypt_attachment, encrypt_attachment
from nio.exceptions import EncryptionError

from segue.core.address import Address, Audience, ChatType, HomeChannel, Platform
from segue.core.text import is_empty
from segue.platforms import base, sending
from segue.platforms.adapter import MarkedText, RemoteAdapter
from segue.platforms.base import Button, Inbound, Receipt, Upload
from segue.platforms.errors import Refused
from segue.platforms.matrix import account, updates
from segue.platforms.matrix.client import FAILURES, path
from segue.platforms.matrix.device import MatrixDevice
from segue.platforms.matrix.events import address
from segue.platforms.matrix.spec import UPLOADS
from segue.platforms.matrix.updates import RoomHistory
from segue.platforms.spec import PlatformSettings

CAPABILITIES = base.Capabilities(
    threads=True,
    edits=True,
    reactions=True,
    typing=True,
    files=True,
    code_files=True,
    keys=True,
    key_age=timedelta(days=1),  # Synapse deletes the transaction ids of older events
    # An event has 64 KiB at most. An edit has its text three times, and encryption adds a third.
    length=4000,
    unit=base.Unit.BYTES,
    dialect=base.Dialect.MATRIX,
    chat_burst=8,
    edit_seconds=5.0,  # Synapse allows 10 events, and then one in 5 seconds
    typing_seconds=20.0,
    attachment_bytes=50 * 1024 * 1024,
    upload_bytes=UPLOADS.most,
)
_KINDS = {"image": "m.image", "audio": "m.audio", "video": "m.video"}
_FILE_FIELDS = ("msgtype", "filename", "info", "url", "file")


class MatrixAdapter(RemoteAdapter[MatrixDevice]):
    """The adapter of one device of one account."""

    platform = Platform.MATRIX
    capabilities = CAPABILITIES
    no_account = account.NO_TOKEN
    takes_both = True

    def __init__(self, settings: PlatformSettings, *, silence: float = 20.0) -> None:
        """`silence` is the timeout in seconds after which a call counts as lost."""
        super().__init__(FAILURES)
        self._make = partial(MatrixDevice, settings, silence, self.containment)
        self._checks = account.checks
        self._has_user = account.has_user
        self._history = RoomHistory()
        self._typed: set[str] = set()
        """The rooms that show that the bot is typing."""

    async def _greet(self, client: MatrixDevice) -> None:
        await client.greet()
        await updates.begin(client)
        self.account = client.me.user_id
        self.mention = client.names[0]

    # Inbound

    def receive(self) -> AsyncGenerator[Inbound | None]:
        return updates.receive(self.client, self._history)

    @property
    def is_caught_up(self) -> bool:
        return self._history.is_read

    def remember(
        self,
        recorded: Mapping[Address, str],
        *,
        contact: datetime | None = None,
        wanted: base.Wanted | None = None,
    ) -> None:
        self._history.wanted = wanted
        self.client.wanted = wanted

    def trusts_reactions(self, at: Address) -> bool:
        """Reactions are never encrypted, so the server can make them up."""
        return not self.client.keys.is_encrypted(at.chat_id, says=False)

    def acknowledge(self, press: Inbound) -> None:
        """Mark the message as read."""
        at = press.address
        where = f"/rooms{path(at.chat_id)}/receipt/m.read{path(press.message_id)}"
        given = {"thread_id": at.thread_id or "main"}
        self.connection.in_background(lambda device: device.client.post(where, given))

    async def _fetch(self, attachment: base.Attachment) -> bytes:
        limit = self.capabilities.attachment_bytes
        client = self.client.client
        if not attachment.id.startswith("{"):
            return await client.download(attachment.id, limit)
        try:
            file = json.loads(attachment.id)
            data = await client.download(file["url"], limit)
            return decrypt_attachment(data, file["key"]["k"], file["hashes"]["sha256"], file["iv"])
        except (ValueError, LookupError, TypeError, EncryptionError) as error:
            raise Refused(404, "the file cannot be decrypted") from error

    # Outbound

    async def _send(
        self, to: Address, text: str, *, markup: bool, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        return await self._post(to, _text(text), key)

    async def _post(self, to: Address, content: dict[str, Any], key: str) -> Receipt:
        """Send a message to its thread. The same key sends it once."""
        if to.thread_id is not None:
            content["m.relates_to"] = {
                "rel_type": "m.thread",
                "event_id": to.thread_id,
                # For clients that do not show threads.
                "is_falling_back": True,
                "m.in_reply_to": {"event_id": to.thread_id},
            }
        sent = await self.client.send(to.chat_id, content, sending.short_key(key, length=32))
        self._stop_typing(to)
        return Receipt(sent)

    async def _edit(
        self, at: Address, receipt: Receipt, text: str, *, markup: bool, buttons: Sequence[Button]
    ) -> None:
        before = await self.client.original(at.chat_id, receipt)
        new = _text(text)
        if before is not None and before.content.filename:  # the file stays
            known = msgspec.to_builtins(before.content)
            new |= {it: known[it] for it in _FILE_FIELDS if it in known}
        content = _text(f"* {_plain(text)}")  # for clients that do not show edits
        content["m.new_content"] = new
        content["m.relates_to"] = {"rel_type": "m.replace", "event_id": receipt}
        await self.client.send(at.chat_id, content, uuid.uuid4().hex)
        self._stop_typing(at)

    async def _upload(
        self, to: Address, file: Upload, caption: str, *, markup: bool, key: str
    ) -> Receipt:
        device = self.client
        name = sending.file_name(file)
        text = name if is_empty(caption) else caption
        content = _text(text)
        content["msgtype"] = _KINDS.get(file.media_type.partition("/")[0], "m.file")
        content["filename"] = name
        content["info"] = {"mimetype": file.media_type, "size": len(file.data)}
        room = await device.room(to.chat_id)
        if room.encrypted:
            data, keys = encrypt_attachment(file.data)
            url = await device.client.upload(data, "application/octet-stream", "")
            content["file"] = {**keys, "url": url}
        else:
            content["url"] = await device.client.upload(file.data, file.media_type, name)
        return await self._post(to, content, key)

    async def _typing(self, at: Address) -> None:
        await _set_typing(self.client, at, {"typing": True, "timeout": 25_000})
        self._typed.add(at.chat_id)

    def _stop_typing(self, at: Address) -> None:
        if at.chat_id in self._typed:
            self._typed.discard(at.chat_id)
            self.connection.in_background(partial(_set_typing, at=at, given={"typing": False}))

    # Threads and account

    async def _open_thread(self, home: Address, title: str, *, key: str) -> Address:
        """Send a message with the title. The thread is that of the message."""
        is_direct = home.chat_type is ChatType.DM
        room = address(home.chat_id, direct=is_direct)
        root = await self._post(room, {**_text(title), "segue.thread": True}, key)
        return address(home.chat_id, root, direct=is_direct)

    async def _audience(self, chat: Address, users: Sequence[str]) -> Audience | None:
        return await account.audience(self.client, chat, users)

    async def _find(self, chat_id: str) -> HomeChannel | None:
        return await account.find(self.client, chat_id)


def _text(text: str) -> dict[str, Any]:
    """A message that mentions no users, and whose links get no preview in clients that support
    that."""
    plain = _plain(text)
    content: dict[str, Any] = {
        "msgtype": "m.text",
        "body": plain,
        "m.mentions": {},
        "com.beeper.linkpreviews": [],
    }
    if plain != text:
        content["format"] = "org.matrix.custom.html"
        content["formatted_body"] = str(text)
    return content


def _plain(text: str) -> str:
    return text.plain if isinstance(text, MarkedText) else text


async def _set_typing(device: MatrixDevice, at: Address, given: dict[str, Any]) -> None:
    where = f"/rooms{path(at.chat_id)}/typing{path(device.me.user_id)}"
    await device.client.put(where, given)


def make(settings: PlatformSettings, **more: Any) -> MatrixAdapter:
    """Return an unconnected adapter for the account in `settings`. `more` is for tests."""
    return MatrixAdapter(settings, **more)
