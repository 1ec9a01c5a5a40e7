"""Bases of adapters: the defaults for what a platform does not have, and what all platforms on
remote servers do in the same way."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

from segue.core.address import Address, HomeChannel, Platform
from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.core.text import whole
from segue.platforms import diagnostics, sending
from segue.platforms.base import (
    Attachment,
    Button,
    Capabilities,
    Dialect,
    Finding,
    Inbound,
    MenuEntry,
    Part,
    Receipt,
    Upload,
)
from segue.platforms.connection import C, Connection
from segue.platforms.errors import Failures, Refused
from segue.platforms.markup.sizes import size

_NO_EDITS = "messages there cannot be edited"
_NO_FILES = "it takes no files"
_NO_PREVIEWS = "it has no previews"

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Deliver(Protocol[T_co]):
    async def __call__(self, text: str, /, *, markup: bool) -> T_co: ...


class BaseAdapter:
    """The parts of the Adapter protocol that not every platform has.

    An adapter derives from this class, sets the three attributes, and writes `connect`, `close`,
    `receive`, `send`, and what else its platform can do. `segue.platforms.base` documents the
    methods.
    """

    platform: Platform
    capabilities: Capabilities
    account: str = ""

    async def edit(
        self, at: Address, receipt: Receipt, part: Part, *, buttons: Sequence[Button] = ()
    ) -> None:
        raise self._unable(_NO_EDITS)

    async def send_file(self, to: Address, file: Upload, part: Part, *, key: str) -> Receipt:
        raise self._unable(_NO_FILES)

    async def fetch(self, attachment: Attachment) -> bytes:
        raise self._unable(_NO_FILES)

    async def typing(self, at: Address) -> None:
        raise self._unable("it has no typing indicator")

    def previews(self, at: Address) -> bool:
        return False

    async def preview(self, at: Address, part: Part, *, key: str) -> None:
        raise self._unable(_NO_PREVIEWS)

    async def create_handoff_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        return None

    def acknowledge(self, press: Inbound) -> None:
        """Do nothing."""

    def how_to_address(self, at: Address) -> str:
        return ""

    async def offer(self, menu: Sequence[MenuEntry]) -> None:
        """Do nothing."""

    async def examine(self, home: Address | None) -> Sequence[Finding]:
        return ()

    async def find_chat(self, chat_id: str) -> HomeChannel | None:
        return None

    def pairing_link(self, code: str) -> str | None:
        return None

    def _unable(self, reason: str) -> DeliveryFailed:
        return DeliveryFailed(platform=self.platform, reason=reason)


class RemoteAdapter(BaseAdapter, Generic[C]):
    """An adapter for a platform on a remote server, reached through a client C.

    It connects, checks limits, falls back to plain text and translates failures. A derived class
    sets the attributes and writes the calls below, which raise Refused or Lost. Other methods of
    the contract it writes itself, inside `self.failures.connecting()` or `delivering()`.
    """

    caption: int | None = None
    """Length limit of a file's caption. None if it is that of a message."""
    no_account: Finding | None = None
    """The finding for an account that the platform does not accept. None if there are no checks."""

    def __init__(self, failures: Failures) -> None:
        self.failures = failures
        self.connection = Connection[C](failures)

    @property
    def client(self) -> C:
        """The connected client. Raise ConnectFailed if there is none."""
        return self.connection.client

    # The platform's calls

    def _make(self) -> C:
        """Create a client, not yet connected."""
        raise NotImplementedError

    async def _greet(self, client: C) -> None:
        """Make the first calls, and set `account`."""
        raise NotImplementedError

    async def _send(
        self, to: Address, text: str, *, markup: bool, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        """Send a message, with or without markup."""
        raise NotImplementedError

    async def _edit(
        self, at: Address, receipt: Receipt, text: str, *, markup: bool, buttons: Sequence[Button]
    ) -> None:
        raise self._unable(_NO_EDITS)

    async def _upload(
        self, to: Address, file: Upload, caption: str, *, markup: bool, key: str
    ) -> Receipt:
        raise self._unable(_NO_FILES)

    async def _fetch(self, attachment: Attachment) -> bytes:
        raise self._unable(_NO_FILES)

    async def _preview(self, at: Address, text: str, *, markup: bool, key: str) -> None:
        raise self._unable(_NO_PREVIEWS)

    def _checks(self, client: C, home: Address | None) -> AsyncGenerator[Finding]:
        """Check the setup of the account and the home channel."""
        raise NotImplementedError

    def _is_bad_markup(self, refused: Refused) -> bool:
        """Whether the platform rejected the markup, so that plain text may succeed."""
        return False

    def _is_unchanged(self, refused: Refused) -> bool:
        """Whether the platform rejected an edit because it changes nothing."""
        return False

    # The contract

    async def connect(self) -> None:
        await self.connection.connect(self._make, self._greet)

    async def close(self) -> None:
        await self.connection.close()

    async def send(
        self, to: Address, part: Part, *, key: str, buttons: Sequence[Button] = ()
    ) -> Receipt:
        with self.failures.delivering():
            sending.check(part, self.capabilities, buttons)
            send = partial(self._send, to, key=key, buttons=buttons)
            return await self._in_markup(part, send)

    async def edit(
        self, at: Address, receipt: Receipt, part: Part, *, buttons: Sequence[Button] = ()
    ) -> None:
        with self.failures.delivering():
            sending.check(part, self.capabilities, buttons)
            try:
                await self._in_markup(part, partial(self._edit, at, receipt, buttons=buttons))
            except Refused as refused:
                if not self._is_unchanged(refused):
                    raise

    async def send_file(self, to: Address, file: Upload, part: Part, *, key: str) -> Receipt:
        """Send the file with its caption. A text that is too long for one follows as a separate
        message. The receipt is then that message's, because it is what may be edited."""
        with self.failures.delivering():
            sending.check_file(file, part, self.capabilities)
            upload = partial(self._upload, to, file, key=key)
            if self.caption is None or size(part.plain, self.capabilities.unit) <= self.caption:
                return await self._in_markup(part, upload)
            await self._in_markup(Part("", ""), upload)
        try:
            return await self.send(to, part, key=f"{key} text")
        except (DeliveryFailed, ConnectFailed) as error:
            # The file has arrived and must not be sent again.
            reason = f"the file arrived without its text ({error})"
            raise self.failures.undelivered(reason, arrived=True) from error

    async def fetch(self, attachment: Attachment) -> bytes:
        with self.failures.delivering():
            sending.check_attachment(attachment, self.capabilities)
            return await self._fetch(attachment)

    async def preview(self, at: Address, part: Part, *, key: str) -> None:
        with self.failures.delivering():
            sending.check(part, self.capabilities)
            await self._in_markup(part, partial(self._preview, at, key=key))

    async def examine(self, home: Address | None) -> Sequence[Finding]:
        if self.no_account is None:
            return ()
        return await diagnostics.examine(
            self._make,
            lambda client: self._checks(client, home),
            self.failures,
            self.no_account,
        )

    async def _in_markup(self, part: Part, deliver: _Deliver[T]) -> T:
        """Deliver with markup, or as plain text if the platform rejected the markup."""
        if self.capabilities.dialect is not Dialect.PLAIN:
            try:
                return await deliver(whole(part.text), markup=True)
            except Refused as refused:
                if not self._is_bad_markup(refused):
                    raise
        return await deliver(whole(part.plain), markup=False)
