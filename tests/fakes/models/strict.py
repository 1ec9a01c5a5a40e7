"""The common part of the strict fakes whose providers have their own wire format."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from segue.testing.http import Request, Response
from tests.fakes.models.travel import AT_ONCE, Travel, travelling

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """An answer given as the raw bytes of its stream."""

    body: bytes
    travel: Travel = AT_ONCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error response, such as 429 with Retry-After, 529 or 500."""

    status: int
    kind: str
    message: str = "Something went wrong."
    details: Sequence[Json] = ()
    """Error details, for providers that send them."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class Refused(Exception):
    """Raised by a check: the request is answered with this failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class _Travels(Protocol):
    @property
    def travel(self) -> Travel: ...


A = TypeVar("A", bound=_Travels)


class StrictFake(ABC, Generic[A]):
    """A handler for `segue.testing.http.serving`.

    It checks and records each request, then answers with the next item of the script, or calls the
    script with the request.
    """

    CONTENT_TYPE: ClassVar[str] = "text/event-stream"
    BAD: ClassVar[str]
    """The kind of failure for an invalid request."""

    def __init__(
        self,
        script: Iterable[A | Stream | Failure] | Callable[[Json], A | Stream | Failure],
        *,
        key: str,
        models: Sequence[str],
        context: int,
        page: int,
    ) -> None:
        """`page` is the maximum number of models in one page of the list."""
        self._script = script if callable(script) else iter(script)
        self._key = key
        self._models = models
        self._context = context
        self._page = page
        self.requests: list[Json] = []
        """Every request that was valid JSON, refused or not."""
        self.refusals: list[str] = []
        """The error message of each refused request."""
        self.left = asyncio.Event()
        """Set when a client disconnects in the middle of an answer."""

    async def __call__(self, request: Request) -> Response:
        try:
            if request.method == "GET":
                return self._list(request)
            model = self._check(request)
        except Refused as refused:
            self.refusals.append(refused.failure.message)
            return self._refusal(refused.failure)
        reply = self._next()
        if isinstance(reply, Failure):
            return self._refusal(reply)
        stream = reply.body if isinstance(reply, Stream) else self._streamed(reply, model)
        return Response(
            headers={"Content-Type": self.CONTENT_TYPE},
            body=travelling(stream, reply.travel, self.left),
        )

    def _next(self) -> A | Stream | Failure:
        if callable(self._script):
            return self._script(self.requests[-1])
        over = Failure(status=400, kind=self.BAD, message="The script is at its end")
        return next(self._script, over)

    @abstractmethod
    def _list(self, request: Request) -> Response:
        """Return a page of models. Raises Refused where the real API would refuse."""
        ...

    @abstractmethod
    def _check(self, request: Request) -> str:
        """Record the request and return its model. Raises Refused where the real API would."""
        ...

    @abstractmethod
    def _streamed(self, answer: A, model: str) -> bytes: ...

    @abstractmethod
    def _refusal(self, failure: Failure) -> Response:
        """Return a failure in the API's format."""
        ...


def tokens(body: Json, pictures: Sequence[str], each: int) -> int:
    """Estimate the tokens of a request. Each of the base64 `pictures` in it counts `each`.

    A token is about four bytes; the exact count does not matter here.
    """
    return (len(msgspec.json.encode(body)) - sum(map(len, pictures))) // 4 + len(pictures) * each
