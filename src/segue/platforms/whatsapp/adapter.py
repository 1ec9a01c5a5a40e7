"""The WhatsApp adapter: receiving by webhook, sending, and the checks of the setup."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from urllib.parse import urlsplit

from msgspec.structs import replace

from segue.core.address import Address, HomeChannel, Platform
from segue.core.text import is_empty
from segue.platforms import base, sending
from segue.platforms.adapter import RemoteAdapter
from segue.platforms.base import Button, Finding, Inbound, Receipt, Upload
from segue.platforms.errors import Refused
from segue.platforms.spec import PlatformSettings
from segue.platforms.webhook import WebhookRequest, WebhookResponse
from segue.platforms.whatsapp import webhook
from segue.platforms.whatsapp.client import (
    BODY,
    CLOSED,
    FAILURES,
    WhatsAppClient,
    choices,
    file_kind,
    from_template,
    plain,
)
from segue.platforms.whatsapp.spec import UPLOADS
from segue.platforms.whatsapp.updates import WebhookUpdate, address, last_message, parse
from segue.platforms.whatsapp.webhook import Deliveries

CAPABILITIES = base.Capabilities(
    buttons=True,
    typing=True,
    files=True,
    button_length=BODY,
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
_PATH = f"/hooks/{Platform.WHATSAPP}"
_NO_TOKEN = Finding(
    False,
    "WhatsApp does not accept the access token.",
    "Generate one for a system user at https://business.facebook.com/settings, and type "
    "`segue setup whatsapp`.",
    vital=True,
)
_ENTER = (
    "Let a tunnel or a reverse proxy of your own lead from a public HTTPS address to {local}. "
    "At https://developers.facebook.com/apps, in your app, open WhatsApp, Configuration, and enter "
    "under Webhook the callback URL https://YOUR-ADDRESS{path} and the verify token {token}. Press "
    "Verify and save, and subscribe to the field messages."
)
_SHARED = "the gateway, on the port of the web page (web.port; usually 8790)"
_NEAREST = ("phone_number", "whatsapp_business_account", "application")
"""Where Meta keeps callback URLs. The first that is set counts."""
_NUMBER = re.compile(r"\+?([0-9]{7,15})")


class WhatsAppAdapter(RemoteAdapter[WhatsAppClient]):
    """The adapter of one number. It receives by webhook."""

    platform = Platform.WHATSAPP
    capabilities = CAPABILITIES
    caption = BODY
    no_account = _NO_TOKEN

    def __init__(self, settings: PlatformSettings, *, silence: float = 20.0) -> None:
        """`silence` is the timeout in seconds after which a call counts as lost."""
        super().__init__(FAILURES)
        self._value = settings.value
        self._silence = silence
        self._app_secret = settings.value("app_secret")
        self.webhook_rules = replace(webhook.RULES, port=webhook.own_port(settings))
        self.deliveries = Deliveries(webhook.ORDER_SECONDS)
        self.clock = time.time
        self._last: dict[Address, tuple[int, str]] = {}
        """The last message of each user: its time and its id."""

    def _make(self) -> WhatsAppClient:
        given = ("phone", "token", "app_secret", "url")
        return WhatsAppClient(*map(self._value, given), silence=self._silence)

    async def _greet(self, client: WhatsAppClient) -> None:
        self.account = (await client.number()).id

    async def close(self) -> None:
        await super().close()
        self.deliveries.drop()

    # Inbound

    async def handle_webhook(self, request: WebhookRequest) -> WebhookResponse:
        """Answer a request of Meta, which repeats one that is not answered by 200. A signed part
        that cannot be parsed is skipped, because it would be the same the next time."""
        if request.method == "GET":
            return webhook.handshake(request, self._app_secret)
        if not webhook.is_signed(request, self._app_secret):
            return webhook.FORBIDDEN
        if not self.account:  # not connected yet
            return webhook.UNAVAILABLE
        found = list(parse(request.body, self._value("phone")))
        self._skip(["unknown"] * found.count(None))
        recorded = await self.deliveries.record(filter(None, found))
        return WebhookResponse() if recorded else webhook.UNAVAILABLE

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        self.connection.check()
        updates = self.deliveries.each(self._check, webhook.CHECK_SECONDS)
        async with contextlib.aclosing(updates):
            async for update in updates:
                self.connection.check()
                if update is not None:
                    self._note(update)
                yield update and update.inbound

    async def _check(self) -> None:
        with self.failures.connecting():
            await self._greet(self.client)

    def _note(self, update: WebhookUpdate) -> None:
        """Remember what the update says about the 24 hours in which we may write."""
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
            found = last_message(update_id)
            if found > self._last.get(at, _NEVER):
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
        template = self._template(to)
        if not template and not buttons:
            return await self._post(to, "text", plain(text), key)
        if not template:
            return await self._post(to, "interactive", choices(text, buttons), key)
        content = from_template(template, text, buttons)
        if not buttons:
            return await self._post(to, "template", content, key)
        # Without a key, so that no delivery report makes it a message that arrived whole.
        await self._post(to, "template", content)
        raise FAILURES.undelivered(f"{_WITHOUT_BUTTONS}, on one line", arrived=True)

    async def _post(self, to: Address, kind: str, content: object, key: str = "") -> Receipt:
        message = await self.client.send(to.chat_id, kind, content, key)
        return Receipt(message)

    def _template(self, to: Address, *, is_text: bool = True) -> str:
        """The template to use if the user last wrote more than 24 hours ago, else empty. Empty also
        if we do not know when: then WhatsApp decides. Raise Refused if a template is needed, but
        there is none or it cannot be used."""
        if to not in self._last:
            return ""
        written_at, _ = self._last[to]
        if self.clock() - written_at <= _WINDOW:
            return ""
        template = self._value("template")
        if not template or not is_text:
            raise Refused(400, "more than 24 hours have passed", code=CLOSED)
        return template

    async def _upload(
        self, to: Address, file: Upload, caption: str, *, markup: bool, key: str
    ) -> Receipt:
        self._template(to, is_text=False)
        kind, media_type = file_kind(file)
        name = sending.file_name(file)
        content = {"id": await self.client.upload(name, media_type, file.data)}
        if kind == "audio" and not is_empty(caption):  # has no caption
            await self._post(to, "text", plain(caption))
        elif not is_empty(caption):
            content["caption"] = caption
        if kind == "document":
            content["filename"] = name
        return await self._post(to, kind, content, key)

    async def _typing(self, at: Address) -> None:
        """The indicator belongs to the last message of the user."""
        _, message = self._last.get(at, _NEVER)
        if message:
            await self.client.mark_read(message, typing=True)

    # Chats

    async def _open_thread(self, home: Address, title: str, *, key: str) -> None:
        """There are no threads. A handoff that cannot arrive fails now."""
        self._template(home)
        await self.client.number()

    async def _find(self, chat_id: str) -> HomeChannel | None:
        """The chat with that phone number. WhatsApp does not say whether there is one."""
        found = _NUMBER.fullmatch(chat_id.replace(" ", ""))
        if found is None:
            return None
        number = found[1]
        return HomeChannel(address=address(number), name=f"+{number}")

    # Setup

    async def _checks(
        self, client: WhatsAppClient, home: Address | None
    ) -> AsyncGenerator[Finding]:
        """Check the token, the number and the webhook."""
        port = self.webhook_rules.port
        local = f"http://127.0.0.1:{port}" if port else _SHARED
        number = await client.number()
        text = f"The token is good: the number is {number.display_phone_number}"
        yield Finding(True, f"{text} ({number.verified_name}).")
        configured = [number.webhook_configuration.get(it) for it in _NEAREST]
        url = next((it for it in configured if it), "")
        if not urlsplit(url).path.endswith(_PATH):
            token = webhook.verify_token(self._app_secret)
            fix = _ENTER.format(local=local, path=_PATH, token=token)
            yield Finding(False, "The webhook has not been verified.", fix, awaited=True)
            return
        flaw = await webhook.flaw(partial(client.probe, url), self._app_secret)
        if flaw is None:
            yield Finding(True, f"The webhook {url} leads to the gateway.", awaited=True)
        else:
            reason = f" ({flaw})" if flaw else ""
            text = f"The webhook {url} does not lead to the gateway{reason}."
            fix = f"Start the gateway and your tunnel, and let it lead to {local}."
            yield Finding(False, text, fix, awaited=True)
