"""The WhatsApp adapter."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from segue.core.address import Address, HomeChannel, Platform
from segue.core.text import is_empty
from segue.platforms import base, sending
from segue.platforms.base import Button, Inbound, Receipt, Upload
from segue.platforms.errors import Refused
from segue.platforms.hub import HubAdapter, HubUpdate
from segue.platforms.spec import PlatformSettings
from segue.platforms.whatsapp import account, messages
from segue.platforms.whatsapp.client import CLOSED, FAILURES, WhatsAppClient
from segue.platforms.whatsapp.parser import last_message, parse
from segue.platforms.whatsapp.spec import UPLOADS

CAPABILITIES = base.Capabilities(
    buttons=True,
    typing=True,
    files=True,
    button_length=messages.BODY,
    dialect=base.Dialect.WHATSAPP,
    # To one user: a message every 6 seconds, and 45 at once that count for later.
    chat_seconds=6.0,
    chat_burst=40,
    typing_seconds=20.0,  # WhatsApp shows it for 25 seconds
    keeps=timedelta(days=7),  # so long, Meta repeats a request that is not answered
    attachment_bytes=UPLOADS.most,
    upload_bytes=UPLOADS.most,
)
_WINDOW = 24 * 60 * 60
_WITHOUT_BUTTONS = "the message arrived without its buttons"
_NEVER = (0, "")


class WhatsAppAdapter(HubAdapter[WhatsAppClient]):
    """The adapter of one number. It receives by webhook."""

    platform = Platform.WHATSAPP
    capabilities = CAPABILITIES
    caption = messages.BODY
    no_account = account.NO_TOKEN

    def __init__(self, settings: PlatformSettings, *, silence: float = 20.0) -> None:
        """`silence` is the timeout in seconds after which a call counts as lost."""
        super().__init__(FAILURES, settings)
        self._value = settings.value
        self._silence, self.clock = silence, time.time
        self._last: dict[Address, tuple[int, str]] = {}
        """The last message of each user: its time and its id."""

    def _make(self) -> WhatsAppClient:
        given = ("phone", "token", "app_secret", "url")
        return WhatsAppClient(*map(self._value, given), silence=self._silence)

    async def _greet(self, client: WhatsAppClient) -> None:
        self.account = (await client.number()).id

    # Inbound

    def _parse(self, body: bytes) -> Iterable[HubUpdate | None]:
        return parse(body, self._value("phone"))

    def _note(self, update: HubUpdate) -> None:
        """Remember what the update says about the window."""
        self.remember({update.inbound.address: update.id})
        if update.code == CLOSED:
            self._last[update.inbound.address] = _NEVER

    def remember(
        self,
        recorded: Mapping[Address, str],
        *,
        contact: datetime | None = None,
        wanted: base.Wanted | None = None,
    ) -> None:
        for at, update_id in recorded.items():
            if (found := last_message(update_id)) > self._last.get(at, _NEVER):
                self._last[at] = found

    def acknowledge(self, press: Inbound) -> None:
        """Mark the message as read."""
        self.connection.in_background(lambda client: client.mark_read(press.press_id))

    async def _fetch(self, attachment: base.Attachment) -> bytes:
        return await self.client.fetch(attachment.id, self.capabilities.attachment_bytes)

    # Outbound

    async def _send(
        self, to: Address, text: str, *, markup: bool, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        if template := self._template(to):
            content = messages.from_template(template, text, buttons)
            if not buttons:
                return await self._post(to, "template", content, key)
            # Without a key, so that no later status makes it a message that arrived whole.
            await self._post(to, "template", content)
            raise FAILURES.undelivered(f"{_WITHOUT_BUTTONS}, on one line", arrived=True)
        if not buttons:
            return await self._post(to, "text", messages.plain(text), key)
        return await self._post(to, "interactive", messages.choices(text, buttons), key)

    async def _post(self, to: Address, kind: str, content: object, key: str = "") -> Receipt:
        return Receipt(await self.client.send(to.chat_id, kind, content, key))

    def _template(self, to: Address, *, is_text: bool = True) -> str:
        """The template to use, because the user wrote more than 24 hours ago; empty before that. If
        we do not know, WhatsApp decides. Raise Refused if there is none, or it cannot be used."""
        if to not in self._last or self.clock() - self._last[to][0] <= _WINDOW:
            return ""
        if not is_text or not (template := self._value("template")):
            raise Refused(400, "more than 24 hours have passed", code=CLOSED)
        return template

    async def _upload(
        self, to: Address, file: Upload, caption: str, *, markup: bool, key: str
    ) -> Receipt:
        self._template(to, is_text=False)
        (kind, media_type), name = messages.file_kind(file), sending.file_name(file)
        content = {"id": await self.client.upload(name, media_type, file.data)}
        if kind == "audio" and not is_empty(caption):  # has no caption
            await self._post(to, "text", messages.plain(caption))
        elif not is_empty(caption):
            content["caption"] = caption
        if kind == "document":
            content["filename"] = name
        return await self._post(to, kind, content, key)

    async def _typing(self, at: Address) -> None:
        """The indicator belongs to the last message of the user."""
        if message := self._last.get(at, _NEVER)[1]:
            await self.client.mark_read(message, typing=True)

    # Account

    async def _open_thread(self, home: Address, title: str, *, key: str) -> None:
        """There are no threads. A handoff that cannot arrive fails now."""
        self._template(home)
        await self.client.number()

    async def _find(self, chat_id: str) -> HomeChannel | None:
        return account.find(chat_id)

    def _checks(self, client: WhatsAppClient, home: Address | None) -> AsyncGenerator[base.Finding]:
        return account.checks(client, self.app_secret, self.webhook_rules.port)
