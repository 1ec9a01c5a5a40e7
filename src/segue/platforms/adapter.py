"""Bases of adapters: the defaults for what a platform does not have, and what all platforms on
remote servers do in the same way. At the end is the adapter of a platform that cannot be used."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from segue.core.address import Address, Audience, ChatType, HomeChannel, Platform
from segue.core.errors import ConnectFailed, DeliveryFailed, SetupNeeded
from segue.core.text import whole
from segue.platforms import sending
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
    Wanted,
)
from segue.platforms.connection import C, Connection, examine
from segue.platforms.errors import Failures, Refused
from segue.platforms.markup.splitter import size
from segue.platforms.updates import Containment

logger = logging.getLogger(__name__)

_NO_EDITS = "messages there cannot be edited"
_NO_FILES = "it takes no files"
_NO_PREVIEWS = "it has no previews"
_NO_TYPING = "it has no typing indicator"

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Deliver(Protocol[T_co]):
    async def __call__(self, text: str, /, *, markup: bool) -> T_co: ...


class MarkedText(str):
    """Text in the platform's markup, together with the plain text, for a platform that takes
    both."""

    __slots__ = ("plain",)
    plain: str

    def __new__(cls, part: Part) -> MarkedText:
        made = super().__new__(cls, whole(part.text))
        made.plain = whole(part.plain)
        return made


class BaseAdapter:
    """The parts of the Adapter protocol that not every platform has.

    An adapter derives from this class, sets the three attributes, and writes `connect`, `close`,
    `receive`, `send`, and what else its platform can do. `segue.platforms.base` documents the
    methods.
    """

    platform: Platform
    capabilities: Capabilities
    account: str = ""

    @property
    def remark(self) -> str:
        return ""

    @property
    def is_caught_up(self) -> bool:
        return True

    async def edit(
        self, at: Address, receipt: Receipt, part: Part, *, buttons: Sequence[Button] = ()
    ) -> None:
        raise self._unable(_NO_EDITS)

    async def send_file(self, to: Address, file: Upload, part: Part, *, key: str) -> Receipt:
        raise self._unable(_NO_FILES)

    async def fetch(self, attachment: Attachment) -> bytes:
        raise self._unable(_NO_FILES)

    async def typing(self, at: Address) -> None:
        raise self._unable(_NO_TYPING)

    def trusts_reactions(self, at: Address) -> bool:
        return True

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

    async def invite(self, thread: Address, users: Sequence[str], *, key: str) -> None:
        """Do nothing."""

    def remember(
        self,
        recorded: Mapping[Address, str],
        *,
        contact: datetime | None = None,
        wanted: Wanted | None = None,
    ) -> None:
        """Do nothing."""

    async def offer(self, menu: Sequence[MenuEntry]) -> None:
        """Do nothing."""

    async def examine(self, home: Address | None) -> Sequence[Finding]:
        return ()

    async def find_chat(self, chat_id: str) -> HomeChannel | None:
        return None

    async def audience(self, chat: Address, users: Sequence[str]) -> Audience | None:
        return None

    async def find_user(self, user_id: str) -> bool | None:
        return None

    def pairing_link(self, code: str) -> str | None:
        return None

    def _unable(self, reason: str) -> DeliveryFailed:
        return DeliveryFailed(platform=self.platform, reason=reason)


class RemoteAdapter(BaseAdapter, Generic[C]):
    """An adapter for a platform on a remote server, reached through a client C.

    It connects, checks limits, follows chats that move, falls back to plain text and translates
    failures. A derived class sets the attributes and writes the calls below, which raise Refused or
    Lost. Other methods of the contract it writes itself, inside `self.failures.connecting()` or
    `delivering()`.
    """

    caption: int | None = None
    """Length limit of a file's caption. None if it is that of a message."""
    no_account: Finding | None = None
    """The finding for an account that the platform does not accept. None if there are no checks."""
    mention: str = ""
    """What users write to address the bot in a group. Known once connected; empty if they need
    not."""
    takes_both: bool = False
    """A message has its text in markup and without it: `_send` gets a MarkedText."""
    title_length: int = 128
    """Length limit of a thread's title."""
    command: re.Pattern[str] = re.compile(r"[a-z0-9_]{1,32}")
    """What a command in the menu can be called."""
    help_length: int = 100
    """Length limit of a command's help."""

    def __init__(self, failures: Failures) -> None:
        self.failures = failures
        self.connection = Connection[C](failures)
        self.containment = Containment(failures)
        self.moves = sending.Moves()
        self._skipped = 0

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

    async def _open_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        """Open a thread. `title` fits."""
        return None

    async def _preview(self, at: Address, text: str, *, markup: bool, key: str) -> None:
        raise self._unable(_NO_PREVIEWS)

    async def _typing(self, at: Address) -> None:
        raise self._unable(_NO_TYPING)

    async def _set_menu(self, menu: Sequence[MenuEntry]) -> None:
        """Set the command menu if it differs. The platform accepts all of its entries."""

    async def _find(self, chat_id: str) -> HomeChannel | None:
        """The chat with that id or name, or None if the bot is not in it."""
        return None

    async def _audience(self, chat: Address, users: Sequence[str]) -> Audience | None:
        """Who can read a chat that may have other readers than the owner. None if the platform does
        not say."""
        return None

    async def _has_user(self, client: C, user_id: str) -> bool | None:
        """Whether there is a user with that id, or None if the platform does not say. The client
        may not be connected."""
        return None

    def _checks(self, client: C, home: Address | None) -> AsyncGenerator[Finding]:
        """Check the setup of the account and the home channel."""
        raise NotImplementedError

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
            send = partial(self._send, key=key, buttons=buttons)
            return await self.moves.follow(to, lambda at: self._in_markup(part, partial(send, at)))

    async def edit(
        self, at: Address, receipt: Receipt, part: Part, *, buttons: Sequence[Button] = ()
    ) -> None:
        with self.failures.delivering():
            sending.check(part, self.capabilities, buttons)
            try:
                await self._in_markup(part, partial(self._edit, at, receipt, buttons=buttons))
            except Refused as refused:
                if not refused.says(self.failures.unchanged):
                    raise

    async def send_file(self, to: Address, file: Upload, part: Part, *, key: str) -> Receipt:
        """Send the file with its caption. A text that is too long for one follows as a separate
        message. The receipt is then that message's, because it is what may be edited."""
        length = size(part.plain, self.capabilities.unit)
        fits = self.caption is None or length <= self.caption
        caption = part if fits else Part("", "")
        with self.failures.delivering():
            sending.check_file(file, part, self.capabilities)
            receipt = await self.moves.follow(
                to, lambda at: self._in_markup(caption, partial(self._upload, at, file, key=key))
            )
        if fits:
            return receipt
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

    async def typing(self, at: Address) -> None:
        with self.failures.delivering():
            await self._typing(at)

    async def offer(self, menu: Sequence[MenuEntry]) -> None:
        accepted = sending.menu(menu, name=self.command, help_length=self.help_length)
        with self.failures.delivering():
            await self._set_menu(accepted)

    async def find_chat(self, chat_id: str) -> HomeChannel | None:
        with self.failures.connecting():
            return await self._find(chat_id.strip())

    async def audience(self, chat: Address, users: Sequence[str]) -> Audience | None:
        with self.failures.delivering():
            return await self._audience(self.moves.now(chat), users)

    async def find_user(self, user_id: str) -> bool | None:
        with self.failures.connecting():
            client = self._make()
            try:
                return await self._has_user(client, user_id.strip())
            finally:
                await client.close()

    async def create_handoff_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        """Never retried: if the response is lost, the thread may already exist."""
        name = sending.title(title, self.title_length, self.capabilities.unit)
        with self.failures.delivering():
            try:
                return await self.moves.follow(
                    home, partial(self._open_thread, title=name, key=key)
                )
            except Refused as refused:
                if not any(rule.matches(refused) for rule in self.failures.no_threads):
                    raise
        moved_to = self.moves.now(home)
        return None if moved_to == home else moved_to

    def how_to_address(self, at: Address) -> str:
        if not self.mention or at.chat_type is ChatType.DM or at.thread_id is not None:
            return ""
        return (
            "In this group I answer what is meant for me: reply to a message of mine, or begin"
            f" yours with `{self.mention}`."
        )

    async def examine(self, home: Address | None) -> Sequence[Finding]:
        if self.no_account is None:
            return ()
        check = partial(self._checks, home=home)
        return await examine(self._make, check, self.failures, self.no_account)

    def _skip(self, updates: Sequence[object]) -> None:
        """Log updates that are skipped because they could not be parsed, by their ids."""
        if updates:
            self._skipped += len(updates)
            ids = ", ".join(map(str, updates))
            log = "updates skipped platform=%s ids=%s total=%d"
            logger.warning(log, self.platform, ids, self._skipped)

    async def _in_markup(self, part: Part, deliver: Deliver[T]) -> T:
        """Deliver with markup, or as plain text if the platform rejects the markup."""
        if self.capabilities.dialect is not Dialect.PLAIN:
            try:
                text = MarkedText(part) if self.takes_both else whole(part.text)
                return await deliver(text, markup=True)
            except Refused as refused:
                if not refused.says(self.failures.bad_markup):
                    raise
        return await deliver(whole(part.plain), markup=False)


class UnavailableAdapter(BaseAdapter):
    """Takes the place of an adapter that could not be created, so that the user can read why. The
    other platforms keep working."""

    capabilities = Capabilities()

    def __init__(self, platform: Platform, reason: str) -> None:
        self.platform = platform
        self._reason = reason

    async def connect(self, *_: Any, **__: Any) -> NoReturn:
        raise SetupNeeded(platform=self.platform, reason=self._reason)

    send = connect
    edit = connect
    send_file = connect
    preview = connect
    typing = connect
    fetch = connect
    create_handoff_thread = connect
    offer = connect
    examine = connect
    find_chat = connect
    find_user = connect
    audience = connect

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        await self.connect()
        yield  # pyright: ignore[reportUnreachable]

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""
