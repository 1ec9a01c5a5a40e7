"""Base class for the models behind an API, in any wire format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import ClassVar, TypeVar

import msgspec

from segue.agent.models.base import Piece, Prompt
from segue.agent.models.catalog import PROVIDERS, ApiFormat
from segue.agent.models.http import ProviderClient, Refusal, Timeouts
from segue.core.errors import BadKey, ContextTooLong, ModelError, ModelRefused

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
