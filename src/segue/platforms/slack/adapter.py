"""The Slack adapter: receiving, sending, streams, threads, channels, and checks of the setup."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from segue.core.address import (
    Address,
    Audience,
    ChatType,
    HomeChannel,
    Platform,
    Sender,
    listed_audience,
)
from segue.core.text import is_empty
from segue.platforms import base, sending
from segue.platforms.adapter import RemoteAdapter
from segue.platforms.backlog import Backlog, BacklogPage
from segue.platforms.base import Button, Finding, Inbound, Receipt, Upload
from segue.platforms.connection import check
from segue.platforms.errors import Refused
from segue.platforms.markup import dialects
from segue.platforms.slack import messages
from segue.platforms.slack.client import (
    FAILURES,
    HistoryMessage,
    Me,
    MemberPage,
    NewFile,
    Posted,
    SlackChannel,
    SlackClient,
)
from segue.platforms.slack.messages import SentMessages, Streams, stamp
from segue.platforms.slack.socket import EnvelopeDelivery
from segue.platforms.slack.spec import MANIFEST, UPLOADS
from segue.platforms.slack.updates import Scope, SlackNames, address, deleted_thread, parse, written
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
    preview_dialect=base.Dialect.SOURCE,
    typing_seconds=60.0,  # Slack shows it for two minutes
    attachment_bytes=100 * 1024 * 1024,
    upload_bytes=UPLOADS.most,
)
INVITATION = "segue_invitation"
"""The metadata's type of a message that mentions the owner. No other mentions anyone."""
_SCOPES = frozenset[str](json.loads(MANIFEST)["oauth_config"]["scopes"]["bot"])
HISTORY = frozenset(scope for scope in _SCOPES if scope.endswith(":history"))
"""With these scopes, messages can be found by our stamps."""
_PAGE = 1000
_MOST_PAGES = 5
_OPEN = "Open your app at https://api.slack.com/apps,"
NO_TOKEN = Finding(
    False,
    "Slack does not accept the bot token.",
    f"{_OPEN} copy the Bot User OAuth Token under Permissions, and type `segue setup slack`.",
    vital=True,
)
_GENERATE = (
    f"{_OPEN} generate an app-level token with the scope connections:write under Basic "
    "Information, and type `segue setup slack`."
)
_ADD = f"{_OPEN} add them under OAuth & Permissions, and press Reinstall to Workspace there."
_INVITE = "Write `/invite @{}` in that channel, or send /sethome in another chat."


