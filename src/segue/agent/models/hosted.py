"""Models behind an API: one streaming request to a provider, with timeouts, retries and errors that
the user can act on, and the base class of the models in any wire format.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeVar, cast

import httpx2
import msgspec

from segue.agent.models.base import Piece, Prompt
from segue.agent.models.catalog import PROVIDERS, ApiFormat
from segue.core.errors import (
    BadKey,
    ContextTooLong,
    ModelBusy,
    ModelCutOff,
    ModelError,
    ModelOffline,
    ModelRefused,
    ModelServerError,
    ModelStalled,
)
from segue.core.text import whole
from segue.system import backoff, http

_BUSY = frozenset({408, 409, 429, 503, 529})
RETRIED = _BUSY | {500, 502, 504}
_BODY_LIMIT = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Timeouts and retries for a provider."""

    connect: float = 10.0
    silence: float = 120.0
    """Seconds without a byte after which the provider counts as stalled."""
    tries: int = 4
    first_pause: float = 0.5
    longest_pause: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A response that is not an event stream."""

    status: int
    body: str


def passing(status: int) -> type[ModelBusy | ModelServerError]:
    """The error for a status that a retry may change."""
    return ModelBusy if status in _BUSY else ModelServerError


def encoded(request: Mapping[str, Any]) -> bytes:
    """Encode the request as JSON, replacing unpaired surrogates (see `segue.core.text.whole`)."""
    try:
        return msgspec.json.encode(request)
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole(request))


def _whole(value: Any) -> Any:
    match value:
        case str():
            return whole(value)
        case Mapping():
            return {_whole(k): _whole(v) for k, v in cast("Mapping[Any, Any]", value).items()}
        case list() | tuple():
            return [_whole(v) for v in cast("list[Any]", value)]
        case _:
            return value


@dataclass(slots=True, kw_only=True)
class ProviderClient:
    """Talks to one provider. The connection pool is created on first use."""

    provider: str
    """Its title, for the user."""
    base_url: str
    headers: Mapping[str, str]
    explain: Callable[[Refusal], ModelError | None]
    """Translates the provider's error response, or returns None if it is unknown."""
    patience: Timeouts = Timeouts()
    reuse: bool = True
    """Whether to keep connections open for later requests."""
    _http: httpx2.AsyncClient | None = field(default=None, init=False)

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def events(self, path: str, body: bytes) -> AsyncGenerator[httpx2.ServerSentEvent]:
        """Stream the server-sent events of one POST request, retried with growing pauses until the
        first event arrives. After that, a broken connection raises ModelCutOff."""
        for left in reversed(range(self.patience.tries)):
            begun = False
            try:
                async with self._client().sse(
                    path, method="POST", content=body, max_event_size=None
                ) as source:
                    if source.response.status_code != 200:
                        pause = await self._refused(source.response, left)
                        await asyncio.sleep(self._pause(left, pause))
                        continue
                    if not _is_stream(source.response):
                        raise await self._no_stream(source.response)
                    async for event in source:
                        begun = True
                        yield event
                    return
            except httpx2.ReadTimeout as error:
                seconds = round(self.patience.silence)
                raise ModelStalled(provider=self.provider, seconds=seconds) from error
            except (httpx2.TransportError, httpx2.DecodingError) as error:
                if begun:
                    raise ModelCutOff(provider=self.provider) from error
                if not left:
                    raise self._offline(error) from error
                await asyncio.sleep(self._pause(left, None))
            except httpx2.InvalidURL as error:
                raise self._offline(error) from error

    def _offline(self, reason: Exception) -> ModelOffline:
        return ModelOffline(provider=self.provider, url=self.base_url, reason=reason)

    def _client(self) -> httpx2.AsyncClient:
        if self._http is None:
            self._http = http.client(
                self.base_url,
                headers={"Content-Type": "application/json", **self.headers},
                timeout=httpx2.Timeout(self.patience.silence, connect=self.patience.connect),
                limits=httpx2.Limits(max_keepalive_connections=None if self.reuse else 0),
            )
        return self._http

    async def _refused(self, response: httpx2.Response, left: int) -> float | None:
        """Return the pause that the provider asked for, if any. Raise if a retry is pointless."""
        error, reason = await self._explained(response)
        if error is not None and not isinstance(error, ModelBusy | ModelServerError):
            raise error
        if response.status_code not in RETRIED:
            raise ModelError(provider=self.provider, reason=reason)
        if not left:
            raise error or passing(response.status_code)(provider=self.provider, reason=reason)
        return http.retry_after(response, datetime.now(UTC))

    async def _no_stream(self, response: httpx2.Response) -> ModelError:
        """The error for a successful response that is not a stream, such as a web page. A retry
        would give the same response."""
        error, reason = await self._explained(response)
        return error or ModelError(provider=self.provider, reason=f"no stream, but {reason}")

    async def _explained(self, response: httpx2.Response) -> tuple[ModelError | None, str]:
        """The provider's error, if it is known, and the response as text."""
        body = (await http.read(response, _BODY_LIMIT)).decode("utf-8", "replace")
        error = self.explain(Refusal(status=response.status_code, body=body))
        return error, f"HTTP {response.status_code} {body.strip()[:300]}".strip()

    def _pause(self, left: int, asked: float | None) -> float:
        patience = self.patience
        if asked is not None:
            return min(asked, patience.longest_pause)
        return backoff.pause(patience.tries - left, patience.first_pause, patience.longest_pause)


