"""The Slack adapter."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any

from segue.core.address import Address, ChatType, HomeChannel, Platform
from segue.core.text import is_empty
from segue.platforms import base, sending
from segue.platforms.adapter import RemoteAdapter
from segue.platforms.backlog import Backlog
from segue.platforms.base import Button, Inbound, Receipt, Upload
from segue.platforms.errors import tolerating_absence
from segue.platforms.markup import escapes
from segue.platforms.names import KnownNames, named
from segue.platforms.sent import SentMessages, stamp
from segue.platforms.slack import account
from segue.platforms.slack.client import FAILURES, SlackClient
from segue.platforms.slack.parser import address, parse, written
from segue.platforms.slack.wire import Me, NewFile, Person, Posted, SlackChannel
from segue.platforms.spec import PlatformSettings

CAPABILITIES = base.Capabilities(
    threads=True,
    edits=True,
    buttons=True,
    typing=True,
    files=True,
    code_files=True,
    length=3000,  # of a section with buttons below it; a message alone takes 4,000
    dialect=base.Dialect.SLACK,
    chat_burst=3,
    edit_seconds=1.2,  # 50 edits a minute
    typing_seconds=60.0,  # Slack shows it for two minutes
    attachment_bytes=100 * 1024 * 1024,
    upload_bytes=100 * 1024 * 1024,
)
INVITATION = "segue_invitation"
"""The metadata's type of a message that mentions the owner. No other mentions anyone."""
_USER = re.compile(r"[UW][A-Z0-9]+")


