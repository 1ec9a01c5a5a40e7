"""The Signal adapter."""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from segue.core.address import Address, ChatType, HomeChannel, Platform
from segue.platforms import base, sending
from segue.platforms.adapter import RemoteAdapter
from segue.platforms.base import Button, Inbound, Receipt, Upload
from segue.platforms.errors import Lost, Refused
from segue.platforms.markup import ranges
from segue.platforms.signal import account
from segue.platforms.signal.client import FAILURES, SignalClient
from segue.platforms.signal.parser import NAME, Parser
from segue.platforms.signal.revisions import Revisions
from segue.platforms.signal.wire import SendAnswer
from segue.platforms.spec import PlatformSettings

logger = logging.getLogger(__name__)

CAPABILITIES = base.Capabilities(
    edits=True,
    edits_later=False,  # only the sender knows the newest version
    reactions=True,
    typing=True,
    files=True,
    code_files=True,
    length=2000,  # the rest of a longer text would become a file
    unit=base.Unit.BYTES,
    dialect=base.Dialect.SIGNAL,
    per_second=5.0,  # Signal publishes no limit
    edit_seconds=4.0,  # each edit is a message, and clients keep them all
    typing_seconds=12.0,  # it is shown for 15
    attachment_bytes=50 * 1024 * 1024,
    upload_bytes=50 * 1024 * 1024,
)
_STYLES = {
    ranges.BOLD: "BOLD",
    ranges.ITALIC: "ITALIC",
    ranges.STRIKE: "STRIKETHROUGH",
    ranges.CODE: "MONOSPACE",
}
_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+")
_NO_REVISION = "its newest version is not known, so clients would drop the edit"


class SignalAdapter(RemoteAdapter[SignalClient]):
    """The adapter of one account of a signal-cli daemon."""

    platform = Platform.SIGNAL
    capabilities = CAPABILITIES
    no_account = account.NO_ACCOUNT
    mention = NAME

    def __init__(self, number: str, url: str = "", *, silence: float = 30.0) -> None:
        """`silence` is the timeout in seconds after which a call counts as lost."""
        super().__init__(FAILURES)
        self._make = partial(SignalClient, number, url, silence)
        self._revisions = Revisions()
        self._parser = Parser(self._revisions.first)
        self._read: set[str] = set()
        """The updates of owners that are not marked as read yet."""

    async def _greet(self, client: SignalClient) -> None:
        await client.find_account()
        self.account = client.account
        await client.events.open()

    # Inbound

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        while True:
            with FAILURES.connecting():
                events = self.client.events
                found = await events.next()
            if found is None:
                yield None
                continue
            inbound = self._parser.parse(*found) if found[0] == self.account else None
            yield inbound
            events.recorded(found[1])
            if inbound is not None:
                self._mark_read(inbound)

    def acknowledge(self, press: Inbound) -> None:
        """Mark the message as read once it is recorded: that is how its sender knows."""
        self._read.add(press.update_id)

    def _mark_read(self, inbound: Inbound) -> None:
        if inbound.update_id not in self._read:
            return
        self._read.discard(inbound.update_id)
        timestamp, user = inbound.update_id.split(" ")
        given: dict[str, Any] = {"recipient": user, "targetTimestamp": [int(timestamp)]}
        self.connection.in_background(lambda client: client.send("sendReceipt", **given))

    async def _fetch(self, attachment: base.Attachment) -> bytes:
        limit = self.capabilities.attachment_bytes * 4 // 3 + 1024
        call, file = self.client.call, attachment.id
        data = await call("getAttachment", str, "data", limit=limit, id=file)
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise Lost(f"its answer makes no sense ({error})", arrived=True) from error

    # Outbound

    async def _send(
        self, to: Address, text: str, *, markup: bool, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        timestamp = await self._post(to, **_content(text))
        return self._revisions.add(str(timestamp), timestamp)

    async def _post(self, to: Address, **given: Any) -> int:
        return _checked(to, await self.client.send("send", **_target(to), **given))

    async def _edit(
        self, at: Address, receipt: Receipt, text: str, *, markup: bool, buttons: Sequence[Button]
    ) -> None:
        """Edit the newest version. If that is not known, the text must be sent as a new message."""
        newest = self._revisions.newest(receipt)
        if newest is None:
            raise Refused(400, _NO_REVISION)
        given = {**_target(at), **_content(text), "editTimestamp": newest}
        try:
            sent = await self.client.send("send", **given)
        except Lost as lost:
            if lost.arrived:
                self._revisions.lose(receipt)
            raise
        except Refused as refused:
            if refused.status >= 500:
                self._revisions.lose(receipt)
            raise
        self._revisions.add(receipt, _checked(at, sent))

    async def _upload(
        self, to: Address, file: Upload, caption: str, *, markup: bool, key: str
    ) -> Receipt:
        kind = file.media_type if _TYPE.fullmatch(file.media_type) else "application/octet-stream"
        name, data = quote(sending.file_name(file), safe=""), base64.b64encode(file.data).decode()
        uri = f"data:{kind};filename={name};base64,{data}"
        # Whether clients keep the file when its text is edited is not known, so it cannot be.
        return Receipt(str(await self._post(to, attachment=[uri], **_content(caption))))

    async def _typing(self, at: Address) -> None:
        await self.client.send("sendTyping", **_target(at))

    # Account

    async def _open_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        """There are no threads. Ask for the daemon, so that a handoff fails now if it is gone."""
        await self.client.version()

    async def _find(self, chat_id: str) -> HomeChannel | None:
        return await account.find(self.client, chat_id)

    def _checks(self, client: SignalClient, home: Address | None) -> AsyncGenerator[base.Finding]:
        return account.checks(client, home)


def _target(to: Address) -> dict[str, Any]:
    return {"groupId" if to.chat_type is ChatType.GROUP else "recipient": [to.chat_id]}


def _content(text: str) -> dict[str, Any]:
    styles = [f"{start}:{length}:{_STYLES[mark]}" for mark, start, length in ranges.ranges(text)]
    return {"message": ranges.without_marks(text) or None, "textStyle": styles or None}


def _checked(to: Address, sent: SendAnswer) -> int:
    """The timestamp of a message that at least one user got."""
    failed = sorted({it.type for it in sent.results if it.type != "SUCCESS"})
    if failed:
        logger.warning("message not for all members address=%s reasons=%s", to, ", ".join(failed))
    return sent.timestamp


def make(settings: PlatformSettings, **more: Any) -> SignalAdapter:
    """Return an unconnected adapter for the account in `settings`. `more` is for tests."""
    return SignalAdapter(settings.value("account"), settings.value("url"), **more)
