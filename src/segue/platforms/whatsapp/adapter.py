"""The WhatsApp adapter."""

from __future__ import annotations

import logging
import textwrap
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from segue.core.address import Address, HomeChannel, Platform
from segue.core.errors import BadAdapter
from segue.core.text import is_empty, one_line
from segue.platforms import base, sending
from segue.platforms.adapter import RemoteAdapter
from segue.platforms.base import Button, Inbound, Receipt, Upload
from segue.platforms.errors import Lost, Refused
from segue.platforms.spec import PlatformSettings
from segue.platforms.unrecorded import Deliveries
from segue.platforms.webhook import WebhookRequest, WebhookResponse
from segue.platforms.whatsapp import account, webhook
from segue.platforms.whatsapp.client import CLOSED, FAILURES, WhatsAppClient
from segue.platforms.whatsapp.parser import WaUpdate, last_message, parse

logger = logging.getLogger(__name__)

_MEGABYTE = 1024 * 1024
CAPABILITIES = base.Capabilities(
    buttons=True,
    typing=True,
    files=True,
    length=4096,
    dialect=base.Dialect.WHATSAPP,
    # To one user: a message every 6 seconds, and 45 at once that count for later.
    chat_seconds=6.0,
    chat_burst=40,
    typing_seconds=20.0,  # WhatsApp shows it for 25 seconds
    attachment_bytes=100 * _MEGABYTE,
    upload_bytes=100 * _MEGABYTE,
)
CHECK_SECONDS = 60.0
_WINDOW = 24 * 60 * 60
_BODY = 1024
"""Length limit of a text with buttons."""
_REPLIES, _REPLY_TITLE = 3, 20
_ROWS, _ROW_TITLE, _ROW_TEXT = 10, 24, 72
_PARAMETER = 900
"""Length of a template's parameter. With the words around it, 1,024 characters fit."""
_CHOOSE = "Choose"
_LANGUAGE = "en"
_OFFICE = "application/vnd.openxmlformats-officedocument."
_FILES: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "image": (5 * _MEGABYTE, ("image/jpeg", "image/png")),
    "video": (16 * _MEGABYTE, ("video/mp4", "video/3gpp")),
    "audio": (16 * _MEGABYTE, ("audio/aac", "audio/mp4", "audio/mpeg", "audio/amr", "audio/ogg")),
    "document": (100 * _MEGABYTE, (
        "text/plain", "application/pdf", "application/msword", "application/vnd.ms-excel",
        "application/vnd.ms-powerpoint", f"{_OFFICE}wordprocessingml.document",
        f"{_OFFICE}spreadsheetml.sheet", f"{_OFFICE}presentationml.presentation",
    )),
}  # fmt: skip
"""The size limit and the types of each kind of file."""
_TEXTS = ("text/", "application/json", "application/xml", "application/toml", "application/yaml")
"""Types that are sent as plain text."""