class SlackAdapter(RemoteAdapter[SlackClient]):
    """The adapter of one app in one workspace."""

    platform = Platform.SLACK
    capabilities = CAPABILITIES
    no_account = account.NO_TOKEN

    def __init__(self, token: str, app_token: str, url: str = "", *, silence: float = 20.0) -> None:
        """`url` is a server in the place of Slack's. `silence` is the timeout in seconds after
        which a call counts as lost."""
        super().__init__(FAILURES)
        self._make = partial(SlackClient, token, app_token, url, silence)
        self._sent = SentMessages()
        self._names = KnownNames(FAILURES)
        self._shows_typing: set[Address] = set()
        self._backlog = Backlog(lambda at: int(at.timestamp() * 10**6), _place)
        self.remember = self._backlog.remember

    async def _greet(self, client: SlackClient) -> None:
        me = await client.call("auth.test", Me)
        self.account, self.mention = me.user_id, f"@{me.user}"
        keys = account.HISTORY.issubset(client.scopes)
        self.capabilities = dataclasses.replace(type(self).capabilities, keys=keys)
        self._sent.forget()
        self._backlog.away()
        await client.socket.open()

    # Inbound

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        async with contextlib.aclosing(self._backlog.receive(FAILURES, self._missed)) as missed:
            async for inbound in missed:
                yield inbound
        while True:
            with FAILURES.connecting():
                socket = self.client.socket
                delivery = await socket.next()
            inbound = delivery and parse(delivery, self.account)
            yield inbound and await self._named(inbound)
            if inbound is not None:  # it is recorded now
                self._backlog.recorded(inbound)
            if delivery is not None:
                await socket.recorded(delivery)

    async def _missed(self, place: str, last: int) -> list[Inbound]:
        """What users wrote while the adapter was away, longer than Slack delivers events again."""
        channel, _, thread = place.partition(" ")
        at, since, found = address(channel, thread), f"{last / 10**6:.6f}", list[Inbound | None]()
        with tolerating_absence():
            history = await self.client.history(at, since) if self.capabilities.keys else ()
            found = [written(channel, it, self.account) for it in history if it.ts > since]
        return [await self._named(it) for it in found if it and it.address == at]

    async def _named(self, inbound: Inbound) -> Inbound:
        """Add the names of the sender and the channel."""
        at, user, call = inbound.address, inbound.sender.user_id, self.client.call
        ask = partial(call, "users.info", Person, "user", user=user)
        person = await self._names.get(user, ask, Person())
        ask = partial(call, "conversations.info", SlackChannel, "channel", channel=at.chat_id)
        channel = await self._names.get(at.chat_id, ask, SlackChannel())
        name = person.profile.display_name or person.profile.real_name or person.name
        chat = "" if channel.is_mpim or not channel.name else f"#{channel.name}"
        return named(inbound, name, chat)

    async def _fetch(self, attachment: base.Attachment) -> bytes:
        return await self.client.fetch(attachment.id, self.capabilities.attachment_bytes)

    # Outbound

    async def _send(
        self, to: Address, text: str, *, markup: bool, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        return Receipt(await self._post(to, key, "segue_message", **_content(text, buttons)))

    async def _post(self, to: Address, key: str, kind: str, **given: Any) -> str:
        """Send a message to the right thread only, and only once. Return its id."""
        if (found := await self._arrived(to, key)) is not None:
            return found
        given |= {"channel": to.chat_id, "thread_ts": to.thread_id}
        given["metadata"] = {"event_type": kind, "event_payload": {"stamp": stamp(key)}}
        given |= {"unfurl_links": False, "unfurl_media": False}
        posted = await self.client.call("chat.postMessage", Posted, **given)
        delete = partial(self.client.do, "chat.delete", channel=to.chat_id, ts=posted.ts)
        await sending.check_thread(to, posted.message.thread_ts, delete, FAILURES)
        self._sent.add(to, key, posted.ts)
        self._backlog.talks(_place(to), posted.ts)
        self._shows_typing.discard(to)
        return posted.ts

    async def _arrived(self, to: Address, key: str) -> str | None:
        """The message that was sent under `key`, if the app may look for it."""
        stamped = self.client.stamped
        return await self._sent.find(stamped, to, key) if self.capabilities.keys else None

    async def _edit(
        self, at: Address, receipt: Receipt, text: str, *, markup: bool, buttons: Sequence[Button]
    ) -> None:
        # Text alone would leave the buttons of the message as they are.
        given = _content(text, buttons, blocks=[])
        await self.client.do("chat.update", channel=at.chat_id, ts=receipt, **given)
        if at in self._shows_typing:  # an edit does not remove it
            self._shows_typing.discard(at)
            self.connection.in_background(lambda client: self._set_status(client, at, ""))

    async def _upload(
        self, to: Address, file: Upload, caption: str, *, markup: bool, key: str
    ) -> Receipt:
        if (found := await self._arrived(to, key)) is not None:
            return Receipt(found)
        name, client = sending.file_name(file), self.client
        new = await client.call(
            "files.getUploadURLExternal", NewFile, filename=name, length=len(file.data)
        )
        await client.upload(new.upload_url, file.data)
        # Files take no metadata, so the stamp is the name of a block.
        text = escapes.html(name) if is_empty(caption) else caption
        await client.do(
            "files.completeUploadExternal",
            files=[{"id": new.file_id, "title": name}],
            channel_id=to.chat_id,
            thread_ts=to.thread_id,
            blocks=[_section(text, block_id=stamp(key))],
        )
        self._shows_typing.discard(to)
        # Slack does not name the message of a file. Without its name, it cannot be edited.
        receipt, appear = f"file {new.file_id}", self._sent.appear
        if self.capabilities.keys:
            receipt = await appear(self._arrived, to, key, FAILURES) or receipt
        return Receipt(receipt)

    async def _typing(self, at: Address) -> None:
        """Only threads can show it."""
        if at.thread_id is not None:
            await self._set_status(self.client, at, "is typing…")
            self._shows_typing.add(at)

    async def _set_status(self, client: SlackClient, at: Address, status: str) -> None:
        given = {"channel_id": at.chat_id, "thread_ts": at.thread_id, "status": status}
        await client.do("assistant.threads.setStatus", **given)

    # Threads and account

    async def _open_thread(self, home: Address, title: str, *, key: str) -> Address:
        """Send a message with the title. The thread is that of the message."""
        text = escapes.html(title)
        root = await self._post(address(home.chat_id), key, "segue_thread", text=text)
        thread = address(home.chat_id, root)
        self._backlog.talks(_place(thread), root)
        return thread

    async def invite(self, thread: Address, users: Sequence[str]) -> None:
        """Mention the users in a thread of a channel: Slack notifies them, and from then on of each
        reply there. A mention in the message that opens the thread would not do that."""
        names = " ".join(f"<@{user}>" for user in users if _USER.fullmatch(user))
        if thread.chat_type is ChatType.DM or not names:
            return
        with FAILURES.delivering():
            text = f"{names} You get a notification for each reply here."
            await self._post(thread, "invite", INVITATION, text=text)

    async def _find(self, chat_id: str) -> HomeChannel | None:
        return await account.find(self.client, chat_id)

    def _checks(self, client: SlackClient, home: Address | None) -> AsyncGenerator[base.Finding]:
        return account.checks(client, home)


def _place(at: Address) -> str:
    return f"{at.chat_id} {at.thread_id or ''}"


def _content(text: str, buttons: Sequence[Button], **more: Any) -> dict[str, Any]:
    if not buttons:
        return {**more, "text": text}
    rows = [[_button(button) for button in row] for row in sending.rows(buttons)]
    actions = [{"type": "actions", "elements": row} for row in rows]
    return {"text": text, "blocks": [_section(text), *actions]}


def _section(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}, **more}


def _button(button: Button) -> dict[str, Any]:
    label = {"type": "plain_text", "text": button.label[:75]}
    return {"type": "button", "text": label, "value": button.data, "action_id": button.data}


def make(settings: PlatformSettings) -> SlackAdapter:
    """Return an unconnected adapter for the app in `settings`."""
    tokens = settings.value("token"), settings.value("app_token")
    return SlackAdapter(*tokens, settings.value("url"))
