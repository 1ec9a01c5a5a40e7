"""The Cloud API over our HTTP client, and what its errors mean.

https://developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes
"""

from __future__ import annotations

from typing import Any, TypeVar

from segue.core.address import Platform
from segue.platforms.errors import FailureRule, Failures, Lost, Refused, parsed
from segue.platforms.http import HttpClient, bearer, decode, encode
from segue.platforms.whatsapp import wire

T = TypeVar("T")

_OFFICIAL = "https://graph.facebook.com"
_VERSION = "v23.0"
_FILES = "https://lookaside.fbsbx.com/"
_UPLOAD_SECONDS = 60.0
CLOSED = "#131047"
"""More than 24 hours have passed since the user wrote."""
_UNKNOWN = (
    "the access token is not right; generate one for a system user at "
    "https://business.facebook.com/settings and type `segue setup whatsapp`"
)
_MANAGER = "https://business.facebook.com/latest/whatsapp_manager"
_REASONS = {
    "you last wrote there more than 24 hours ago, and WhatsApp lets a bot write only until then; "
    "write something to the bot, or set platforms.whatsapp.template": (CLOSED,),
    "WhatsApp cannot deliver it: the number has no WhatsApp, an old version, or has blocked the "
    "bot": ("#131026",),
    "the number is not on the list of your test number; add it under API Setup at "
    "https://developers.facebook.com/apps": ("#131030",),
    f"Meta has restricted the account; see why at {_MANAGER}": ("#368", "#131031", "#130497"),
    f"Meta needs a way to be paid; add one at {_MANAGER}": ("#131042",),
    f"too many users have blocked or reported the bot; see {_MANAGER}": ("#131048",),
    "Meta does not let the app use this number; assign the WhatsApp account to the system user at "
    "https://business.facebook.com/settings": ("#10", "#131005", "#200", "#3"),
    "the number is not registered; register it under API Setup at "
    "https://developers.facebook.com/apps": ("#133010",),
    "WhatsApp does not take files of this type": ("#131053",),
    f"the template is not there in that language, or is not approved; see {_MANAGER}": (
        "#132001", "#132015", "#132016",
    ),
    "the template must have one parameter, in its body": ("#132000", "#132012", "#132018"),
}  # fmt: skip
_BUSY = ("#4", "#80007", "#130429", "#131056", "#131057", "#133016")

FAILURES = Failures(
    Platform.WHATSAPP,
    connecting=(
        FailureRule(_UNKNOWN, status=(401,)),
        FailureRule(
            "there is no number with that phone number ID, or the token is not for it; copy it "
            "from API Setup at https://developers.facebook.com/apps",
            ("#100", "#33"),
        ),
        *(FailureRule(reason, codes) for reason, codes in _REASONS.items()),
    ),
    delivering=(
        FailureRule(_UNKNOWN, status=(401,), account=True),
        FailureRule(says=_BUSY, retry=True),
        *(FailureRule(reason, codes) for reason, codes in _REASONS.items()),
    ),
)


class WhatsAppClient:
    """Calls the Graph API for one number."""

    def __init__(self, phone: str, token: str, app_secret: str, url: str, silence: float) -> None:
        """Raise ConnectFailed if one of them cannot be right."""
        with FAILURES.connecting():
            self._headers = bearer(token)
            if not app_secret:
                raise Lost("the app secret is missing", arrived=False)
        self._base = (url or _OFFICIAL).rstrip("/")
        self._phone = phone
        self._http = HttpClient(silence=silence, secret=token, refusal=_refused, trust_env=not url)

    async def close(self) -> None:
        await self._http.close()

    async def number(self) -> wire.NumberAnswer:
        fields = "display_phone_number,verified_name,webhook_configuration"
        return await self._call("GET", self._phone, wire.NumberAnswer, params={"fields": fields})

    async def send(self, to: str, kind: str, content: object, **more: Any) -> str:
        """Send a message and return its id. That it is accepted does not mean that it arrives."""
        given = {"messaging_product": "whatsapp", "recipient_type": "individual", "to": to}
        answer = await self._post({**given, "type": kind, kind: content, **more}, wire.SentAnswer)
        if not answer.messages:
            raise Lost("its answer has no message", arrived=True)
        return answer.messages[0].id

    async def mark_read(self, message: str, *, typing: bool = False) -> None:
        """Mark a message and those before it as read. `typing` also shows that indicator."""
        given = {"messaging_product": "whatsapp", "status": "read", "message_id": message}
        more = {"typing_indicator": {"type": "text"}} if typing else {}
        await self._post({**given, **more}, wire.SuccessAnswer)

    async def upload(self, name: str, media_type: str, content: bytes) -> str:
        """Return the id under which the file can be sent."""
        media = await self._call(
            "POST",
            f"{self._phone}/media",
            wire.NamedAnswer,
            data={"messaging_product": "whatsapp", "type": media_type},
            files={"file": (name, content, media_type)},
            seconds=_UPLOAD_SECONDS,
        )
        return media.id

    async def fetch(self, media: str, limit: int) -> bytes:
        """The content of a file. Its URL is valid for five minutes, so each call gets another."""
        url = (await self._call("GET", media, wire.NamedAnswer)).url
        if not url.startswith((_FILES, f"{self._base}/")):  # the token is for no other
            raise Refused(404, "the file is not on WhatsApp")
        return await self._http.request("GET", url, limit=limit, headers=self._headers)

    async def probe(self, url: str, **query: str) -> str:
        """The answer of our own webhook, through its public address. The token is not sent."""
        return (await self._http.request("GET", url, params=query, limit=1024)).decode(
            "utf-8", "replace"
        )

    async def _post(self, body: object, kind: type[T]) -> T:
        return await self._call(
            "POST",
            f"{self._phone}/messages",
            kind,
            content=encode(body),
            headers={"Content-Type": "application/json"},
        )

    async def _call(self, method: str, path: str, kind: type[T], **more: Any) -> T:
        headers = {**self._headers, **more.pop("headers", {})}
        url = f"{self._base}/{_VERSION}/{path}"
        return decode(await self._http.request(method, url, headers=headers, **more), kind)


def _refused(status: int, body: bytes) -> Refused:
    answer = parsed(body, wire.ErrorAnswer)
    if answer is None:
        return Refused(status, f"HTTP {status}")
    return Refused(status, answer.error.reason, code=f"#{answer.error.code}")