class SlackAdapter(RemoteAdapter[SlackClient]):
    """The adapter of one app in one workspace."""

    platform = Platform.SLACK
    capabilities = CAPABILITIES
    no_account = NO_TOKEN

    def __init__(self, token: str, app_token: str, url: str = "", *, silence: float = 20.0) -> None:
        """`url` is a server in the place of Slack's. `silence` is the timeout in seconds after
        which a call counts as lost."""
        super().__init__(FAILURES)
        self._make = partial(SlackClient, token, app_token, url, silence)
        self._me = Me(user_id="")
        self._sent = SentMessages()
        self._names = SlackNames(lambda: self.client)
        self._shows_typing: set[Address] = set()
        self._streams = Streams(
            self._start,
            self._call_on,
            self.connection.in_background,
        )
        self._backlog = Backlog(FAILURES, _id_at, _time_of)

    async def _greet(self, client: SlackClient) -> None:
        me = await client.call("auth.test", Me)
        self._me = me
        self.account = me.user_id
        self.mention = f"@{me.user}"
        keys = HISTORY.issubset(client.scopes)
        self.capabilities = dataclasses.replace(type(self).capabilities, keys=keys)
        self._sent.invalidate_all()
        self._backlog.away()
        await client.socket.open()

    # Inbound

    @property
    def is_caught_up(self) -> bool:
        return self._backlog.is_read

    def remember(
        self,
        recorded: Mapping[Address, str],
        *,
        contact: datetime | None = None,
        wanted: base.Wanted | None = None,
    ) -> None:
        # The threads of a direct message, even new ones, are found in its history.
        known = {address(it.chat_id): "" for it in recorded if it.chat_type is ChatType.DM}
        known.update(recorded)
        self._backlog.remember(known, contact=contact, wanted=wanted)

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        read = self._backlog.receive(self._page, self._add_names, _is_thread)
        async with contextlib.aclosing(read) as missed:
            async for inbound in missed:
                yield inbound
        while True:
            with FAILURES.connecting():
                socket = self.client.socket
                delivery = await socket.next()
            if delivery is None:
                yield None
                continue
            deleted = deleted_thread(delivery.envelope)
            if deleted is not None:
                self._sent.invalidate(deleted)  # a reply would land in the channel
            inbound = self._parse(delivery)
            if inbound is not None and await self._backlog.wants(inbound):
                inbound = await self._add_names(inbound)
            yield inbound
            if inbound is not None:  # it is recorded now
                await self._backlog.arrived(inbound)
            await socket.recorded(delivery)

    async def _page(self, at: Address, last: int, begin: str) -> BacklogPage[Inbound]:
        """A page of the messages of an absence that was so long that Slack does not deliver their
        events any more. Of a channel, the newest comes first, of a thread the oldest."""
        if not self.capabilities.keys:  # the app may not read
            return BacklogPage(found=(), size=0)
        since = f"{last / 10**6:.6f}"
        page = await self.client.history(at, since, begin)
        # The message that began a thread is always there.
        new = [it for it in page.messages if it.ts > since]
        scope = Scope(self._me, is_shared=await self._might_be_shared(at, new))
        if not _is_thread(at):
            new.reverse()
            roots = new if begin else [*new, *await self._roots(at)]
            await self._discover(at, last, roots, scope)
        found = [written(at.chat_id, it, scope) for it in new]
        return BacklogPage(
            found=[it for it in found if it is not None and it.address == at],
            size=page.size,
            edge=_time_of(new[-1].number) if new else None,
            newest=max((it.number for it in new), default=0),
            next=page.next,
        )

    async def _might_be_shared(self, at: Address, messages: Sequence[HistoryMessage]) -> bool:
        """Whether some of these messages might be from other organisations, although Slack names no
        workspace for them."""
        if all(it.author_team or it.bot_id or it.is_tombstone for it in messages):
            return False
        try:
            channel = await self.client.channel(at.chat_id)
        except Refused as refused:
            if refused.status != 400:
                raise
            return True  # the app may not ask
        return channel.is_ext_shared

    async def _roots(self, at: Address) -> list[HistoryMessage]:
        """The last messages of a direct message: threads may go on under old ones."""
        if at.chat_type is not ChatType.DM:
            return []
        page = await self.client.history(at, "0")
        return page.messages

    async def _discover(
        self, at: Address, last: int, roots: Sequence[HistoryMessage], scope: Scope
    ) -> None:
        """Also read the threads that go on under these messages, if the bot or an owner began them,
        or in a direct message. Threads of others cause no calls."""
        since = f"{last / 10**6:.6f}"
        for root in roots:
            if (root.latest_reply or "") <= since:
                continue
            is_wanted = at.chat_type is ChatType.DM or root.user == self.account
            author = scope.member(root.user, root.author_team)
            if author is not None and not is_wanted:
                by = Sender(platform=Platform.SLACK, user_id=author)
                is_wanted = await self._backlog.is_wanted(by)
            if is_wanted:
                self._backlog.discover(address(at.chat_id, root.ts), last)

    def _parse(self, delivery: EnvelopeDelivery) -> Inbound | None:
        envelope = delivery.envelope
        work = partial(parse, envelope, delivery.at, self._me)
        return self.containment.parse(envelope.envelope_id, work)

    async def _add_names(self, inbound: Inbound) -> Inbound:
        return await self._names.add(inbound, self._me)

    async def _fetch(self, attachment: base.Attachment) -> bytes:
        return await self.client.fetch(attachment.id, self.capabilities.attachment_bytes)

    # Outbound

    async def _send(
        self, to: Address, text: str, *, markup: bool, key: str, buttons: Sequence[Button]
    ) -> Receipt:
        given = messages.content(text, buttons)
        posted = await self._post(to, key, "segue_message", **given)
        return Receipt(posted)

    async def _post(self, to: Address, key: str, kind: str, **given: Any) -> str:
        """Send a message to the right thread only, and only once. Return its id."""
        found = await self._arrived(to, key)
        if found is not None:
            return found
        given["metadata"] = {"event_type": kind, "event_payload": {"stamp": stamp(key)}}
        stream = self._streams.pop(to)
        if stream is not None and await self._end_as_message(to, stream, given):
            self._sent.add(to, key, stream)
            return stream
        given |= {"channel": to.chat_id, "thread_ts": to.thread_id}
        given |= {"unfurl_links": False, "unfurl_media": False}
        posted = await self.client.call("chat.postMessage", Posted, **given)
        delete = partial(self._call_on, to, posted.ts, "chat.delete")
        await sending.check_thread(to, posted.message.thread_ts, delete, FAILURES)
        self._sent.add(to, key, posted.ts)
        self._backlog.follow(to, posted.ts)
        self._shows_typing.discard(to)
        return posted.ts

    async def _end_as_message(self, to: Address, stream: str, given: dict[str, Any]) -> bool:
        """Turn a stream into a message with these arguments. If that is impossible, delete the
        stream and return False."""
        if "://" in given["text"]:
            # A link might get a preview, which no argument of an edit forbids.
            return await self._streams.end(to, stream)
        edit = partial(self._update, to, stream, **{"blocks": [], **given})
        return await self._streams.end(to, stream, edit)

    async def _arrived(self, to: Address, key: str) -> str | None:
        """The message that was sent under `key`, if the app may search for it."""
        if not self.capabilities.keys:
            return None
        return await self._sent.find(self._search, to, key)

    async def _search(self, at: Address) -> dict[str, str]:
        """Find our messages by their stamps, and delete unfinished streams."""
        found, streams = await self.client.stamped(at, self.account)
        for stream in streams.difference({self._streams.get(at)}):
            await self._streams.end(at, stream)
        return found

    async def _edit(
        self, at: Address, receipt: Receipt, text: str, *, markup: bool, buttons: Sequence[Button]
    ) -> None:
        # Text alone would leave the buttons of the message as they are.
        given: dict[str, Any] = {"blocks": [], **messages.content(text, buttons)}
        await self._update(at, receipt, **given)

    async def _update(self, at: Address, message: str, **given: Any) -> None:
        await self._call_on(at, message, "chat.update", **given)
        if at in self._shows_typing:  # an edit does not remove it
            self._shows_typing.discard(at)
            self.connection.in_background(lambda client: self._set_status(client, at, ""))

    async def _call_on(self, at: Address, message: str, method: str, **given: Any) -> bool:
        return await self.client.do(method, channel=at.chat_id, ts=message, **given)

    async def _upload(
        self, to: Address, file: Upload, caption: str, *, markup: bool, key: str
    ) -> Receipt:
        stream = self._streams.pop(to)
        if stream is not None:
            await self._streams.end(to, stream)
        found = await self._arrived(to, key)
        if found is not None:
            return Receipt(found)
        client = self.client
        name = sending.file_name(file)
        given: dict[str, Any] = {"filename": name, "length": len(file.data)}
        new = await client.call("files.getUploadURLExternal", NewFile, **given)
        await client.upload(new.upload_url, file.data)
        # Files take no metadata, so the stamp is the name of a block.
        text = dialects.html(name) if is_empty(caption) else caption
        await client.do(
            "files.completeUploadExternal",
            channel_id=to.chat_id,
            thread_ts=to.thread_id,
            files=[{"id": new.file_id, "title": name}],
            blocks=[messages.section(text, block_id=stamp(key))],
        )
        self._shows_typing.discard(to)
        # Slack does not name the message of a file, and without its name it cannot be edited.
        if self.capabilities.keys:
            message = await self._sent.appear(self._arrived, to, key, FAILURES)
            if message is not None:
                return Receipt(message)
            if to.thread_id is not None:
                await self._check_upload(to, key)
        return Receipt(f"file {new.file_id}")

    async def _check_upload(self, to: Address, key: str) -> None:
        """Delete a file that landed in the channel, because its thread was deleted before Slack
        posted it, and raise DeliveryFailed."""
        chat = address(to.chat_id)
        found, _ = await self.client.stamped(chat, self.account)
        outside = found.get(stamp(key))
        if outside is not None:
            delete = partial(self._call_on, chat, outside, "chat.delete")
            await sending.check_thread(to, None, delete, FAILURES)

    # Streams

    def previews(self, at: Address) -> bool:
        """In channels, a stream has only one recipient, and some channels take none."""
        is_direct_thread = at.chat_type is ChatType.DM and at.thread_id is not None
        return is_direct_thread and self.capabilities.keys and self._streams.is_able(at)

    async def _preview(self, at: Address, text: str, *, markup: bool, key: str) -> None:
        await self._streams.show(at, messages.inert(text.removesuffix(" …")))

    async def _start(self, at: Address, text: str) -> str:
        self._sent.invalidate(at)
        await self._search(at)  # fails without the thread, and deletes unfinished streams
        given: dict[str, Any] = {"thread_ts": at.thread_id, "markdown_text": text}
        started = await self.client.call("chat.startStream", Posted, channel=at.chat_id, **given)
        self._sent.add(at, f"stream {started.ts}", started.ts)
        self._shows_typing.discard(at)
        return started.ts

    async def _typing(self, at: Address) -> None:
        """Only threads can show it."""
        if at.thread_id is not None:
            await self._set_status(self.client, at, "is typing…")
            self._shows_typing.add(at)

    async def _set_status(self, client: SlackClient, at: Address, status: str) -> None:
        given = {"channel_id": at.chat_id, "thread_ts": at.thread_id, "status": status}
        await client.do("assistant.threads.setStatus", **given)

    # Threads

    async def _open_thread(self, home: Address, title: str, *, key: str) -> Address:
        """Send a message with the title. The thread is that of the message."""
        text = dialects.html(title)
        root = await self._post(address(home.chat_id), key, "segue_thread", text=text)
        thread = address(home.chat_id, root)
        self._backlog.follow(thread, root)
        return thread

    async def invite(self, thread: Address, users: Sequence[str], *, key: str) -> None:
        """Mention the users in a thread of a channel: Slack notifies them, and from then on of each
        reply there. A mention in the message that opens the thread would not do that. They are
        mentioned once for each key: Slack does not say who has stopped following a thread."""
        names = messages.mention(users)
        if thread.chat_type is ChatType.DM or not names:
            return
        with FAILURES.delivering():
            text = f"{names} You get a notification for each reply here."
            await self._post(thread, f"invite {key}", INVITATION, text=text)

    # Chats and users

    async def _find(self, chat_id: str) -> HomeChannel | None:
        """The channel with that id, if the app can write there."""
        channel = await _channel(self.client, chat_id)
        if not _is_usable(channel):
            return None
        return HomeChannel(address=address(channel.id), name=channel.name)

    async def _has_user(self, client: SlackClient, user_id: str) -> bool | None:
        """Whether the workspace has that user. None if the app may not ask."""
        try:
            await client.do("users.info", user=user_id)
        except Refused as refused:
            if refused.code in ("missing_scope", "user_not_visible"):
                return None
            if refused.code != "user_not_found":
                raise
            return False
        return True

    async def _audience(self, chat: Address, users: Sequence[str]) -> Audience | None:
        """Who can read a channel. None without the scopes to see that."""
        try:
            channel = await self.client.channel(chat.chat_id)
            if channel.is_im:
                return None
            members = await _members(self.client, channel.id)
        except Refused as refused:
            if refused.code != "missing_scope":
                raise
            return None
        is_public = not (channel.is_private or channel.is_mpim)
        if members is None:  # too many to search for the owner
            return Audience(is_public=is_public)
        return listed_audience(
            members, has_owner=not members.isdisjoint(users), is_public=is_public
        )

    # Setup

    async def _checks(self, client: SlackClient, home: Address | None) -> AsyncGenerator[Finding]:
        """Check the tokens, the scopes and the home channel. Does not connect for events, so a
        running gateway is not disturbed."""
        me = await client.call("auth.test", Me)
        yield Finding(True, f"The bot token is good: the app is @{me.user} in {me.team}.")
        missing = ", ".join(sorted(_SCOPES.difference(client.scopes)))
        good = "The app has every scope that it needs."
        bad = f"The app lacks scopes: {missing}."
        yield check(not missing, good, bad, _ADD)
        try:
            await client.endpoint()
        except Refused as refused:
            text = f"Slack does not accept the {refused.reason}."
            yield Finding(False, text, _GENERATE, vital=True)
        else:
            yield Finding(True, "The app-level token is good.")
        if home is not None:
            channel = await _channel(client, home.chat_id)
            name = "your chat with the app" if channel.is_im else f"#{channel.name}"
            bad = (
                "The app cannot write in the home channel: it is archived, or the app is not in it."
            )
            good = f"The home channel is {name}."
            fix = _INVITE.format(me.user)
            yield check(_is_usable(channel), good, bad, fix, vital=True)


