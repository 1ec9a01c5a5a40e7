"""The adapter for SmallChat: plain text, threads in groups, and idempotency keys."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, NoReturn

import httpx2
import msgspec

from examples.smallchat.wire import Answer, Update
from segue.core.address import Address, ChatType, Platform, Sender
from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.core.text import is_empty, one_line, whole
from segue.platforms import base
from segue.platforms.spec import PlatformSettings

LENGTH = 2000
POLL_SECONDS = 20.0


def make(settings: PlatformSettings) -> base.Adapter:
    """Create the adapter. The setting `platforms.PLATFORM.adapter` names this function."""
    token = "" if settings.token is None else settings.token.reveal()
    return SmallChatAdapter(settings.platform, settings.url or "", token)


class SmallChatAdapter:
    capabilities = base.Capabilities(threads=True, keys=True, length=LENGTH)

    def __init__(self, platform: Platform, url: str, token: str, *, silence: float = 10.0) -> None:
        """`silence` is how many seconds a call waits for an answer before it counts as lost."""
        self.platform = platform
        self.account = ""
        self._url, self._token, self._silence = url, token, silence
        self._http: httpx2.AsyncClient | None = None
        self._last: int | None = None

    async def connect(self) -> None:
        await self.close()
        headers = {"Authorization": f"Bearer {self._token}"}
        self._http = httpx2.AsyncClient(base_url=self._url, headers=headers, trust_env=False)
        try:
            self.account = (await self._call("me")).id
        except DeliveryFailed as error:
            await self.close()
            raise ConnectFailed(platform=self.platform, reason=error.reason) from error

    async def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def receive(self) -> AsyncGenerator[base.Inbound | None]:
        while True:
            try:
                batch = await self._call("updates", after=self._last, seconds=POLL_SECONDS)
            except DeliveryFailed as error:
                raise ConnectFailed(platform=self.platform, reason=error.reason) from error
            yield None
            for update in batch.updates:
                if (inbound := self._parse(update)) is not None:
                    yield inbound
            # Only now are all of them recorded. The next poll confirms them.
            self._last = batch.last

    async def send(
        self, to: Address, part: base.Part, *, key: str, buttons: Sequence[base.Button] = ()
    ) -> base.Receipt:
        text = whole(part.plain)
        if buttons or is_empty(text) or len(text) > LENGTH:
            raise self._failed(f"it takes 1 to {LENGTH} characters, and no buttons")
        sent = await self._call("post", chat=to.chat_id, thread=to.thread_id, text=text, key=key)
        return base.Receipt(sent.id)

    async def create_handoff_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        if home.chat_type is ChatType.DM:
            return None
        name = one_line(title, 80) or "Handoff"
        opened = await self._call("open", chat=home.chat_id, title=name, key=key)
        return self._address(home.chat_id, home.chat_type, opened.id)

    def _address(self, chat: str, kind: str, thread: str | None) -> Address:
        """Build all addresses: those that the adapter opens, and those that it hears."""
        chat_type = ChatType(kind)
        return Address(platform=self.platform, chat_type=chat_type, chat_id=chat, thread_id=thread)

    def _parse(self, text: str) -> base.Inbound | None:
        """Return the update as an Inbound, or None if it is malformed or a bot wrote it."""
        try:
            update = msgspec.json.decode(text, type=Update)
        except (msgspec.MsgspecError, RecursionError):
            return None
        inbound = base.Inbound(
            kind=base.InboundKind.MESSAGE,
            update_id=str(update.id),
            address=self._address(update.chat, update.kind, update.thread),
            sender=Sender(platform=self.platform, user_id=update.user, name=update.name),
            text=update.text,
            message_id=update.message,
        )
        return None if update.bot else inbound

    async def _call(self, method: str, *, seconds: float = 0.0, **fields: object) -> Answer:
        """Call SmallChat, or raise DeliveryFailed. The call may take `seconds` longer."""
        if self._http is None:
            raise ConnectFailed(platform=self.platform, reason="it is not connected")
        body = msgspec.json.encode({**fields, "seconds": seconds})
        try:
            response = await self._http.post(method, content=body, timeout=self._silence + seconds)
            answer = msgspec.json.decode(response.content, type=Answer)
        except httpx2.ConnectError as error:
            raise self._failed("no connection can be made", retry=True) from error
        except (httpx2.HTTPError, msgspec.MsgspecError) as error:
            raise self._failed("it gave no valid answer", retry=True, arrived=True) from error
        if response.is_success:
            return answer
        broken, busy = response.status_code >= 500, response.status_code == 429
        raise self._failed(answer.error, retry=broken or busy, after=answer.after, arrived=broken)

    def _failed(self, reason: str, **fields: Any) -> DeliveryFailed:
        return DeliveryFailed(platform=self.platform, reason=reason, **fields)

    # What SmallChat does not have

    async def _unable(self, *_: Any, **__: Any) -> NoReturn:
        raise self._failed("it can only send text")

    edit = send_file = fetch = typing = preview = _unable

    def acknowledge(self, press: base.Inbound) -> None: ...

    async def offer(self, menu: Sequence[base.MenuEntry]) -> None: ...

    def how_to_address(self, at: Address) -> str:
        return ""

    def previews(self, at: Address) -> bool:
        return False

    async def examine(self, home: Address | None) -> Sequence[base.Finding]:
        return ()

    async def find_chat(self, chat_id: str) -> None:
        return None

    def pairing_link(self, code: str) -> None:
        return None
