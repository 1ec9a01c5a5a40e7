"""The WhatsApp fake's interface for the bot: messages, read marks and files.

`methods.json` has the routes of the calls, `shapes.json` the kinds of messages, and `media.json`
the size limit and types of each kind of file.

Sources: facebook/openapi (business-messaging-api v23.0), the pages on messages, typing indicators
and media under developers.facebook.com/documentation/business-messaging/whatsapp, and pywa. There
are only the kinds of message that a bot like ours sends, and files are uploaded first. The body of
a list has the shorter of the two limits that the documentation names.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, cast

from segue.testing import peers
from segue.testing.http import Request
from segue.testing.peers import Button, Record
from segue.testing.peers.server import Effect
from tests.fakes.protocols import shapes
from tests.fakes.protocols.rest import Files, RestMethods, RestServer, Routes
from tests.fakes.whatsapp.control import Control, Driver
from tests.fakes.whatsapp.state import (
    MEDIA,
    NUMBER,
    PHONE,
    Json,
    Message,
    Settings,
    State,
    check,
    fill,
    missing,
    refuse,
)

_HERE = Path(__file__)
ROUTES = Routes(_HERE.with_name("methods.json"), "")
_SHAPES = shapes.read(_HERE.with_name("shapes.json"))
_UNFIT = re.compile(r"[\n\t]| {5}")
"""What the parameter of a template must not have (132012)."""
_SIGNED = "ARs"
"""The signature in the URL of a file."""


class Methods(RestMethods[State]):
    def __init__(self, state: State, path: Mapping[str, str]) -> None:
        super().__init__(state, path)
        if (phone := path.get("phone", PHONE)) != PHONE:
            raise missing(phone)

    # Messages

    def post(self, body: Json) -> Json:
        """A message, or a read mark."""
        is_mark = "status" in body
        to = str(body.get("to", NUMBER)).removeprefix("+")
        check(to.isdecimal() and 5 <= len(to) <= 15, 131009, details=f"{to} is no phone number")
        shape = "Read" if is_mark else "Sent"
        wrong = shapes.flaw(body, _SHAPES[shape])
        if wrong:
            raise refuse.invalid(wrong)
        return self._mark_read(body) if is_mark else self._send(body)

    def _mark_read(self, body: Json) -> Json:
        state = self._state
        name = body["message_id"]
        check(name in state.received, 131009, details="The message was not received")
        indicator = body.get("typing_indicator")
        check(indicator in (None, {"type": "text"}), 131009, details="typing_indicator")
        state.read.append(name)
        state.typing[state.received[name], None] += bool(indicator)
        return {"success": True}

    def _send(self, body: Json) -> Json:
        """Accept a message. Whether it arrives is said later, by a status."""
        state = self._state
        settings = self._state.settings
        kind = body["type"]
        to = body["to"].removeprefix("+")
        check(to != NUMBER, 131021)
        check(not settings.policy, settings.policy)
        check(not state.wait(to, settings.per_second, 0, 1), 130429)
        check(not state.wait(to, 0, settings.chat_seconds, 1), 131056)
        content = getattr(self, f"_{kind}", self._file)(body[kind], kind)
        content["tracker"] = body.get("biz_opaque_callback_data")
        content["reply_to"] = body["context"]["message_id"] if body.get("context") else None
        message = Message(id=state.wamid(to), chat=to, author=PHONE, kind=kind, **content)
        self._arrive(message)
        return fill("sent", it=message, to=body["to"])

    def _arrive(self, message: Message) -> None:
        """Show the message to its user, or report why it cannot be shown."""
        state = self._state
        settings = self._state.settings
        to = message.chat
        closed = time.time() - state.heard.get(to, 0.0) > settings.window_seconds
        if to not in state.users or to in state.blocked:
            state.fail(message, 131026)
        elif closed and message.kind != "template":
            check(settings.window_checked_late, 131047)
            state.fail(message, 131047)
        else:
            state.post(message)
            for status in settings.statuses:
                state.report(message, status)

    def _text(self, content: Json, _: str) -> Json:
        check(content["body"].strip(), 131009, details="text.body is blank")
        return {"text": content["body"], "preview": bool(content.get("preview_url"))}

    def _interactive(self, content: Json, _: str) -> Json:
        action = content["action"]
        if content["type"] == "button":
            chosen = [it["reply"] for it in action["buttons"]]
            check(_unique(chosen, "title"), 131009, details="Duplicated title of a button")
        else:
            sections = action["sections"]
            chosen = [*chain.from_iterable(section["rows"] for section in sections)]
            check(len(chosen) <= 10, 131009, details="Total row count exceed max allowed count: 10")
            titled = len(sections) == 1 or all(it.get("title") for it in sections)
            check(titled, 131009, details="A section has no title")
        check(_unique(chosen, "id"), 131009, details="Duplicated id of a choice")
        fit = all(it["id"].strip() == it["id"] and it["title"].strip() for it in chosen)
        check(fit, 131009, details="An id has spaces around it, or a title is blank")
        buttons = tuple(Button(label=it["title"], data=it["id"]) for it in chosen)
        return {"text": content["body"]["text"], "buttons": buttons}

    def _template(self, content: Json, _: str) -> Json:
        name = f"{content['name']}/{content['language']['code']}"
        check(name in self._state.settings.templates, 132001, details=f"{name} is not approved")
        components = content.get("components") or ()
        parameters = chain.from_iterable(it["parameters"] for it in components)
        given = [it["text"] for it in parameters]
        check(len(given) == 1, 132000, details=f"body: localizable_params ({len(given)})")
        check(not _UNFIT.search(given[0]), 132012, details="It has new lines, tabs or 5 spaces")
        return {"text": given[0], "template": name}

    def _file(self, content: Json, kind: str) -> Json:
        name = content["id"]
        check(name in self._state.files, 131009, details=f"{name} is not a media ID")
        file = self._state.files[name][0]
        check(file.media_type in MEDIA[kind][1], 131053, details=f"It is not {kind}")
        return {"text": content.get("caption") or "", "files": (file,)}

    # Files

    def upload(self, body: Json, files: Files) -> Json:
        file = files["file"]
        kind = body["type"]
        known: dict[str, int] = {}
        for most, them in MEDIA.values():
            known |= dict.fromkeys(them, most)
        types = ", ".join(known)
        given = f"Received file of type '{file.media_type}'."
        text = f"Param file must be a file with one of the following types: {types}. {given}"
        check(kind in known and file.media_type == kind, 100, details=text)
        check(0 < len(file.content) <= known[kind], 100, details="File size exceeds the limit")
        return {"id": self._state.store(file).id}

    def get_media(self, name: str) -> Json:
        state = self._state
        if (found := state.files.get(name)) is None:
            raise missing(name)
        expires = f"{time.time() + state.settings.url_seconds:.3f}"
        url = f"{state.url}/whatsapp_business/attachments/?mid={name}&ext={expires}&hash={_SIGNED}"
        return fill("file", it=found[0], content=found[1], url=url)

    def download(self, mid: str, ext: float, hash: str) -> bytes:  # noqa: A002 - Meta's name
        if mid not in self._state.files or hash != _SIGNED or time.time() > ext:
            raise missing(mid)
        return self._state.files[mid][1]

    # The number

    def get_number(self, fields: str = "display_phone_number,verified_name") -> Json:
        hub = self._state.hub
        wanted = {"id", *fields.split(",")}
        configuration = {"application": hub.url} if hub.is_verified else None
        whole = fill("number", it=self._state.users[PHONE], configuration=configuration)
        for it in wanted - whole.keys():
            raise refuse.invalid(f"Tried accessing nonexisting field ({it})")
        return {it: whole[it] for it in sorted(wanted) if whole[it]}


def _unique(chosen: list[Any], name: str) -> bool:
    return len({it[name] for it in chosen}) == len(chosen)


class Server(RestServer[Settings, State]):
    control = Control
    routes = ROUTES
    methods = Methods
    errors = refuse
    unknown = 2500

    def fresh(self, settings: Settings) -> State:
        return State(settings, self.pulse)

    def check(self, request: Request, *, is_open: bool) -> None:
        _, _, token = request.headers.get("authorization", "").partition("Bearer ")
        check(token, 104)
        check(token == self.token and not self.state.settings.revoked, 190)

    def parse(self, request: Request, record: Record) -> tuple[Effect, str | None]:
        """Messages and read marks are posted to the same path."""
        effect, _ = super().parse(request, record)
        if record.method != "post":
            return effect, None
        body = cast("Json", record.parameters["body"])
        record.parameters = body
        record.method = "mark_read" if "status" in body else "send"
        return effect, str(body.get("to"))


TOKEN = "EAAthetokenofthesystemuserfortests"


class Peer(peers.Peer):
    """A running fake."""

    def driver(self) -> Driver:
        """Return a new driver, for use in an `async with`."""
        return Driver(self.obey or self.control)


FAKE = peers.Fake(
    package="tests.fakes.whatsapp", token=TOKEN, settings=Settings, server=Server, peer=Peer
)
running = FAKE.running
serving = FAKE.serving
