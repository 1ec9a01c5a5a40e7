"""The Cloud API: what our messages contain, the calls, and what their errors mean.

https://developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from segue.core.address import Platform
from segue.core.text import one_line
from segue.platforms import sending
from segue.platforms.base import Button, Upload
from segue.platforms.errors import FailureRule, Failures, Lost, Refused, parsed
from segue.platforms.http import HttpClient, bearer, decode
from segue.platforms.whatsapp.spec import UPLOADS

T = TypeVar("T")

_OFFICIAL = "https://graph.facebook.com"
_VERSION = "v23.0"
_FILES = "https://lookaside.fbsbx.com/"
_UPLOAD_SECONDS = 60.0
_KEY = 512
BODY = 1024
"""Length limit of a text with buttons, and of a caption."""
_REPLIES = 3
_REPLY_TITLE = 20
_ROWS = 10
_ROW_TITLE = 24
_ROW_TEXT = 72
_PARAMETER = 900
"""Length of a template's parameter. With the words around it, 1,024 characters fit."""
CLOSED = "#131047"
"""More than 24 hours have passed since the user wrote."""
_APPS = "https://developers.facebook.com/apps"
_MANAGER = "https://business.facebook.com/latest/whatsapp_manager"
_SYSTEM_USER = "system user at https://business.facebook.com/settings"
_UNKNOWN = (
    f"the access token is not right; generate one for a {_SYSTEM_USER} and type "
    "`segue setup whatsapp`"
)
_NO_NUMBER = FailureRule(
    "there is no number with that phone number ID, or the token is not for it; copy it from API "
    f"Setup at {_APPS}",
    ("#100", "#33"),
)
_REASONS = {
    "you last wrote there more than 24 hours ago, and WhatsApp lets a bot write only until then; "
    "write something to the bot, or set platforms.whatsapp.template": (CLOSED,),
    "WhatsApp cannot deliver it: the number has no WhatsApp, an old version, or has blocked the "
    "bot": ("#131026",),
    f"the number is not on the list of your test number; add it under API Setup at {_APPS}":
        ("#131030",),
    f"Meta has restricted the account; see why at {_MANAGER}": ("#368", "#131031", "#130497"),
    f"Meta needs a way to be paid; add one at {_MANAGER}": ("#131042",),
    f"too many users have blocked or reported the bot; see {_MANAGER}": ("#131048",),
    f"Meta does not let the app use this number; assign the WhatsApp account to the {_SYSTEM_USER}":
        ("#10", "#131005", "#200", "#3"),
    f"the number is not registered; register it under API Setup at {_APPS}": ("#133010",),
    "WhatsApp does not take files of this type": ("#131053",),
    f"the template is not there in that language, or is not approved; see {_MANAGER}":
        ("#132001", "#132015", "#132016"),
    "the template must have one parameter, in its body": ("#132000", "#132012", "#132018"),
}  # fmt: skip
_KNOWN = tuple(FailureRule(reason, codes) for reason, codes in _REASONS.items())
_BUSY = FailureRule(says=("#4", "#80007", "#130429", "#131056", "#131057", "#133016"), retry=True)

FAILURES = Failures(
    Platform.WHATSAPP,
    connecting=(FailureRule(_UNKNOWN, status=(401,)), _NO_NUMBER, *_KNOWN),
    delivering=(FailureRule(_UNKNOWN, status=(401,), account=True), _BUSY, *_KNOWN),
)


# Answers. Fields that can be missing can also be null.


class ErrorData(Struct, frozen=True):
    details: str | None = None


class GraphError(Struct, frozen=True):
    code: int
    message: str | None = None
    title: str | None = None
    error_data: ErrorData | None = None

    @property
    def reason(self) -> str:
        details = self.error_data and self.error_data.details
        return details or self.message or self.title or "no reason was given"


class NamedAnswer(Struct, frozen=True):
    id: str
    url: str = ""


class SentAnswer(Struct, frozen=True):
    messages: tuple[NamedAnswer, ...]


class NumberAnswer(NamedAnswer, frozen=True):
    display_phone_number: str = ""
    verified_name: str = ""
    webhook_configuration: dict[str, str] = {}


# Calls


