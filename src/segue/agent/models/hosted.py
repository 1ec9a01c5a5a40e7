"""A model that a provider of its own wire format serves to whoever has a key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import ClassVar, Protocol, TypeVar

import msgspec

from segue.agent.models.base import Piece, Prompt
from segue.agent.models.fallbacks import carried, conceding
from segue.agent.models.http import Client, Endpoint, Patience, Refusal
from segue.core.errors import ContextTooLong, ModelError

T = TypeVar("T")


class Faults(Protocol):
    """Reads what a provider says when it will not answer."""

    def explain(self, refusal: Refusal) -> ModelError:
        """What it means to the person; a MsgspecError when the provider's API did not say it."""
        ...

    def too_long(self) -> ContextTooLong: ...


class HostedModel(ABC):
    """All of such a model but what is sent, and how the answer and the refusals are read."""

    PROVIDER: ClassVar[str]
    BASE_URL: ClassVar[str]
    SENT_BACK: ClassVar[Mapping[str, str]]
    """What goes back as it came: its name in the extras, and the word for it in a refusal."""

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
        patience: Patience | None = None,
    ) -> None:
        """`setting` is where the person put the key: a bad one is reported with it."""
        self.name = name
        self.context = context
        self.small = small
        self.images = images
        self._model = model
        self._setting = setting
        self._client = Client(
            Endpoint(
                provider=self.PROVIDER,
                base_url=self.BASE_URL if base_url is None else base_url,
                headers=self._headers(key),
                explain=self._explain,
                patience=patience or Patience(),
            )
        )

    async def close(self) -> None:
        await self._client.close()

    def stream(self, prompt: Prompt) -> AsyncGenerator[Piece]:
        """The answer, piece by piece, ending with End; or a ModelError.

        What the provider wants to see again of its earlier answers goes back as it came. When it
        is refused, the same is asked once more without any of it. So it is with pictures.
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
        """Ask once, with all that is named (see `refused.carried`)."""
        ...

    def _explain(self, refusal: Refusal) -> ModelError | None:
        try:
            return self._faults.explain(refusal)
        except msgspec.MsgspecError:
            # A proxy's page, as a rule: all that it tells is its status.
            return self._faults.too_long() if refusal.status == 413 else None


def read(data: str, decoder: msgspec.json.Decoder[T], provider: str) -> T:
    """An event of the stream; or a ModelError when it is something else."""
    try:
        return decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise ModelError(provider=provider, reason="a stream that cannot be read") from error
