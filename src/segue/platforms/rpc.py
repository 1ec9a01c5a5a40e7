"""JSON-RPC 2.0 over HTTP: https://www.jsonrpc.org/specification."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec import Raw, Struct

from segue.platforms.errors import Lost, Refused
from segue.platforms.http import HttpClient, decode, encode

T = TypeVar("T")

_JSON = {"Content-Type": "application/json"}


class RpcError(Struct, frozen=True):
    code: int
    message: str = ""
    data: Raw = Raw(b"null")


class _Answer(Struct, frozen=True):
    result: Raw = Raw(b"null")
    error: RpcError | None = None


class RpcClient:
    """Calls the methods of one server. Raises only Refused and Lost."""

    def __init__(
        self, http: HttpClient, url: str, failure: Callable[[RpcError], Refused | Lost]
    ) -> None:
        """`failure` says what an error means."""
        self._http = http
        self._url = url
        self._failure = failure
        self._ids = itertools.count(1)

    async def call(
        self, method: str, params: Mapping[str, object], kind: type[T], part: str = "", **more: Any
    ) -> T:
        """Call a method and return its result, or a part of it. `more` is that of
        HttpClient.exchange."""
        call = {"jsonrpc": "2.0", "method": method, "id": next(self._ids), "params": params}
        body = await self._http.request(
            "POST", self._url, content=encode(call), headers=_JSON, **more
        )
        answer = decode(body, _Answer)
        if answer.error is not None:
            raise self._failure(answer.error)
        result = decode(answer.result, dict[str, Raw]).get(part, Raw()) if part else answer.result
        return decode(result, kind)