def _is_thread(at: Address) -> bool:
    return at.thread_id is not None


def _id_at(at: datetime) -> int:
    return int(at.timestamp() * 10**6)


def _time_of(number: int) -> datetime:
    return datetime.fromtimestamp(number / 10**6, UTC)


async def _members(client: SlackClient, channel: str) -> set[str] | None:
    """The users in a channel, or None if there are too many."""
    found = set[str]()
    cursor = None
    for _ in range(_MOST_PAGES):
        page = await client.call(
            "conversations.members", MemberPage, channel=channel, limit=_PAGE, cursor=cursor
        )
        found.update(page.members)
        cursor = page.response_metadata.next_cursor
        if not cursor:
            return found
    return None


async def _channel(client: SlackClient, name: str) -> SlackChannel:
    """The channel with that id. If there is none, one that the app cannot use."""
    try:
        return await client.channel(name)
    except Refused as refused:
        if refused.code not in ("channel_not_found", "invalid_arguments"):
            raise
        return SlackChannel()


def _is_usable(channel: SlackChannel) -> bool:
    return (channel.is_im or channel.is_member) and not channel.is_archived


def make(settings: PlatformSettings) -> SlackAdapter:
    """Return an unconnected adapter for the app in `settings`."""
    return SlackAdapter(*map(settings.value, ("token", "app_token", "url")))
