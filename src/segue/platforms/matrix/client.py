"""Matrix's client-server API over our HTTP client, and what its errors mean."""

from __future__ import annotations

import json
from typing import Any, TypeVar
from urllib.parse import quote

from segue.core.address import Platform
from segue.platforms.errors import FailureRule, Failures, Refused, parsed
from segue.platforms.http import HttpClient, bearer, decode, encode
from segue.platforms.matrix import events
from segue.platforms.matrix.events import MatrixAnswer

T = TypeVar("T")

_API = "/_matrix/client/v3"
_MEDIA = "/_matrix/client/v1/media/download"
_UPLOAD = "/_matrix/media/v3/upload"
_UPLOAD_SECONDS = 60.0
_MXC_LENGTH = 600
"""A server's name and the id of a file have 255 characters at most."""
_NONE = {"types": list[str]()}
_ROOM = {"account_data": _NONE, "ephemeral": _NONE, "state": _NONE, "timeline": {"limit": 50}}
_FILTER = json.dumps({"presence": _NONE, "account_data": {"types": ["m.direct"]}, "room": _ROOM})
_AGAIN = "type `segue setup matrix` and sign in again"
_LOGGED_OUT = f"the access token is not right, or the device was logged out; {_AGAIN}"
_SOFT = f"the server asks the bot to sign in again; {_AGAIN}. The bot keeps its keys"
_THREAD_GONE = (
    "the message that began the thread is not there; go on with `segue resume` in a terminal, or "
    "with /resume in another room"
)
_SIGNED_OUT = (
    FailureRule(_SOFT, ("soft_logout",), status=(401,), account=True),
    FailureRule(_LOGGED_OUT, status=(401,), account=True),
)

FAILURES = Failures(
    Platform.MATRIX,
    connecting=_SIGNED_OUT,
    delivering=(
        *_SIGNED_OUT,
        FailureRule("the message is too large for the server", ("M_TOO_LARGE",)),
        FailureRule(_THREAD_GONE, ("unknown event", "relation", "thread"), status=(400,)),
        FailureRule("the bot may not write in that room, or is not in it", ("M_FORBIDDEN",)),
    ),
    thread_gone=_THREAD_GONE,
    bad_markup="M_TOO_LARGE",
)


class MatrixClient:
    """Calls one homeserver as one device."""

    def __init__(self, url: str, token: str, silence: float) -> None:
        """Raise ConnectFailed if `token` cannot be one. Without one, only public calls work."""
        self.url = url.rstrip("/")
        with FAILURES.connecting():
            headers = bearer(token) if token else {}
        self._http = HttpClient(silence=silence, secret=token, headers=headers, refusal=_refused)
        self.close = self._http.close

    async def call(self, method: str, path: str, kind: type[T], **more: Any) -> T:
        """Call the path, whose parts are quoted by `path`. `more` is that of HttpClient.request."""
        body = await self._http.request(method, f"{self.url}{path}", **more)
        return decode(body, kind)

    async def get(self, path: str, kind: type[T] = MatrixAnswer, **params: Any) -> T:
        return await self.call("GET", f"{_API}{path}", kind, params=params)

    async def post(self, path: str, given: object, kind: type[T] = MatrixAnswer) -> T:
        return await self.call("POST", f"{_API}{path}", kind, content=encode(given))

    async def put(self, path: str, given: object, kind: type[T] = MatrixAnswer) -> T:
        return await self.call("PUT", f"{_API}{path}", kind, content=encode(given))

    async def sync(self, since: str, seconds: float) -> events.Synced:
        """Wait for updates, at most that long."""
        params = {"filter": _FILTER, "timeout": f"{seconds * 1000:.0f}"}
        if since:
            params["since"] = since
        silence = seconds + self._http.silence
        path = f"{_API}/sync"
        return await self.call("GET", path, events.Synced, params=params, seconds=silence)

    async def upload(self, data: bytes, media_type: str, name: str) -> str:
        """Upload a file, and return its mxc URL."""
        answer = await self.call(
            "POST",
            _UPLOAD,
            MatrixAnswer,
            params={"filename": name} if name else {},
            headers={"Content-Type": media_type},
            content=data,
            seconds=_UPLOAD_SECONDS,
        )
        return answer.content_uri

    async def download(self, mxc: str, limit: int) -> bytes:
        server, _, name = mxc.removeprefix("mxc://").partition("/")
        is_file = mxc.startswith("mxc://") and mxc.isprintable() and len(mxc) <= _MXC_LENGTH
        if not is_file or not server or not name:
            raise Refused(404, "that is no file on Matrix")
        url = f"{self.url}{_MEDIA}{path(server, name)}"
        return await self._http.request("GET", url, limit=limit)


def path(*parts: str) -> str:
    """A path of these parts, quoted."""
    return "".join(f"/{quote(part, safe='', errors='replace')}" for part in parts)


def _refused(status: int, body: bytes) -> Refused:
    error = parsed(body, MatrixAnswer) or MatrixAnswer()
    code = "soft_logout" if error.soft_logout else error.errcode
    reason = error.error or code or f"HTTP {status}"
    after = None if error.retry_after_ms is None else error.retry_after_ms / 1000
    return Refused(status, reason, code=code, after=after)
