"""The Matrix adapter."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from nio.crypto.attachments import decrypt_attachment, encrypt_attachment
from nio.exceptions import EncryptionError

from segue.core.address import Address, ChatType, HomeChannel, Platform
from segue.core.text import is_empty, whole
from segue.platforms import base, sending
from segue.platforms.adapter import Deliver, RemoteAdapter, T
from segue.platforms.base import Button, Inbound, Part, Receipt, Upload
from segue.platforms.errors import Refused, converted
from segue.platforms.matrix import account, parser, updates, wire
from segue.platforms.matrix.client import FAILURES, path
from segue.platforms.matrix.device import MatrixDevice
from segue.platforms.matrix.rooms import address
from segue.platforms.matrix.spec import FIRST_USE
from segue.platforms.spec import PlatformSettings

CAPABILITIES = base.Capabilities(
    threads=True,
    edits=True,
    buttons=True,
    typing=True,
    files=True,
    code_files=True,
    keys=True,
    # An event has 64 KiB at most. An edit has its text four times, and encryption adds a third.
    length=4000,
    unit=base.Unit.BYTES,
    dialect=base.Dialect.MATRIX,
    chat_burst=8,
    edit_seconds=5.0,  # Synapse allows 10 events, and then one in 5 seconds
    typing_seconds=20.0,
    attachment_bytes=50 * 1024 * 1024,
    upload_bytes=50 * 1024 * 1024,
)
_KINDS = {"image": "m.image", "audio": "m.audio", "video": "m.video"}
_MESSAGE, _REACTION = "m.room.message", "m.reaction"


class FormattedText(str):
    """Plain text, with the HTML of the same text."""

    __slots__ = ("html",)
    html: str

    @classmethod
    def of(cls, part: Part) -> Self:
        made = cls(whole(part.plain))
        made.html = whole(part.text)
        return made


class MatrixAdapter(RemoteAdapter[MatrixDevice]):
    """The adapter of one device of one account."""

    platform = Platform.MATRIX
    capabilities = CAPABILITIES
    no_account = account.NO_TOKEN

    def __init__(
        self,
        url: str,
        token: str,
        folder: Path,
        *,
        owner: str,
        first_use: bool = False,
        silence: float = 20.0,
    ) -> None:
        """`silence` is the timeout in seconds after which a call counts as lost."""
        super().__init__(FAILURES)
        self._make = partial(
            MatrixDevice, url, token, folder, owner=owner, first_use=first_use, silence=silence
        )
        self._typed: set[str] = set()
        """The rooms that show that the bot is typing."""

    async def _greet(self, client: MatrixDevice) -> None:
        await client.greet()
        await updates.begin(client)
        self.account, self.mention = client.me.user_id, client.names[0]

    # Inbound

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        async for inbound in updates.receive(self.client):
            yield inbound
            if inbound is not None and inbound.message_id:  # it is recorded now
                self.connection.in_background(partial(_mark_read, inbound=inbound))

    async def _fetch(self, attachment: base.Attachment) -> bytes:
        limit, client = self.capabilities.attachment_bytes, self.client.client
        if not attachment.id.startswith("{"):
            return await client.download(attachment.id, limit)
        try:
            file = json.loads(attachment.id)
            found = await client.download(file["url"], limit)
            return decrypt_attachment(found, file["key"]["k"], file["hashes"]["sha256"], file["iv"])
        except (ValueError, LookupError, TypeError, EncryptionError) as error:
            raise Refused(404, "the file cannot be decrypted") from error

    # Outbound

    async def _in_markup(self, part: Part, deliver: Deliver[T]) -> T:
        """Deliver both forms of the text, or only the plain one if both are too much."""
        try:
            return await deliver(FormattedText.of(part), markup=True)
        except Refused as refused:
            if not refused.says(FAILURES.bad_markup):
                raise
        return await deliver(whole(part.plain), markup=False)

    async def _send(
        self, to: Address, text: str, *, markup: bool, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        content = _text(text) | _buttons(buttons)
        return await self._post(to, content, key, buttons)

    async def _post(
        self, to: Address, content: dict[str, Any], key: str, buttons: Sequence[Button] = ()
    ) -> Receipt:
        """Send a message, and a reaction for each of its buttons. The same key sends them once."""
        if to.thread_id is not None:
            content["m.relates_to"] = _in_thread(to.thread_id)
        device, name = self.client, sending.short_key(key, length=32)
        sent = await device.send(to.chat_id, _MESSAGE, content, name)
        for button in buttons:
            await self._react(
                to.chat_id, sent, button, sending.short_key(name, button.data, length=32)
            )
        self._remember(sent, content)
        self._stop_typing(to)
        return Receipt(sent)

    async def _react(self, room_id: str, event_id: str, button: Button, key: str) -> None:
        relation = {"rel_type": "m.annotation", "event_id": event_id, "key": button.label}
        await self.client.send(room_id, _REACTION, {"m.relates_to": relation}, key)

    def _remember(self, event_id: str, content: dict[str, Any]) -> None:
        if (found := converted(content, wire.EventContent)) is not None:
            me = self.client.me.user_id
            self.client.remember(event_id, parser.Original(me, found, content))

    async def _edit(
        self, at: Address, receipt: Receipt, text: str, *, markup: bool, buttons: Sequence[Button]
    ) -> None:
        device = self.client
        before = await device.original(at.chat_id, receipt)
        new = _text(text) | _buttons(buttons)
        if before is not None and before.content.filename:
            kept = {it: before.raw[it] for it in _FILE_FIELDS if it in before.raw}
            new = {**new, **kept}
        relation = {"rel_type": "m.replace", "event_id": receipt}
        content = {**new, "body": f"* {text}", "m.new_content": new, "m.relates_to": relation}
        if "formatted_body" in new:
            content["formatted_body"] = f"* {new['formatted_body']}"
        await device.send(at.chat_id, _MESSAGE, content, uuid.uuid4().hex)
        if buttons or (before is not None and before.content.buttons):
            await self._set_buttons(at.chat_id, receipt, buttons)
        if before is not None:
            self._remember(receipt, {**new, "m.relates_to": before.raw.get("m.relates_to", {})})
        self._stop_typing(at)

    async def _set_buttons(self, room: str, message: str, buttons: Sequence[Button]) -> None:
        """Remove the reactions of buttons that are gone, and add those of new ones."""
        client, me = self.client.client, self.client.me.user_id
        where = f"/_matrix/client/v1/rooms{path(room)}/relations{path(message, 'm.annotation')}"
        page = await client.call("GET", where, wire.EventPage)
        wanted = {button.label: button for button in buttons}
        for event in filter(None, (parser.event(raw) for raw in page.chunk)):
            label = parser.reaction(event)
            if event.sender == me and wanted.pop(label, None) is None:
                gone = f"/rooms{path(room)}/redact{path(event.event_id, uuid.uuid4().hex)}"
                await client.put(gone, wire.SentEvent, {})
        for button in wanted.values():
            await self._react(room, message, button, uuid.uuid4().hex)

    async def _upload(
        self, to: Address, file: Upload, caption: str, *, markup: bool, key: str
    ) -> Receipt:
        device, name = self.client, sending.file_name(file)
        kind = _KINDS.get(file.media_type.partition("/")[0], "m.file")
        content: dict[str, Any] = _text(name if is_empty(caption) else caption)
        content |= {"msgtype": kind, "filename": name}
        content["info"] = {"mimetype": file.media_type, "size": len(file.data)}
        if (await device.room(to.chat_id)).encrypted:
            data, keys = encrypt_attachment(file.data)
            url = await device.client.upload(data, "application/octet-stream", "")
            content["file"] = {**keys, "url": url}
        else:
            content["url"] = await device.client.upload(file.data, file.media_type, name)
        return await self._post(to, content, key)

    async def _typing(self, at: Address) -> None:
        await _set_typing(self.client, at.chat_id, {"typing": True, "timeout": 25_000})
        self._typed.add(at.chat_id)

    def _stop_typing(self, at: Address) -> None:
        if at.chat_id in self._typed:
            self._typed.discard(at.chat_id)
            stop = partial(_set_typing, room_id=at.chat_id, given={"typing": False})
            self.connection.in_background(stop)

    # Threads and account

    async def _open_thread(self, home: Address, title: str, *, key: str) -> Address:
        """Send a message with the title. The thread is that of the message."""
        root = await self._post(_main(home), {**_text(title), "segue.thread": True}, key)
        return address(home.chat_id, root, direct=home.chat_type is ChatType.DM)

    async def _find(self, chat_id: str) -> HomeChannel | None:
        return await account.find(self.client, chat_id)

    def _checks(self, client: MatrixDevice, home: Address | None) -> AsyncGenerator[base.Finding]:
        return account.checks(client, home)


_FILE_FIELDS = ("msgtype", "filename", "info", "url", "file")


def _main(at: Address) -> Address:
    return address(at.chat_id, direct=at.chat_type is ChatType.DM)


def _text(text: str) -> dict[str, Any]:
    """A message that mentions no users, and whose links get no preview where clients know that."""
    content: dict[str, Any] = {"msgtype": "m.text", "body": str(text), "m.mentions": {}}
    content["com.beeper.linkpreviews"] = []
    formatted = getattr(text, "html", text)
    if formatted != text:
        content |= {"format": "org.matrix.custom.html", "formatted_body": formatted}
    return content


def _buttons(buttons: Sequence[Button]) -> dict[str, Any]:
    return {"segue.buttons": {it.label: it.data for it in buttons}} if buttons else {}


def _in_thread(root: str) -> dict[str, Any]:
    fallback = {"is_falling_back": True, "m.in_reply_to": {"event_id": root}}
    return {"rel_type": "m.thread", "event_id": root, **fallback}


async def _set_typing(device: MatrixDevice, room_id: str, given: dict[str, Any]) -> None:
    where = f"/rooms{path(room_id)}/typing{path(device.me.user_id)}"
    await device.client.put(where, dict[str, Any], given)


async def _mark_read(device: MatrixDevice, inbound: Inbound) -> None:
    at = inbound.address
    where = f"/rooms{path(at.chat_id)}/receipt/m.read{path(inbound.message_id)}"
    await device.client.post(where, dict[str, Any], {"thread_id": at.thread_id or "main"})


def make(settings: PlatformSettings, **more: Any) -> MatrixAdapter:
    """Return an unconnected adapter for the account in `settings`. `more` is for tests."""
    return MatrixAdapter(
        settings.value("url"),
        settings.value("token"),
        settings.folder,
        owner=settings.value("invites_from"),
        first_use=settings.value("trust") == FIRST_USE,
        **more,
    )
