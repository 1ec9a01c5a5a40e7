"""The Signal adapter: receiving, sending, chats, and the checks of the setup."""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

from segue.core.address import (
    Address,
    Audience,
    ChatType,
    HomeChannel,
    Platform,
    Sender,
    listed_audience,
)
from segue.platforms import base, sending
from segue.platforms.adapter import RemoteAdapter
from segue.platforms.base import Button, Finding, Inbound, Receipt, Upload
from segue.platforms.errors import Lost, Refused, tolerating_absence
from segue.platforms.markup import dialects
from segue.platforms.signal.client import FAILURES, SendAnswer, SignalClient, SignalEntry
from segue.platforms.signal.spec import COMMAND, GET, SIGNAL, UPLOADS
from segue.platforms.signal.updates import NAME, Parser, address
from segue.platforms.spec import PlatformSettings
from segue.platforms.updates import Recent

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
    keeps=timedelta(days=30),  # Signal publishes no time; its server drops older ones
    attachment_bytes=50 * 1024 * 1024,
    upload_bytes=UPLOADS.most,
)
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+")
_UNREGISTERED = "UNREGISTERED_FAILURE"
"""The result for a recipient who left Signal, who is no owner that waits for an answer."""
_QUIET_SECONDS = 0.5
"""If no event comes for so long after a connection, all waiting events have come."""
NO_ACCOUNT = Finding(
    False,
    "signal-cli does not have the account: it is not linked, or the phone removed it.",
    "Type `segue setup signal`, and scan the code with your phone.",
    vital=True,
)
_TRUST = "Compare it on both phones, then type `signal-cli -a {} trust -v SAFETY_NUMBER {}`."


