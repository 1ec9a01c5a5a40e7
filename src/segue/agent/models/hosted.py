"""Base class for the models of providers that have their own wire format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import ClassVar, Protocol, TypeVar

import msgspec

from segue.agent.models.base import Piece, Prompt
from segue.agent.models.fallbacks import carried, conceding
from segue.agent.models.http import ProviderClient, ProviderEndpoint, Refusal, Timeouts
from segue.core.errors import ContextTooLong, ModelError

T = TypeVar("T")


class Faults(Protocol):
    """Translates a provider's error responses."""

    def explain(self, refusal: Refusal) -> ModelError:
        """The error to report to the user. Raise MsgspecError if the body is not an API error."""
        ...

    def too_long(self) -> ContextTooLong: ...


class HostedModel(ABC):
    """A hosted model. Subclasses build the request and parse the answer and the errors."""

    PROVIDER: ClassVar[str]
    BASE_URL: ClassVar[str]
    SENT_BACK: ClassVar[Mapping[str, str]]
    """Maps the extras key of content to send back verbatim to the keyword for it in error messages.
    """

    def __init__(
        self,
        *,
        name: str,
        model: str,
        key: str,
        setting: str,
        context: int,
        base_url: str | None = None,
        small: bool = False,
        images: bool = True,
        patience: Timeouts | None = None,
    ) -> None:
        """`setting` is where the user set the key. It is named in the error for a bad key."""
        self.name = name
        self.context = context
        self.small = small
        self.images = images
        self._model = model
        self._setting = setting
        self._client = ProviderClient(
            ProviderEndpoint(
                provider=self.PROVIDER,
                base_url=self.BASE_URL if base_url is None else base_url,
                headers=self._headers(key),
                explain=self._explain,
                patience=patience or Timeouts(),
            )
        )

    async def close(self) -> None:
        await self._client.close()

    def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        """Stream the answer piece by piece, ending with End. Raise ModelError on failure.

        Content that the provider wants back from its earlier answers is sent verbatim. If the
        provider rejects it, the request is sent once more without it. The same applies to pictures.
        """
        included = carried(prompt, images=self.images, extras=self.SENT_BACK)
        return conceding(partial(self._ask, prompt), included)

    @abstractmethod
    def _headers(self, key: str) -> Mapping[str, str]: ...

    @property
    @abstractmethod
    def _faults(self) -> Faults: ...

    @abstractmethod
    def _ask(self, prompt: Prompt, included: frozenset[str]) -> AsyncGenerator[Piece]:
        """Send the request once, with the optional content `included` (see `fallbacks.carried`)."""
        ...

    def _explain(self, refusal: Refusal) -> ModelError | None:
        try:
            return self._faults.explain(refusal)
        except msgspec.MsgspecError:
            # Usually a proxy's page, where only the status is useful.
            return self._faults.too_long() if refusal.status == 413 else None


def read(data: str, decoder: msgspec.json.Decoder[T], provider: str) -> T:
    """Decode an event of the stream. Raise ModelError if it cannot be decoded."""
    try:
        return decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise ModelError(provider=provider, reason="a stream that cannot be read") from error
