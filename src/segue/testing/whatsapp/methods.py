"""The calls of the bot: messages, read marks and files.

Sources: facebook/openapi (business-messaging-api v23.0), the pages on messages, typing indicators
and media under developers.facebook.com/documentation/business-messaging/whatsapp, and pywa. There
are only the kinds of message that a bot like ours sends, and files are uploaded first. The body of
a list has the shorter of the two limits that the documentation names.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, Literal

from segue.testing.peers import Button, Upload, shapes
from segue.testing.whatsapp.errors import Refuse, check, missing, mistake
from segue.testing.whatsapp.snapshot import NUMBER, PHONE, Json, Message, fill
from segue.testing.whatsapp.state import State

_SHAPES = shapes.read(Path(__file__).with_name("shapes.json"))
_MEGABYTE = 1024 * 1024
_OFFICE = "application/vnd.openxmlformats-officedocument."
MEDIA: dict[str, tuple[int, tuple[str, ...]]] = {
    "image": (5 * _MEGABYTE, ("image/jpeg", "image/png")),
    "audio": (
        16 * _MEGABYTE,
        ("audio/aac", "audio/mp4", "audio/mpeg", "audio/amr", "audio/ogg"),
    ),
    "video": (16 * _MEGABYTE, ("video/mp4", "video/3gpp")),
    "document": (
        100 * _MEGABYTE,
        (
            "text/plain",
            "application/pdf",
            "application/msword",
            "application/vnd.ms-excel",
            "application/vnd.ms-powerpoint",
            f"{_OFFICE}wordprocessingml.document",
            f"{_OFFICE}spreadsheetml.sheet",
            f"{_OFFICE}presentationml.presentation",
        ),
    ),
}
"""The size limit and the types of each kind of file: Supported Media Types."""
_UNFIT = re.compile(r"[\n\t]| {5}")
"""What the parameter of a template must not have (132012)."""


class Methods:
    """Each returns its answer or raises Refuse."""

    def __init__(self, state: State) -> None:
        self._state = state

    # Messages

    def send(self, body: Json) -> Json:
        """Accept a message. Whether it arrives is said later, by a status."""
        state, settings = self._state, self._state.settings
        to = str(body.get("to", "")).removeprefix("+")
        check(to.isdecimal() and 5 <= len(to) <= 15, 131009, f"{to} is not a phone number")
        if wrong := shapes.flaw(body, _SHAPES["Sent"]):
            raise mistake(wrong)
        check(to != NUMBER, 131021)
        check(not settings.policy, settings.policy)
        if state.wait(to, settings.per_second, 0, 1):
            raise Refuse(130429, "Cloud API message throughput has been reached.")
        if state.wait(to, 0, settings.chat_seconds, 1):
            raise Refuse(131056, "Too many messages to the same phone number in a short time.")
        kind: str = body["type"]
        context: Json = body.get("context") or {}
        content = body[kind]
        more = getattr(self, f"_{kind}", self._file)(content, kind)
        if kind == "reaction":
            return fill("sent", it=more["message"], to=body["to"])
        message = Message(
            id=state.wamid(to),
            chat=to,
            author=PHONE,
            kind=kind,
            reply_to=context.get("message_id"),
            tracker=body.get("biz_opaque_callback_data"),
            **more,
        )
        self._arrive(message)
        return fill("sent", it=message, to=body["to"])

    def _arrive(self, message: Message) -> None:
        """Show the message to its user, or report why it cannot be shown."""
        state, settings, to = self._state, self._state.settings, message.chat
        closed = time.time() - state.heard.get(to, 0.0) > settings.window_seconds
        code = 0
        if to not in state.users or to in state.blocked:
            code = 131026
        elif closed and message.kind != "template":
            check(settings.window_checked_late, 131047, "More than 24 hours have passed.")
            code = 131047
        if code:
            state.failed[message.id] = code
            state.report(message, "failed", code)
            return
        state.post(message)
        for status in settings.statuses:
            state.report(message, status)

    def _text(self, content: Json, _: str) -> Json:
        check(content["body"].strip(), 131009, "text.body is blank")
        return {"text": content["body"], "preview": bool(content.get("preview_url"))}

    def _interactive(self, content: Json, _: str) -> Json:
        action = content["action"]
        if content["type"] == "button":
            chosen = [it["reply"] for it in action["buttons"]]
            check(_unique(chosen, "title"), 131009, "Duplicated title of a button")
        else:
            sections = action["sections"]
            chosen = [row for section in sections for row in section["rows"]]
            check(len(chosen) <= 10, 131009, "Total row count exceed max allowed count: 10")
            titled = len(sections) == 1 or all(it.get("title") for it in sections)
            check(titled, 131009, "A section has no title")
        check(_unique(chosen, "id"), 131009, "Duplicated id of a choice")
        fit = all(it["id"].strip() == it["id"] and it["title"].strip() for it in chosen)
        check(fit, 131009, "An id has spaces around it, or a title is blank")
        buttons = tuple(Button(label=it["title"], data=it["id"]) for it in chosen)
        return {"text": content["body"]["text"], "buttons": buttons}

    def _template(self, content: Json, _: str) -> Json:
        name = f"{content['name']}/{content['language']['code']}"
        check(name in self._state.settings.templates, 132001, f"{name} is not approved")
        given = [
            it["text"]
            for component in content.get("components") or ()
            for it in component["parameters"]
        ]
        check(len(given) == 1, 132000, f"body: number of localizable_params ({len(given)})")
        check(not _UNFIT.search(given[0]), 132012, "A parameter has new lines, tabs or 5 spaces")
        return {"text": given[0], "template": name}

    def _reaction(self, content: Json, _: str) -> Json:
        state, name = self._state, content["message_id"]
        check(name in state.received, 131009, "The message was not received")
        return {"message": state.message(name)}

    def _file(self, content: Json, kind: str) -> Json:
        found = self._state.files.get(content["id"])
        if found is None:
            raise Refuse(131009, f"{content['id']} is not a media ID")
        check(found[0].media_type in MEDIA[kind][1], 131053, f"It is not {kind}")
        return {"text": content.get("caption") or "", "files": (found[0],)}

    def mark_read(self, body: Json) -> Json:
        """A message and those before it, perhaps with an indicator, which is shown 25 seconds."""
        if wrong := shapes.flaw(body, _SHAPES["Read"]):
            raise mistake(wrong)
        state, name = self._state, body["message_id"]
        check(name in state.received, 131009, "message_id is not that of a received message")
        indicator = body.get("typing_indicator")
        check(indicator in (None, {"type": "text"}), 131009, "typing_indicator")
        state.read.append(name)
        if indicator:
            state.typing[state.received[name], None] += 1
        return {"success": True}

    # Files

    def upload(self, messaging_product: Literal["whatsapp"], file: Upload, type: str) -> Json:  # noqa: A002 - Meta's name
        known = {kind: most for most, kinds in MEDIA.values() for kind in kinds}
        if type not in known or file.media_type != type:
            types = ", ".join(known)
            text = f"Param file must be a file with one of the following types: {types}."
            raise Refuse(100, f"{text} Received file of type '{file.media_type}'.")
        check(0 < len(file.content) <= known[type], 100, "File size exceeds the limit")
        return {"id": self._state.store(file).id}

    def get_media(self, name: str) -> Json:
        state = self._state
        if (found := state.files.get(name)) is None:
            raise missing(name, "GET")
        expires = time.time() + state.settings.url_seconds
        url = f"{state.url}/whatsapp_business/attachments/?mid={name}&ext={expires:.3f}&hash=ARs"
        return fill("file", it=found[0], content=found[1], url=url)

    def download(self, mid: str, ext: str, hash: str) -> bytes:  # noqa: A002 - Meta's name
        found = self._state.files.get(mid)
        if found is None or hash != "ARs" or time.time() > float(ext):
            raise missing(mid, "GET")
        return found[1]

    # The number

    def get_number(self, fields: str = "") -> Json:
        webhook = self._state.webhook
        url = webhook.url if webhook is not None and webhook.verified else None
        whole: Json = {
            "display_phone_number": f"+{NUMBER[0]} {NUMBER[1:4]}-{NUMBER[4:7]}-{NUMBER[7:]}",
            "verified_name": "Segue",
            "quality_rating": "GREEN",
            "webhook_configuration": {"application": url} if url else None,
        }
        wanted = [it for it in fields.split(",") if it] or ["display_phone_number", "verified_name"]
        for it in wanted:
            if it not in whole and it != "id":
                raise mistake(f"Tried accessing nonexisting field ({it})")
        return {it: whole[it] for it in wanted if whole.get(it)} | {"id": PHONE}


def _unique(chosen: list[Any], name: str) -> bool:
    return len({it[name] for it in chosen}) == len(chosen)
