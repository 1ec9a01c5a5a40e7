"""The adapter for SmallChat: plain text, threads in groups, and idempotency keys."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from examples.smallchat.wire import Answer, Update
from segue.core.address import Address, ChatType, Platform, Sender
from segue.platforms import http
from segue.platforms.adapter import RemoteAdapter
from segue.platforms.base import Adapter, Button, Capabilities, Inbound, InboundKind, Receipt
from segue.platforms.errors import Failures, Refused, parsed
from segue.platforms.spec import PlatformSettings

POLL_SECONDS = 20.0


def make(settings: PlatformSettings) -> Adapter:
    """Create the adapter. The setting `platforms.PLATFORM.adapter` names this function."""
    return SmallChatAdapter(settings.platform, settings.value("url"), settings.value("token"))


class Client:
    """Calls SmallChat with one token. Raises only Refused and Lost."""

    def __init__(self, url: str, token: str, silence: float) -> None:
        self._url = url
        headers = http.bearer(token)
        self._http = http.HttpClient(
            silence=silence, secret=token, headers=headers, refusal=_refused
        )
        self.close = self._http.close

    async def call(self, method: str, seconds: float = 0.0, **fields: object) -> Answer:
        """Return the answer. SmallChat may take `seconds` longer than usual for it."""
        url, body = f"{self._url}/{method}", http.encode({**fields, "seconds": seconds})
        wait = seconds + self._http.silence
        return http.decode(
            await self._http.request("POST", url, content=body, seconds=wait), Answer
        )


def _refused(status: int, body: bytes) -> Refused:
    answer = http.decode(body, Answer)
    return Refused(status, answer.error, after=answer.after)


class SmallChatAdapter(RemoteAdapter[Client]):
    capabilities = Capabilities(threads=True, keys=True, length=2000)
    title_length = 80

    def __init__(self, platform: Platform, url: str, token: str, *, silence: float = 10.0) -> None:
        """`silence` is how many seconds a call waits for an answer before it counts as lost."""
        super().__init__(Failures(platform))
        self.platform = platform
        self._make = lambda: Client(url, token, silence)
        self._last: int | None = None

    async def _greet(self, client: Client) -> None:
        self.account = (await client.call("me")).id

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        while True:
            with self.failures.connecting():
                batch = await self.client.call("updates", POLL_SECONDS, after=self._last)
            yield None
            for update in batch.updates:
                if (inbound := self._parse(update)) is not None:
                    yield inbound
            # Only now are all of them recorded. The next poll confirms them.
            self._last = batch.last

    async def _send(
        self, to: Address, text: str, *, markup: bool, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        sent = await self.client.call(
            "post", chat=to.chat_id, thread=to.thread_id, text=text, key=key
        )
        return Receipt(sent.id)

    async def _open_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        if home.chat_type is ChatType.DM:
            return None
        opened = await self.client.call("open", chat=home.chat_id, title=title, key=key)
        return self._address(home.chat_id, home.chat_type, opened.id)

    def _address(self, chat: str, kind: str, thread: str | None) -> Address:
        """Build all addresses: those that the adapter opens, and those that it hears."""
        return Address(
            platform=self.platform, chat_type=ChatType(kind), chat_id=chat, thread_id=thread
        )

    def _parse(self, text: str) -> Inbound | None:
        """Return the update as an Inbound, or None if it is malformed or a bot wrote it."""
        if (update := parsed(text, Update)) is None:
            return None
        inbound = Inbound(
            kind=InboundKind.MESSAGE,
            update_id=str(update.id),
            address=self._address(update.chat, update.kind, update.thread),
            sender=Sender(platform=self.platform, user_id=update.user, name=update.name),
            text=update.text,
            message_id=update.message,
        )
        return None if update.bot else inbound