class SignalAdapter(RemoteAdapter[SignalClient]):
    """The adapter of one account of a signal-cli daemon."""

    platform = Platform.SIGNAL
    capabilities = CAPABILITIES
    no_account = NO_ACCOUNT
    mention = NAME

    def __init__(self, number: str, url: str = "", *, silence: float = 30.0) -> None:
        """`silence` is the timeout in seconds after which a call counts as lost."""
        super().__init__(FAILURES)
        self._make = partial(SignalClient, number, url, silence)
        # Each edit gives a message a new timestamp. Clients drop an edit of an older version.
        self._newest = Recent[str, int]()
        self._sent = Recent[int, str]()
        self._parser = Parser(self._sent)
        self._acknowledged = ""
        self._is_behind = True
        self._wanted: base.Wanted | None = None

    async def _greet(self, client: SignalClient) -> None:
        await client.version()
        await client.find_account()
        self.account = client.account
        self._parser.account = client.account
        self._parser.is_only_account = client.is_only_account
        await client.events.open()
        self._is_behind = True

    # Inbound

    @property
    def is_caught_up(self) -> bool:
        return not self._is_behind

    def remember(
        self,
        recorded: Mapping[Address, str],
        *,
        contact: datetime | None = None,
        wanted: base.Wanted | None = None,
    ) -> None:
        self._wanted = wanted

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        while True:
            with FAILURES.connecting():
                events = self.client.events
                if self._is_behind:
                    self._is_behind = await events.is_ready(_QUIET_SECONDS)
                data = await events.first()
            inbound = None
            if data:
                inbound = self.containment.parse("event", partial(self._parser.parse, data))
            yield inbound
            events.recorded()
            if inbound is not None and inbound.update_id == self._acknowledged:
                timestamp, user = inbound.update_id.split(" ")
                self._mark_read(timestamp, user)

    def acknowledge(self, press: Inbound) -> None:
        """Mark the message as read once it is recorded: that is how its sender knows."""
        self._acknowledged = press.update_id

    def _mark_read(self, timestamp: str, user: str) -> None:
        read: dict[str, Any] = {"recipient": user, "targetTimestamp": [int(timestamp)]}
        self.connection.in_background(lambda it: it.call("sendReceipt", SendAnswer, **read))

    async def _fetch(self, attachment: base.Attachment) -> bytes:
        return await self.client.call("getAttachment", bytes, "data", id=attachment.id)

    # Outbound

    async def _send(
        self, to: Address, text: str, *, markup: bool, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        return await self._post(to, text)

    async def _edit(
        self, at: Address, receipt: Receipt, text: str, *, markup: bool, buttons: Sequence[Button]
    ) -> None:
        """Edit the newest version. It is not known if another process sent the message, or if the
        outcome of an edit is unknown. The text must then be sent as a new message."""
        newest = self._newest.pop(receipt, None)
        if newest is None:
            raise Refused(400, "its newest version is not known, so clients would drop the edit")
        try:
            await self._post(at, text, receipt, editTimestamp=newest)
        except (Refused, Lost) as error:
            if not error.arrived:
                self._newest[receipt] = newest
            raise

    async def _upload(
        self, to: Address, file: Upload, caption: str, *, markup: bool, key: str
    ) -> Receipt:
        receipt = await self._post(to, caption, attachment=[_data_uri(file)])
        del self._newest[receipt]  # it is not known whether clients keep the file after an edit
        return receipt

    async def _post(self, to: Address, text: str, message: str = "", **more: Any) -> Receipt:
        """Send a message, or a new version of `message`. Return only if every owner gets it."""
        styles = [f"{start}:{size}:{style}" for style, start, size in dialects.ranges(text)]
        sent = await self.client.call(
            "send",
            SendAnswer,
            message=dialects.without_marks(text) or None,
            textStyle=styles or None,
            **_target(to),
            **more,
        )
        receipt = Receipt(message or str(sent.timestamp))
        self._sent[sent.timestamp] = receipt
        await self._check_owners(to, sent)
        self._newest[receipt] = sent.timestamp
        return receipt

    async def _check_owners(self, to: Address, sent: SendAnswer) -> None:
        """Raise DeliveryFailed if an owner did not get a message that other members of the group
        got. It is not sent again, because those would get it twice."""
        failed = [it for it in sent.results if it.type != "SUCCESS"]
        if not failed:
            return
        reasons = sorted({it.type for it in failed})
        logger.warning("message not for all members address=%s reasons=%s", to, reasons)
        missed = [it for it in failed if it.type != _UNREGISTERED and await self._is_owner(it)]
        if missed:
            why = self.client.missed(missed)
            reason = f"{why.reason}. Other members got it"
            raise FAILURES.undelivered(reason, arrived=why.arrived)

    async def _is_owner(self, result: SignalEntry) -> bool:
        """Whether an owner may be the recipient."""
        recipient = result.recipient_address
        if self._wanted is None or recipient is None or recipient.uuid is None:
            return True
        return await self._wanted(Sender(platform=self.platform, user_id=recipient.uuid), "")

    async def _typing(self, at: Address) -> None:
        await self.client.call("sendTyping", SendAnswer, **_target(at))

    # Chats

    async def _open_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        """There are no threads. Ask for the daemon, so that a handoff fails now if it is gone."""
        await self.client.version()

    async def _find(self, chat_id: str) -> HomeChannel | None:
        """The group with that id, or the chat with the user who has it."""
        if re.fullmatch(SIGNAL.user_ids.pattern, chat_id):
            return HomeChannel(address=address(chat_id, group=False), name="")
        group = await _group(self.client, chat_id)
        if group is None:
            return None
        return HomeChannel(address=address(chat_id, group=True), name=group.name or "")

    async def _audience(self, chat: Address, users: Sequence[str]) -> Audience | None:
        """Who can read a group. Signal groups are never public: a link to one can be made, but
        those who follow it become members."""
        if chat.chat_type is ChatType.DM:
            return None
        group = await _group(self.client, chat.chat_id)
        if group is None:
            return None
        names = {it.uuid for it in group.members} | {it.number for it in group.members}
        readers = {it.uuid or it.number or "" for it in group.members}
        return listed_audience(readers, has_owner=not names.isdisjoint(users), is_public=False)

    # Setup

    async def _checks(self, client: SignalClient, home: Address | None) -> AsyncGenerator[Finding]:
        """Check the daemon, the account, the safety numbers and the home channel."""
        try:
            yield Finding(True, f"signal-cli {await client.version()} answers.")
        except (Refused, Lost) as error:
            text = f"The signal-cli daemon at {client.url} cannot be used: {error.reason}."
            yield Finding(False, text, f"{GET} Start it: `{COMMAND}`.", vital=True)
            return
        await client.find_account()
        yield Finding(True, f"The account is {client.account}.")
        for identity in await client.call("listIdentities", tuple[SignalEntry, ...]):
            if identity.trust_level == "UNTRUSTED":
                user = identity.number or identity.uuid or "USER"
                text = f"The safety number of {user} changed, so nothing is sent there."
                yield Finding(False, text, _TRUST.format(client.account, user))
        if home is not None and home.chat_type is ChatType.GROUP:
            group = await _group(client, home.chat_id)
            if group is None:
                text = "The account is not in the home channel, or has blocked it."
                fix = "Add it to that group, or send /sethome in another chat."
                yield Finding(False, text, fix, vital=True)
            else:
                yield Finding(True, f"The home channel is {group.name}.")


def _target(to: Address) -> dict[str, Any]:
    field = "groupId" if to.chat_type is ChatType.GROUP else "recipient"
    return {field: [to.chat_id]}


def _data_uri(file: Upload) -> str:
    """The file as a `data:` URI with its name."""
    kind = "application/octet-stream"
    if _MEDIA_TYPE.fullmatch(file.media_type):
        kind = file.media_type
    name = quote(sending.file_name(file), safe="")
    data = base64.b64encode(file.data).decode()
    return f"data:{kind};filename={name};base64,{data}"


async def _group(client: SignalClient, name: str) -> SignalEntry | None:
    """The group with that id, if the account can write there."""
    with tolerating_absence():
        found = await client.call("listGroups", tuple[SignalEntry, ...], groupId=[name])
        return next((it for it in found if it.is_member and not it.is_blocked), None)
    return None


def make(settings: PlatformSettings, **more: Any) -> SignalAdapter:
    """Return an unconnected adapter for the account in `settings`. `more` is for tests."""
    return SignalAdapter(settings.value("account"), settings.value("url"), **more)
