"""SmallChat: a chat service in one file.

Run `python -m examples.smallchat.server` to chat there. A call is a POST with a bearer token and a
JSON object, and gets an `Answer`:

    /me       {}                        → id
    /updates  {after, seconds}          → updates, last
    /post     {chat, thread, text, key} → id
    /open     {chat, title, key}        → id, that of a new thread

`updates` waits up to `seconds` for updates that are not confirmed. `after` confirms all updates up
to that one. Repeating a call with its key has no further effect, and gets the same answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from examples.smallchat.wire import Answer, Update
from segue.testing.peers import Trouble

BATCH = 100
PORT = 4040
TOKEN = "secret"  # noqa: S105 - of a service on this machine


class Refused(Exception):
    def __init__(self, status: int, error: str, after: float | None = None) -> None:
        super().__init__(error)
        self.status = status
        self.answer = Answer(error=error, after=after)


class Server:
    def __init__(self, posted: Callable[[Update], None] = lambda _: None) -> None:
        """`posted` is called with each message of the bot."""
        self._posted = posted
        self._ids = itertools.count(1)
        self._kinds: dict[str, Literal["dm", "group"]] = {}
        """The kind of each chat."""
        self.threads: dict[str, str] = {}
        """The chat of each thread."""
        self.messages: list[Update] = []
        self._updates: list[str] = []
        self._confirmed = 0
        self._keys: dict[str, Answer] = {}
        self._news = asyncio.Event()
        self._listening: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.faults: dict[str, tuple[Trouble, float]] = {}
        """The fault of the next call of each method, and the seconds that BUSY asks to wait."""
        self._calm = asyncio.Event()

    # The platform

    async def up(self, port: int = 0) -> None:
        """Listen on that port, or on the same as before."""
        self._listening = await asyncio.start_server(
            self._serve, "127.0.0.1", port or self.port, limit=2**24
        )
        self.port = self._listening.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Drop all connections and refuse new ones."""
        if self._listening is not None:
            self._listening.close()
        for writer in self._connections:
            writer.transport.abort()
        self.calm()
        await asyncio.sleep(0)

    def calm(self) -> None:
        """Remove all faults and drop hanging calls."""
        self.faults.clear()
        self._calm.set()
        self._calm = asyncio.Event()

    # Its users

    def add_chat(self, kind: Literal["dm", "group"]) -> str:
        chat = f"{kind}-{next(self._ids)}"
        self._kinds[chat] = kind
        return chat

    def write(
        self, user: str, chat: str, text: str, *, thread: str | None = None, bot: bool = False
    ) -> str:
        """Add a message, deliver it to the bot, and return its id."""
        update = Update(
            id=len(self._updates) + 1,
            chat=chat,
            kind=self._kinds[chat],
            thread=thread,
            user=user.lower(),
            name=user,
            bot=bot,
            message=str(next(self._ids)),
            text=text,
        )
        self.messages.append(update)
        self.deliver(msgspec.json.encode(update).decode())
        return update.message

    def deliver(self, *updates: str) -> None:
        self._updates.extend(updates)
        self._news.set()

    def repeat(self) -> None:
        """Deliver the last update again."""
        self.deliver(self._updates[-1])

    # Its calls

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while answer := await self._answer(*await self._read(reader)):
                writer.write(answer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the bot has gone
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> tuple[str, dict[str, Any]]:
        """Read a request, and return its method and its JSON object."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        _, _, length = head.partition("content-length: ")
        body = await reader.readexactly(int(length.partition("\r\n")[0]))
        method = head.split()[1].strip("/")
        known = f"authorization: bearer {TOKEN}\r\n" in head
        return method if known else "denied", msgspec.json.decode(body)

    async def _answer(self, method: str, call: dict[str, Any]) -> bytes:
        """Return the response, or nothing if the connection must be dropped."""
        trouble, seconds = self.faults.pop(method, (None, 0.0))
        try:
            match trouble:
                case Trouble.BUSY:
                    raise Refused(429, "it is busy", seconds)
                case Trouble.FORBIDDEN:
                    raise Refused(403, "that is forbidden")
                case Trouble.BROKEN:
                    raise Refused(500, "it is broken")
                case Trouble.DROP_BEFORE:
                    return b""
                case Trouble.HANG:
                    await self._calm.wait()
                    return b""
                case _:
                    status, answer = 200, await self._do(method, call)
        except Refused as refused:
            status, answer = refused.status, refused.answer
        if trouble is Trouble.HANG_AFTER:
            await self._calm.wait()
        if trouble in (Trouble.DROP_AFTER, Trouble.HANG_AFTER):
            return b""
        body = b"{" if trouble is Trouble.GARBLED else msgspec.json.encode(answer)
        return f"HTTP/1.1 {status} \r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    async def _do(self, method: str, call: dict[str, Any]) -> Answer:
        match method:
            case "me":
                return Answer(id="bot")
            case "updates":
                return await self._wait(call["after"], call["seconds"])
            case "post" | "open":
                return self._once(method, call)
            case "denied":
                raise Refused(401, "its token is not valid")
            case _:
                raise Refused(404, "there is no such method")

    async def _wait(self, after: int | None, seconds: float) -> Answer:
        self._confirmed = max(self._confirmed, after or 0)
        if len(self._updates) == self._confirmed:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), seconds)
        batch = self._updates[self._confirmed : self._confirmed + BATCH]
        return Answer(updates=tuple(batch), last=self._confirmed + len(batch))

    def _once(self, method: str, call: dict[str, Any]) -> Answer:
        key, chat, thread = call["key"], call["chat"], call.get("thread")
        if chat not in self._kinds or (thread is not None and self.threads.get(thread) != chat):
            raise Refused(404, "there is no such chat or thread")
        if key not in self._keys:
            if method == "open":
                made = f"thread-{next(self._ids)}"
                self.threads[made] = chat
            else:
                made = self.write("Bot", chat, call["text"], thread=thread, bot=True)
                self._posted(self.messages[-1])
            self._keys[key] = Answer(id=made)
        return self._keys[key]


async def main() -> None:
    """Chat as Anna: every line goes where the bot wrote last."""
    at: dict[str, str | None] = {}

    def show(message: Update) -> None:
        at.update(chat=message.chat, thread=message.thread)
        print(f"[{message.thread or message.chat}] {message.text}")

    server = Server(show)
    await server.up(PORT)
    group = server.add_chat("group")
    print(f"SmallChat is at http://127.0.0.1:{PORT}. The bot's token is {TOKEN!r}. Write to it:")
    while line := await asyncio.to_thread(sys.stdin.readline):
        server.write("Anna", at.get("chat") or group, line.strip(), thread=at.get("thread"))


if __name__ == "__main__":
    asyncio.run(main())