class WhatsAppAdapter(RemoteAdapter[WhatsAppClient]):
    """The adapter of one number. It receives by webhook."""

    platform = Platform.WHATSAPP
    capabilities = CAPABILITIES
    caption = _BODY
    no_account = account.NO_TOKEN

    def __init__(
        self,
        phone: str,
        token: str,
        app_secret: str,
        url: str = "",
        *,
        template: str = "",
        port: int | None = None,
        silence: float = 20.0,
        order_seconds: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`template` is `name/language`, for messages outside of the window. `port` is that of the
        webhook alone, if it has one. `silence` is the timeout in seconds after which a call
        counts as lost. `order_seconds` is how long to wait for an update that is overtaken."""
        super().__init__(FAILURES)
        self._make = partial(WhatsAppClient, phone, token, app_secret, url, silence)
        self._phone = phone
        self._secret = app_secret
        self._template = template
        self._clock = clock
        seconds = webhook.ORDER_SECONDS if order_seconds is None else order_seconds
        self._deliveries = Deliveries[WaUpdate](seconds)
        self._last: dict[Address, tuple[int, str]] = {}
        """The last message of each user: its time and its id."""
        self.webhook_rules = replace(webhook.RULES, port=port)
        self.verify_token = webhook.verify_token(app_secret)

    async def _greet(self, client: WhatsAppClient) -> None:
        self.account = (await client.number()).id

    async def close(self) -> None:
        await super().close()
        self._deliveries.drop()

    # Inbound

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResponse:
        """Meta delivers again what is not answered by 200. What it signed but cannot be parsed is
        skipped: it would be the same the next time."""
        if request.method == "GET":
            return webhook.handshake(request, self._secret)
        if not self._secret or not webhook.is_signed(request, self._secret):
            logger.warning("webhook refused platform=whatsapp reason=signature")
            return webhook.FORBIDDEN
        if not self.account:  # not connected yet
            return webhook.UNAVAILABLE
        found = parse(request.body, self._phone)
        self._skip(["unknown"] * found.skipped)
        recorded = await self._deliveries.record(found.updates)
        return WebhookResponse() if recorded else webhook.UNAVAILABLE

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        """No connection says that the API is out of reach, so it is asked now and then."""
        checked = time.monotonic()
        while True:
            self.connection.check()
            if (left := checked + CHECK_SECONDS - time.monotonic()) <= 0:
                with FAILURES.connecting():
                    await self.client.number()
                checked = time.monotonic()
            update = await self._deliveries.first(left)
            yield update and self._heard(update)
            if update is not None:
                self._deliveries.recorded(update)

    def _heard(self, update: WaUpdate) -> Inbound:
        """Note what the update says about the window."""
        inbound = update.inbound
        if not update.code:
            self._note(inbound.address, inbound.update_id)
            return inbound
        if update.code == CLOSED:
            self._last[inbound.address] = (0, "")
        return replace(inbound, text=FAILURES.reason(Refused(400, inbound.text, code=update.code)))

    def _note(self, at: Address, update_id: str) -> None:
        if (found := last_message(update_id)) > self._last.get(at, (0, "")):
            self._last[at] = found

    def remember(self, recorded: Mapping[Address, str]) -> None:
        for at, update_id in recorded.items():
            self._note(at, update_id)

    def acknowledge(self, press: Inbound) -> None:
        """Mark the message as read."""
        self.connection.in_background(lambda client: client.mark_read(press.press_id))

    async def _fetch(self, attachment: base.Attachment) -> bytes:
        return await self.client.fetch(attachment.id, self.capabilities.attachment_bytes)

    # Outbound

    async def _send(
        self, to: Address, text: str, *, markup: bool, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        if self._is_closed(to):
            return await self._reengage(to, text)
        if not buttons:
            return await self._post(to, "text", {"body": text, "preview_url": False})
        if len(text) <= _BODY:
            return await self._post(to, "interactive", _choices(text, buttons))
        await self._post(to, "text", {"body": text, "preview_url": False})
        try:
            return await self._post(to, "interactive", _choices(f"{_CHOOSE}:", buttons))
        except (Refused, Lost) as error:
            # The text has arrived and must not be sent again.
            reason = f"the message arrived without its buttons ({error.reason})"
            raise FAILURES.undelivered(reason, arrived=True) from error

    async def _post(self, to: Address, kind: str, content: object) -> Receipt:
        return Receipt(await self.client.send(to.chat_id, kind, content))

    def _is_closed(self, to: Address) -> bool:
        """Whether the user wrote more than 24 hours ago. If we do not know, WhatsApp decides."""
        return to in self._last and self._clock() - self._last[to][0] > _WINDOW

    async def _reengage(self, to: Address, text: str) -> Receipt:
        """Send the template with the text, on one line, or refuse."""
        if not self._template:
            raise Refused(400, "more than 24 hours have passed", code=CLOSED)
        name, _, language = self._template.partition("/")
        words = [{"type": "text", "text": one_line(text, _PARAMETER)}]
        content = {
            "name": name,
            "language": {"code": language or _LANGUAGE},
            "components": [{"type": "body", "parameters": words}],
        }
        return await self._post(to, "template", content)

    async def _upload(
        self, to: Address, file: Upload, caption: str, *, markup: bool, key: str
    ) -> Receipt:
        if self._is_closed(to):
            raise Refused(400, "more than 24 hours have passed", code=CLOSED)
        kind, media_type = _kind(file)
        name, text = sending.file_name(file), "" if is_empty(caption) else caption
        content = {"id": await self.client.upload(name, media_type, file.data)}
        if kind == "audio" and text:  # has no caption
            await self._post(to, "text", {"body": text, "preview_url": False})
        elif text:
            content["caption"] = text
        if kind == "document":
            content["filename"] = name
        return await self._post(to, kind, content)

    async def _typing(self, at: Address) -> None:
        """The indicator belongs to the last message of the user."""
        if message := self._last.get(at, (0, ""))[1]:
            await self.client.mark_read(message, typing=True)

    # Account

    async def _find(self, chat_id: str) -> HomeChannel | None:
        return account.find(chat_id)

    def _checks(self, client: WhatsAppClient, home: Address | None) -> AsyncGenerator[base.Finding]:
        return account.checks(client, self.verify_token, self.webhook_rules.port)


def _short(label: str, limit: int) -> str:
    """A label that fits, cut between words if it has several."""
    cut = textwrap.shorten(label, limit, placeholder="…")
    return cut if len(cut) > 1 else sending.title(label, limit)


def _choices(text: str, buttons: Sequence[Button]) -> dict[str, Any]:
    """Up to three buttons; or a list, which also shows long labels."""
    titles = [_short(button.label, _REPLY_TITLE) for button in buttons]
    if len(buttons) == len({*titles}) <= _REPLIES:
        named = zip(buttons, titles, strict=True)
        replies = [{"type": "reply", "reply": {"id": it.data, "title": t}} for it, t in named]
        return {"type": "button", "body": {"text": text}, "action": {"buttons": replies}}
    sections = [{"rows": [_row(button) for button in buttons[:_ROWS]]}]
    action = {"button": _CHOOSE, "sections": sections}
    return {"type": "list", "body": {"text": text}, "action": action}


def _row(button: Button) -> dict[str, str]:
    title = _short(button.label, _ROW_TITLE)
    row = {"id": button.data, "title": title}
    if title != button.label:
        row["description"] = _short(button.label, _ROW_TEXT)
    return row


def _kind(file: Upload) -> tuple[str, str]:
    """How WhatsApp takes the file, and as which type."""
    media_type = file.media_type.partition(";")[0]
    for kind, (most, types) in _FILES.items():
        if media_type in types and len(file.data) <= most:
            return kind, media_type
    if media_type.startswith(_TEXTS):
        return "document", "text/plain"
    raise Refused(415, f"WhatsApp does not take files of the type {media_type}, or of this size")


def make(settings: PlatformSettings, **more: Any) -> WhatsAppAdapter:
    """Return an unconnected adapter for the number in `settings`. `more` is for tests."""
    value = settings.value
    return WhatsAppAdapter(
        value("phone"),
        value("token"),
        value("app_secret"),
        value("url"),
        template=value("template"),
        port=_port(value("port")),
        **more,
    )


def _port(text: str) -> int | None:
    if text and not (text.isdecimal() and 0 < int(text) < 2**16):
        reason = f"platforms.whatsapp.port is {one_line(text)}, which is no port"
        raise BadAdapter(platform=Platform.WHATSAPP, reason=reason)
    return int(text) if text else None