class WhatsAppClient:
    """Calls the Graph API for one number."""

    def __init__(self, phone: str, token: str, app_secret: str, url: str, silence: float) -> None:
        """Raise ConnectFailed if the token cannot be one, or the app secret is missing."""
        with FAILURES.connecting():
            self._headers = bearer(token)
            if not app_secret:
                raise Lost("the app secret is missing", arrived=False)
        self._base = (url or _OFFICIAL).rstrip("/")
        self._phone = phone
        self._http = HttpClient(silence=silence, secret=token, refusal=_refused, trust_env=not url)

    async def close(self) -> None:
        await self._http.close()

    async def number(self) -> NumberAnswer:
        fields = "display_phone_number,verified_name,webhook_configuration"
        return await self._call("GET", self._phone, NumberAnswer, params={"fields": fields})

    async def send(self, to: str, kind: str, content: object, key: str) -> str:
        """Send a message and return its id. That it is accepted does not mean that it arrives. Its
        statuses repeat the key."""
        given = {"recipient_type": "individual", "to": to, "type": kind, kind: content}
        if 0 < len(key) <= _KEY:
            given["biz_opaque_callback_data"] = key
        answer = await self._post(SentAnswer, **given)
        if not answer.messages:
            raise Lost("its answer has no message", arrived=True)
        return answer.messages[0].id

    async def mark_read(self, message: str, *, typing: bool = False) -> None:
        """Mark a message and those before it as read. `typing` also shows that indicator."""
        given: dict[str, object] = {"status": "read", "message_id": message}
        if typing:
            given["typing_indicator"] = {"type": "text"}
        await self._post(dict[str, bool], **given)

    async def _post(self, kind: type[T], **given: object) -> T:
        given["messaging_product"] = "whatsapp"
        return await self._call("POST", f"{self._phone}/messages", kind, json=given)

    async def upload(self, name: str, media_type: str, content: bytes) -> str:
        """Return the id under which the file can be sent."""
        answer = await self._call(
            "POST",
            f"{self._phone}/media",
            NamedAnswer,
            seconds=_UPLOAD_SECONDS,
            data={"messaging_product": "whatsapp", "type": media_type},
            files={"file": (name, content, media_type)},
        )
        return answer.id

    async def fetch(self, media: str, limit: int) -> bytes:
        """The content of a file. Its URL is valid for five minutes, so each call gets another."""
        file = await self._call("GET", media, NamedAnswer)
        if not file.url.startswith((_FILES, f"{self._base}/")):  # no other server may get the token
            raise Refused(404, "the file is not on WhatsApp")
        return await self._http.request("GET", file.url, limit=limit, headers=self._headers)

    async def probe(self, url: str, query: Mapping[str, str]) -> bytes:
        """The answer of our own webhook, through its public address. The token is not sent."""
        return await self._http.request("GET", url, params=query, limit=1024)

    async def _call(self, method: str, path: str, kind: type[T], **more: Any) -> T:
        url = f"{self._base}/{_VERSION}/{path}"
        body = await self._http.request(method, url, headers=self._headers, **more)
        return decode(body, kind)


def _refused(status: int, body: bytes) -> Refused:
    answer = parsed(body, dict[str, GraphError]) or {}
    error = answer.get("error")
    if error is None:
        return Refused(status, f"HTTP {status}")
    return Refused(status, error.reason, code=f"#{error.code}")


# Messages


def plain(text: str) -> dict[str, Any]:
    return {"body": text, "preview_url": False}


def choices(text: str, buttons: Sequence[Button]) -> dict[str, Any]:
    """Up to three buttons; or a list, which also shows long labels."""
    titles = {label(it.label, _REPLY_TITLE): it.data for it in buttons}
    if len(titles) == len(buttons) <= _REPLIES:
        replies = [{"id": data, "title": title} for title, data in titles.items()]
        action: dict[str, Any] = {"buttons": [{"type": "reply", "reply": it} for it in replies]}
        return {"type": "button", "body": {"text": text}, "action": action}
    rows = [_row(button) for button in buttons[:_ROWS]]
    action = {"button": "Choose", "sections": [{"rows": rows}]}
    return {"type": "list", "body": {"text": text}, "action": action}


def _row(button: Button) -> dict[str, str]:
    row = {"id": button.data, "title": label(button.label, _ROW_TITLE)}
    if row["title"] != button.label:  # it is cut
        row["description"] = label(button.label, _ROW_TEXT)
    return row


def label(text: str, limit: int) -> str:
    """A button's label that fits, cut between words if it has several."""
    cut = textwrap.shorten(text, limit, placeholder="…")
    return cut if len(cut) > 1 else sending.title(text, limit)


def from_template(template: str, text: str, buttons: Sequence[Button] = ()) -> dict[str, Any]:
    """The template `name/language` with the text, on one line. It ends with what users type in
    place of the buttons, which a template does not have."""
    name, _, language = template.partition("/")
    choices = [f"{it.typed} ({it.label})" for it in buttons if it.typed]
    hint = f" Answer {' or '.join(choices)}." if choices else ""
    line = one_line(text, _PARAMETER - len(hint)) + hint
    body = {"type": "body", "parameters": [{"type": "text", "text": line}]}
    return {"name": name, "language": {"code": language or "en"}, "components": [body]}


def file_kind(file: Upload) -> tuple[str, str]:
    """The kind of message with which WhatsApp takes the file, and the media type to give."""
    media_type = file.media_type.partition(";")[0]
    kind = UPLOADS.kind(media_type, len(file.data))
    if kind is None:
        reason = f"WhatsApp does not take files of the type {media_type}, or of this size"
        raise Refused(415, reason)
    return kind.name, kind.sent_as or media_type