async def read_out(events: AsyncGenerator[object], seconds: float) -> None:
    """Read `events` to the end, for at most `seconds`, so that the connection can be reused. Errors
    are ignored, because the answer is already complete."""
    with suppress(TimeoutError, ModelError):
        async with asyncio.timeout(seconds):
            async for _ in events:
                pass


def _is_stream(response: httpx2.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower() == "text/event-stream"


IMAGE = "image"

T = TypeVar("T")


class HostedModel(ABC):
    """A hosted model. Subclasses build the request and parse the answer and the errors."""

    WIRE: ClassVar[ApiFormat]
    SENT_BACK: ClassVar[Mapping[str, str]] = {}
    """Maps the extras key of content to send back verbatim to the keyword for it in error messages.
    """

    def __init__(
        self,
        *,
        name: str,
        model: str,
        base_url: str,
        key: str | None,
        setting: str,
        context: int,
        small: bool = False,
        images: bool | None = None,
        patience: Timeouts | None = None,
        reuse: bool = True,
    ) -> None:
        """`setting` is where the user set the key, for the error about a bad key. By default a
        model accepts pictures unless it is small."""
        self.name = name
        self.context = context
        self.small = small
        self.images = not small if images is None else images
        self._model = model
        self._key = (key or "").strip()
        self._setting = setting
        head = name.partition("/")[0]
        self._client = ProviderClient(
            provider=PROVIDERS[head].title if head in PROVIDERS else head,
            base_url=base_url,
            headers=self.WIRE.headers(self._key),
            explain=self._explain,
            patience=patience or Timeouts(),
            reuse=reuse,
        )

    async def close(self) -> None:
        await self._client.close()

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        """Stream the answer piece by piece, ending with End. Raise ModelError on failure.

        If the provider rejects pictures, or content of its earlier answers that is sent back
        verbatim, the request is repeated without it. A broken picture is part of every later
        request too, so it must not end the conversation.
        """
        if not (self._key.isascii() and self._key.isprintable()):
            raise self._error(BadKey)
        included = self._optional(prompt)
        while True:
            begun = False
            try:
                async with aclosing(self._ask(prompt, included)) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield piece
                return
            except ModelRefused as error:
                reason = str(error.fields["reason"]).lower()
                refused = {word for word in included if word in reason}
                if begun or not refused:
                    raise
                included -= refused

    def _optional(self, prompt: Prompt) -> frozenset[str]:
        """The content that the provider may reject, as the keywords in its error message: IMAGE for
        pictures, and those in SENT_BACK."""
        messages = prompt.messages
        words = {
            word
            for key, word in self.SENT_BACK.items()
            if any(message.extras and key in message.extras for message in messages)
        }
        if self.images and any(message.images for message in messages):
            words.add(IMAGE)
        return frozenset(words)

    @abstractmethod
    def _ask(self, prompt: Prompt, included: frozenset[str]) -> AsyncGenerator[Piece]:
        """Send the request once, with the optional content `included`."""

    @abstractmethod
    def _translate(self, refusal: Refusal) -> ModelError | None:
        """The error to report to the user. Raise MsgspecError if the body is not an API error."""

    def _explain(self, refusal: Refusal) -> ModelError | None:
        try:
            return self._translate(refusal)
        except msgspec.MsgspecError:
            # Usually a proxy's page, where only the status is useful.
            return self._error(ContextTooLong) if refusal.status == 413 else None

    def _error(self, kind: type[ModelError], reason: str = "", **more: object) -> ModelError:
        """An error with everything that its message may name."""
        # A conversation is too long for the model as the user knows it.
        model = self.name if kind is ContextTooLong else self._model
        known = {"provider": self._client.provider, "url": self._client.base_url}
        return kind(**known, model=model, setting=self._setting, reason=reason, **more)

    def _read(self, data: str, decoder: msgspec.json.Decoder[T]) -> T:
        """Decode an event of the stream. Raise ModelError if it cannot be decoded."""
        try:
            return decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise self._error(ModelError, "a stream that cannot be read") from error
