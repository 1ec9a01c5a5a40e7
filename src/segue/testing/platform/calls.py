"""The methods that the bot can call, and their effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from segue.platforms.base import Dialect
from segue.testing.peers.limits import Meter, Pace, size
from segue.testing.platform.control import Message, Shape, Thread
from segue.testing.platform.errors import Refuse, missing, too_often
from segue.testing.platform.service import BOT, SEEDED, Service
from segue.testing.platform.updates import Updates
from segue.testing.platform.wire import (
    AskMe,
    AskUpdates,
    Batch,
    Buttons,
    Call,
    Edit,
    GetFile,
    Me,
    Opened,
    OpenThread,
    Send,
    SendFile,
    Sent,
    SetMenu,
    ShowPreview,
    ShowTyping,
)

_EDITS_AT_ONCE = 3
_FENCE = "```"

Answer = Me | Batch | Sent | Opened | bytes | None
Done = TypeVar("Done", Sent, Opened)


class Calls:
    """Carries out calls. Raises Refuse for a call that is not allowed."""

    def __init__(self, service: Service, updates: Updates) -> None:
        self._service = service
        self._updates = updates
        self._meter = Meter()
        self._keyed: dict[str, tuple[Call, Sent | Opened]] = {}
        """The call made with each idempotency key, and its answer."""

    async def carry_out(self, call: Call) -> Answer:
        match call:
            case AskUpdates():
                return await self._updates.poll(call)
            case AskMe():
                return Me(id=BOT.id, name=BOT.name, rules=self._service.rules)
            case Send():
                return self._once(call, call.key, lambda: self._send(call))
            case SendFile():
                return self._once(call, call.key, lambda: self._send_file(call))
            case OpenThread():
                return self._once(call, call.key, lambda: self._open(call))
            case GetFile():
                return self._file(call)
            case _:
                self._change(call)
        return None

    def _change(self, call: Edit | ShowPreview | ShowTyping | SetMenu) -> None:
        match call:
            case Edit():
                self._edit(call)
            case ShowPreview():
                self._preview(call)
            case ShowTyping():
                self._type(call)
            case SetMenu():
                self._service.menu = call.menu

    def _once(self, call: Call, key: str | None, do: Callable[[], Done]) -> Done:
        """Carry out the call, or return the recorded answer if its key was used before."""
        if key is None:
            return do()
        self._can("keys")
        if key in self._keyed:
            before, answer = self._keyed[key]
            if before != call:
                raise Refuse(409, "key_reused", f"The key {key!r} was used for something else.")
            return cast("Done", answer)
        done = do()
        self._keyed[key] = (call, done)
        return done

    def _send(self, call: Send) -> Sent:
        self._place(call.chat, call.thread)
        self._check(call.text, call.format, call.buttons)
        return self._post(call, buttons=call.buttons)

    def _send_file(self, call: SendFile) -> Sent:
        self._can("files")
        self._place(call.chat, call.thread)
        if call.text:
            self._check(call.text, call.format, ())
        if not call.data:
            raise Refuse(400, "empty", "There is nothing in the file.")
        if len(call.data) > self._service.rules.upload_bytes:
            raise Refuse(413, "too_large", "The file is too large.")
        name = self._service.name("file")
        self._service.files[name] = call.data
        return self._post(call, file=call.name)

    def _post(
        self, call: Send | SendFile, *, buttons: Buttons = (), file: str | None = None
    ) -> Sent:
        rules = self._service.rules
        self._pace(
            Pace("account", 1 / rules.per_second, max(round(rules.per_second), 1)),
            Pace(f"chat {call.chat}", rules.chat_seconds, rules.chat_burst),
        )
        message = Message(
            id=self._service.name("message"),
            chat=call.chat,
            thread=call.thread,
            author=BOT.id,
            text=call.text,
            format=call.format,
            buttons=buttons,
            key=call.key,
            file=file,
        )
        self._service.post(message)
        return Sent(id=message.id, thread=message.thread)

    def _preview(self, call: ShowPreview) -> None:
        self._can("previews")
        self._place(call.chat, call.thread)
        self._check(call.text, call.format, ())
        self._service.previews[call.chat, call.thread] = call.text

    def _edit(self, call: Edit) -> None:
        self._can("edits")
        self._place(call.chat, None)
        message = self._service.message(call.message)
        if message.chat != call.chat:
            raise missing("message", call.message)
        if message.author != BOT.id:
            raise Refuse(403, "not_yours", "The bot edits its own messages only.")
        self._check(call.text, call.format, call.buttons)
        if (message.text, message.buttons) == (call.text, call.buttons):
            raise Refuse(400, "not_changed", "The message says that already.")
        self._pace(Pace(f"edits of {message.id}", self._service.rules.edit_seconds, _EDITS_AT_ONCE))
        self._service.change(message, call.text, format=call.format, buttons=call.buttons)

    def _type(self, call: ShowTyping) -> None:
        self._can("typing")
        self._place(call.chat, call.thread)
        self._service.typing[call.chat, call.thread] += 1

    def _open(self, call: OpenThread) -> Opened:
        chat = self._service.chat(call.chat)
        if chat.shape is Shape.NO_THREADS or not self._service.rules.threads:
            raise Refuse(400, "no_threads", "This chat cannot have threads.")
        if chat.shape is Shape.THREADS_REFUSED:
            raise Refuse(403, "no_permission", "The bot may not open threads in this chat.")
        name = self._service.name("message" if chat.shape in SEEDED else "topic")
        thread = Thread(id=name, chat=chat.id, title=call.title, key=call.key)
        self._service.threads[name] = thread
        if chat.shape in SEEDED:
            self._service.post(
                Message(id=name, chat=chat.id, thread=None, author=BOT.id, text=call.title)
            )
        return Opened(chat=chat.wire(), thread=name)

    def _file(self, call: GetFile) -> bytes:
        if (content := self._service.files.get(call.file)) is None:
            raise missing("file", call.file)
        if len(content) > self._service.rules.attachment_bytes:
            raise Refuse(400, "too_large", "The file is too large to be fetched.")
        return content

    def _can(self, what: str) -> None:
        if not getattr(self._service.rules, what):
            raise Refuse(400, "not_supported", f"This platform has no {what}.")

    def _place(self, chat: str, thread: str | None) -> None:
        self._service.chat(chat)
        self._service.thread(chat, thread)

    def _check(self, text: str, form: str, buttons: Buttons) -> None:
        rules = self._service.rules
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

    def _pace(self, *paces: Pace) -> None:
        if (wait := self._meter.wait(*paces)) > 0:
            raise too_often(wait)


def _open_fence(text: str) -> bool:
    return sum(line.lstrip().startswith(_FENCE) for line in text.splitlines()) % 2 == 1
