"""Slack's messages: their markup and blocks, how each is sent only once, and how an answer grows.

Slack takes no idempotency keys, but keeps an invisible stamp with a message. `SentMessages`
searches the history of a chat for our stamps before the first message to it over a connection, and
again after a send whose outcome is unknown. That finds what an earlier process sent, or a call
whose answer was lost, and costs one more call per chat.

An unfinished answer is a stream: a message that can only grow. The answer replaces what `Streams`
show, so a stream need not be exact. If an earlier process left one behind, the adapter finds it in
the history.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from segue.core.address import Address
from segue.platforms import sending
from segue.platforms.base import Button
from segue.platforms.errors import Failures, Lost, Refused, tolerating_absence

STAMP_PREFIX = "segue-"
_MOST_SENT = 10_000
_SEARCHES = 5
"""How often to search for a message that was just sent."""
_PAUSE = 0.2
"""By how many seconds the pause before a search is longer than the one before."""
IDLE_SECONDS = 40.0
"""A stream that is not shown again for so long is removed."""
_MOST_SHOWN = 10_000
"""Characters of a stream. The rest is shown with the answer."""

LINK = re.compile(r"<([^<>|]*)(?:\|([^<>]*))?>")
"""A link, a mention or a date, with its label."""
_MENTION = re.compile(r"<(@[UW][A-Z0-9]+|#[CG][A-Z0-9]+)>")
"""A user or a channel without a label, in typed text."""
_USER = re.compile(r"[UW][A-Z0-9]+")
_LIVE = re.compile(r"<(?=[@!#])|:(?=/)|www(?=\.)")
"""The beginnings of mentions and links."""
_ESCAPED = {"&lt;": "<", "&gt;": ">", "&amp;": "&"}
_ESCAPE = re.compile("|".join(_ESCAPED))

Search = Callable[[Address], Awaitable[Mapping[str, str]]]
"""Returns the ids of our messages in a chat, by their stamps."""


# Text: https://docs.slack.dev/messaging/formatting-message-text


def typed(text: str) -> str:
    """The text as its author typed it."""
    return _ESCAPE.sub(lambda it: _ESCAPED[it[0]], LINK.sub(_shown, text))


def _shown(link: re.Match[str]) -> str:
    target = link[1]
    label = link[2]
    match target[:1]:
        case "@" | "#":
            return f"{target[0]}{label.lstrip('@#')}" if label else f"<{target}>"
        case "!":  # everyone in the channel, a group of users, a date
            return label or f"@{target[1:]}"
        case _:
            return f"{label} ({target})" if label and label not in target else label or target


def mentioned(text: str) -> list[str]:
    """The users and channels that typed text mentions by their ids, such as `@U1` and `#C1`. Each
    comes once."""
    return list(dict.fromkeys(_MENTION.findall(text)))


def with_names(text: str, names: Mapping[str, str]) -> str:
    """The typed text with these names in the place of what `mentioned` returns."""
    return _MENTION.sub(lambda it: names.get(it[1], it[0]), text)


def mention(users: Iterable[str]) -> str:
    """Mention the users with these ids. Ids of groups and of other things are left out."""
    return " ".join(f"<@{user}>" for user in users if _USER.fullmatch(user))


def inert(text: str) -> str:
    """The text without mentions and links, and with the same look. As the text grows, so does the
    result."""
    return _LIVE.sub("\\g<0>\u200b", text)


# Blocks: https://docs.slack.dev/reference/block-kit


def content(text: str, buttons: Sequence[Button]) -> dict[str, Any]:
    """The arguments of a call that sends a text with buttons."""
    if not buttons:
        return {"text": text}
    rows = [[_button(button) for button in row] for row in sending.rows(buttons)]
    actions = [{"type": "actions", "elements": row} for row in rows]
    return {"text": text, "blocks": [section(text), *actions]}


def section(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}, **more}


def _button(button: Button) -> dict[str, Any]:
    label = {"type": "plain_text", "text": button.label[:75]}
    return {"type": "button", "text": label, "value": button.data, "action_id": button.data}


# Sent only once


def stamp(key: str) -> str:
    """The stamp of a message that is sent under `key`."""
    return STAMP_PREFIX + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class SentMessages:
    """The messages that are known to have arrived."""

    def __init__(self) -> None:
        self._ids: dict[tuple[Address, str], str] = {}
        self._searched: set[Address] = set()

    async def find(self, search: Search, at: Address, key: str) -> str | None:
        """The id of the message that was sent under `key`, or None if none was. Until `add`, the
        outcome of the next send is unknown."""
        name = (at, stamp(key))
        if name in self._ids:
            return self._ids[name]
        if at not in self._searched:
            found = await search(at)
            for found_stamp, message in found.items():
                self._ids[at, found_stamp] = message
        self._searched.discard(at)
        return self._ids.get(name)

    def add(self, at: Address, key: str, message: str) -> None:
        """Take the id of a message that was sent, and with it the outcome."""
        self._searched.add(at)
        self._ids[at, stamp(key)] = message
        while len(self._ids) > _MOST_SENT:
            oldest = next(iter(self._ids))
            self._searched.discard(oldest[0])
            del self._ids[oldest]

    async def appear(
        self,
        find: Callable[[Address, str], Awaitable[str | None]],
        at: Address,
        key: str,
        failures: Failures,
    ) -> str | None:
        """Wait a moment until the message that was sent under `key` can be found, and return its
        id. None if it cannot, although it has arrived."""
        for attempt in range(_SEARCHES):
            await asyncio.sleep(_PAUSE * attempt)
            try:
                found = await find(at, key)
            except failures.all:
                return None
            if found is not None:
                return found
        return None

    def invalidate(self, at: Address) -> None:
        """Search that chat again before the next message."""
        self._searched.discard(at)

    def invalidate_all(self) -> None:
        """Search every chat again: another process may have sent something."""
        self._searched.clear()


# Streams


@dataclass(slots=True)
class _Stream:
    id: str
    shown: str
    size: int
    grows: bool = True
    idle: asyncio.TimerHandle | None = None


class MessageCall(Protocol):
    async def __call__(self, at: Address, message: str, method: str, **given: Any) -> object: ...


class Streams:
    """The open streams: at most one at each address."""

    def __init__(
        self,
        start: Callable[[Address, str], Awaitable[str]],
        call: MessageCall,
        in_background: Callable[[Callable[[Any], Awaitable[object]]], None],
    ) -> None:
        """`start` takes the first text and returns the id of the stream, and `call` calls a method
        on a message: both raise Refused or Lost. `in_background` makes a call whose failure is only
        logged."""
        self._start = start
        self._call = call
        self._in_background = in_background
        self._open: dict[Address, _Stream] = {}
        self._unable: set[str] = set()

    def is_able(self, at: Address) -> bool:
        """Whether streams are possible in that chat: Slack has not refused one there."""
        return at.chat_id not in self._unable

    def get(self, at: Address) -> str | None:
        """The id of the stream at that address, or None."""
        stream = self._open.get(at)
        return None if stream is None else stream.id

    async def show(self, at: Address, text: str) -> None:
        """Show `text`. If it does not continue the text before, show it below."""
        stream = self._open.get(at)
        if stream is None:
            stream = await self._begin(at, text)
            self._open[at] = stream
        elif stream.grows and text != stream.shown:
            await self._show_rest(at, stream, text)
        self._restart_timer(at, stream)

    async def _begin(self, at: Address, text: str) -> _Stream:
        try:
            return _Stream(await self._start(at, text), text, len(text))
        except Refused as refused:
            if refused.status == 400:
                self._unable.add(at.chat_id)
            raise

    async def _show_rest(self, at: Address, stream: _Stream, text: str) -> None:
        continues = text.startswith(stream.shown)
        more = text[len(stream.shown) :] if continues else f"\n\n{text}"
        size = stream.size + len(more)
        if size > _MOST_SHOWN:
            stream.grows = False
            return
        await self._grow(at, stream, more)
        stream.shown = text
        stream.size = size

    async def _grow(self, at: Address, stream: _Stream, more: str) -> None:
        try:
            await self._call(at, stream.id, "chat.appendStream", markdown_text=more)
        except Refused as refused:
            stream.grows = refused.status == 429  # else it has ended
            raise
        except Lost:
            stream.grows = False  # the call may have had its effect
            raise

    def _restart_timer(self, at: Address, stream: _Stream) -> None:
        if stream.idle is not None:
            stream.idle.cancel()
        loop = asyncio.get_running_loop()
        stream.idle = loop.call_later(IDLE_SECONDS, self._abandon, at, stream)

    def _abandon(self, at: Address, stream: _Stream) -> None:
        if self._open.get(at) is stream:
            del self._open[at]
            self._in_background(lambda _: self.end(at, stream.id))

    def pop(self, at: Address) -> str | None:
        """Forget the stream at that address, and return its id."""
        stream = self._open.pop(at, None)
        if stream is None:
            return None
        if stream.idle is not None:
            stream.idle.cancel()
        return stream.id

    async def end(
        self, at: Address, stream: str, edit: Callable[[], Awaitable[object]] | None = None
    ) -> bool:
        """Stop a stream, and turn it into a message with `edit`. Without one, or if the stream is
        gone, delete the rest of it and return False."""
        with tolerating_absence():  # it may have ended
            await self._call(at, stream, "chat.stopStream")
        if edit is not None:
            with tolerating_absence():
                await edit()
                return True
        with tolerating_absence():
            await self._call(at, stream, "chat.delete")
        return False
