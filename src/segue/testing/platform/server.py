"""The service: what each call of the bot does, its HTTP interface, and how it is started."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import msgspec
from msgspec.structs import replace

from segue.platforms.base import Dialect
from segue.testing import peers
from segue.testing.http import Request, Response
from segue.testing.peers import Button, Draft, File, Outage, Record, Upload
from segue.testing.peers.server import Effect
from segue.testing.peers.state import Pace, size
from segue.testing.platform.control import Control, Driver
from segue.testing.platform.state import (
    BOT,
    Message,
    Refuse,
    Shape,
    State,
    Thread,
    malformed,
    missing,
    too_often,
)
from segue.testing.platform.wire import (
    CALLS,
    AskMe,
    AskReaders,
    AskUpdates,
    Batch,
    Buttons,
    Call,
    ChatReaders,
    Edit,
    GetFile,
    Me,
    Opened,
    OpenThread,
    Rules,
    Send,
    SendFile,
    Sent,
    SetMenu,
    ShowPreview,
    ShowTyping,
)

_EDITS_AT_ONCE = 3
_FENCE = "```"
_SEEDED = frozenset({Shape.GROUP, Shape.CHANNEL})
"""The chats in which a thread starts at a message."""

Answer = Me | Sent | Opened | ChatReaders | bytes | None
Done = TypeVar("Done", Sent, Opened)


class Methods:
    """Carries out calls. Raises Refuse for a call that is not allowed."""

    def __init__(self, state: State) -> None:
        self._state = state

    def carry_out(self, call: Call) -> Answer | Awaitable[Batch]:
        match call:
            case AskUpdates():
                return self._poll(call)
            case AskMe():
                return Me(id=BOT.id, name=BOT.name, rules=self._state.settings)
            case Send():
                return self._once(call, call.key, lambda: self._send(call))
            case SendFile():
                return self._once(call, call.key, lambda: self._send_file(call))
            case OpenThread():
                return self._once(call, call.key, lambda: self._open(call))
            case GetFile():
                return self._file(call)
            case AskReaders():
                chat = self._state.chat(call.chat)
                return ChatReaders(public=chat.public, members=chat.members)
            case _:
                return self._change(call)

    def _change(self, call: Edit | ShowPreview | ShowTyping | SetMenu) -> None:
        match call:
            case Edit():
                self._edit(call)
            case ShowPreview():
                self._preview(call)
            case ShowTyping():
                self._type(call)
            case SetMenu():
                self._state.menu = call.menu

    async def _poll(self, call: AskUpdates) -> Batch:
        updates = self._state.updates
        if call.offset is not None and call.offset > updates.next:
            raise Refuse(400, "bad_offset", f"There was no update {call.offset} yet.")
        updates.confirm(call.offset or 0)
        if (batch := await updates.poll(call.limit, call.seconds)) is None:
            raise Refuse(409, "conflict", "Another poll was begun with this token.")
        after = batch[-1].number + 1 if batch else updates.next
        return Batch(frames=tuple(update.frame for update in batch), next=after)

    def _once(self, call: Call, key: str | None, do: Callable[[], Done]) -> Done:
        """Carry out the call, or return the recorded answer if its key was used before."""
        if key is None:
            return do()
        self._can("keys")
        if key in self._state.keyed:
            before, answer = self._state.keyed[key]
            if before != call:
                raise Refuse(409, "key_reused", f"The key {key!r} was used for something else.")
            return cast("Done", answer)
        done = do()
        self._state.keyed[key] = (call, done)
        return done

    def _send(self, call: Send) -> Sent:
        self._state.place(call.chat, call.thread)
        self._check(call.text, call.format, call.buttons)
        return self._post(call, buttons=call.buttons)

    def _send_file(self, call: SendFile) -> Sent:
        self._can("files")
        self._state.place(call.chat, call.thread)
        if call.text:
            self._check(call.text, call.format, ())
        if not call.data:
            raise Refuse(400, "empty", "There is nothing in the file.")
        if len(call.data) > self._state.settings.upload_bytes:
            raise Refuse(413, "too_large", "The file is too large.")
        upload = Upload(name=call.name, media_type=call.media_type, content=call.data)
        return self._post(call, files=(self._state.add_file(self._state.name("file"), upload),))

    def _post(
        self, call: Send | SendFile, *, buttons: Buttons = (), files: tuple[File, ...] = ()
    ) -> Sent:
        rules = self._state.settings
        wait = self._state.wait(call.chat, rules.per_second, rules.chat_seconds, rules.chat_burst)
        if wait > 0:
            raise too_often(wait)
        message = Message(
            id=self._state.name("message"),
            chat=call.chat,
            thread=call.thread,
            author=BOT.id,
            text=call.text,
            format=call.format,
            buttons=_shown(buttons),
            key=call.key,
            files=files,
        )
        self._state.say(message)
        return Sent(id=message.id, thread=message.thread)

    def _preview(self, call: ShowPreview) -> None:
        self._can("previews")
        self._state.place(call.chat, call.thread)
        self._check(call.text, call.format, ())
        self._state.draft(Draft(chat=call.chat, thread=call.thread, text=call.text))

    def _edit(self, call: Edit) -> None:
        self._can("edits")
        self._state.chat(call.chat)
        before = self._state.message(call.chat, call.message)
        if before.author != BOT.id:
            raise Refuse(403, "not_yours", "The bot edits its own messages only.")
        self._check(call.text, call.format, call.buttons)
        buttons = _shown(call.buttons)
        if (before.text, before.buttons) == (call.text, buttons):
            raise Refuse(400, "not_changed", "The message says that already.")
        pace = Pace(f"edits of {before.id}", self._state.settings.edit_seconds, _EDITS_AT_ONCE)
        if (wait := self._state.meter.wait(pace)) > 0:
            raise too_often(wait)
        after = replace(before, text=call.text, format=call.format, buttons=buttons)
        self._state.change(before, after)

    def _type(self, call: ShowTyping) -> None:
        self._can("typing")
        self._state.place(call.chat, call.thread)
        self._state.typing[call.chat, call.thread] += 1

    def _open(self, call: OpenThread) -> Opened:
        chat = self._state.chat(call.chat)
        if chat.shape is Shape.NO_THREADS or not self._state.settings.threads:
            raise Refuse(400, "no_threads", "This chat cannot have threads.")
        if chat.shape is Shape.THREADS_REFUSED:
            raise Refuse(403, "no_permission", "The bot may not open threads in this chat.")
        kind = "message" if chat.shape in _SEEDED else "topic"
        name = self._state.name(kind)
        self._state.threads[chat.id, name] = Thread(
            id=name, chat=chat.id, title=call.title, key=call.key
        )
        if chat.shape in _SEEDED:
            self._state.say(Message(id=name, chat=chat.id, author=BOT.id, text=call.title))
        return Opened(chat=chat.wire(), thread=name)

    def _file(self, call: GetFile) -> bytes:
        if (found := self._state.files.get(call.file)) is None:
            raise missing("file", call.file)
        _, content = found
        if len(content) > self._state.settings.attachment_bytes:
            raise Refuse(400, "too_large", "The file is too large to be fetched.")
        return content

    def _can(self, what: str) -> None:
        if not getattr(self._state.settings, what):
            raise Refuse(400, "not_supported", f"This platform has no {what}.")

    def _check(self, text: str, form: str, buttons: Buttons) -> None:
        rules = self._state.settings
        if not text.strip():
            raise Refuse(400, "empty", "A message needs a text.")
        if (length := size(text, rules.unit)) > rules.length:
            raise Refuse(
                400, "too_long", f"The text has {length} {rules.unit}, the limit is {rules.length}."
            )
        if form == "markup" and rules.dialect is Dialect.PLAIN:
            raise Refuse(400, "not_supported", "This platform has no markup.")
        if form == "markup" and rules.dialect is Dialect.MARKDOWN and _open_fence(text):
            raise Refuse(400, "bad_markup", "A block of code is not closed.")
        if buttons:
            self._can("buttons")
        if not all(button.fits() for button in buttons):
            raise Refuse(400, "bad_button", "The data of a button is too long.")


def _shown(buttons: Buttons) -> tuple[Button, ...]:
    return tuple(Button(label=button.label, data=button.data) for button in buttons)


def _open_fence(text: str) -> bool:
    return sum(line.lstrip().startswith(_FENCE) for line in text.splitlines()) % 2 == 1


LARGEST_CALL = 8 * 1024 * 1024


class Server(peers.Server[Rules, State]):
    control = Control
    polls = "updates"

    def fresh(self, settings: Rules) -> State:
        return State(settings, self.pulse)

    def receives_updates(self, request: Request) -> bool:
        return request.target == "/v1/updates"

    def farewell(self, request: Request, outage: Outage) -> Response:
        """A poll that returns at once, or one of too many."""
        if outage is Outage.TOO_MANY:
            return Refuse(409, "conflict", "Another program asks for updates.").response
        asked = msgspec.json.decode(request.body, type=AskUpdates)
        return Response(body=msgspec.json.encode(Batch(frames=(), next=asked.offset or 0)))

    def parse(self, request: Request, record: Record) -> tuple[Effect, str | None]:
        record.method = request.target.removeprefix("/v1/")
        record.parameters = {"call": request.body[:2000].decode("utf-8", "replace")}
        if request.headers.get("authorization") != f"Bearer {self.token}":
            raise Refuse(401, "unauthorized", "The token is not valid.")
        if (kind := CALLS.get(record.method)) is None:
            raise Refuse(404, "unknown_method", f"There is no method {record.method!r}.")
        if request.method != "POST":
            raise Refuse(405, "malformed", "Calls are posted.")
        if request.headers.get("content-type") != "application/json":
            raise Refuse(415, "malformed", "Calls are application/json.")
        if len(request.body) > LARGEST_CALL:
            raise Refuse(413, "too_long", f"A call has at most {LARGEST_CALL} bytes.")
        try:
            call = msgspec.json.decode(request.body, type=kind)
        except msgspec.MsgspecError as error:
            raise self.malformed(str(error)) from error
        effect = functools.partial(Methods(self.state).carry_out, call)
        return effect, getattr(call, "chat", None)

    def malformed(self, reason: str) -> Refuse:
        return malformed(reason)


TOKEN = "the-token-of-the-bot"  # noqa: S105 - it opens nothing but this


class Peer(peers.Peer):
    """A running platform."""

    def driver(self) -> Driver:
        """Return a new driver, for use in an `async with`."""
        return Driver(self.obey or self.control)


FAKE = peers.Fake(
    package="segue.testing.platform", token=TOKEN, settings=Rules, server=Server, peer=Peer
)
running = FAKE.running
serving = FAKE.serving
