"""The client for generateContent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import ClassVar
from urllib.parse import quote

from segue.agent.models.base import Piece, Prompt, Text
from segue.agent.models.fallbacks import IMAGE
from segue.agent.models.gemini.answer import EXTRAS, NEWS, GeminiAnswer
from segue.agent.models.gemini.faults import PROVIDER, GeminiFaults
from segue.agent.models.gemini.request import SEEN, build
from segue.agent.models.hosted import HostedModel, read
from segue.agent.models.http import encoded

_SIGNATURE = "signature"


class GeminiModel(HostedModel):
    """A Google model, accessed with an AI Studio key.

    Any other model or account rejects the signatures of earlier answers.
    """

    PROVIDER = PROVIDER
    BASE_URL = "https://generativelanguage.googleapis.com/v1beta"
    SENT_BACK: ClassVar[Mapping[str, str]] = {EXTRAS: _SIGNATURE}

    def _headers(self, key: str) -> Mapping[str, str]:
        return {"x-goog-api-key": key}

    @property
    def _bare(self) -> str:
        """The model's name without the collection prefix."""
        return self._model.removeprefix("models/")

    @property
    def _faults(self) -> GeminiFaults:
        return GeminiFaults(model=self._bare, setting=self._setting)

    async def _ask(self, prompt: Prompt, included: frozenset[str]) -> AsyncGenerator[Piece]:
        kinds = SEEN if IMAGE in included else ()
        asked = build(self._bare, prompt, signed=_SIGNATURE in included, kinds=kinds)
        path = f"/models/{quote(self._bare, safe='')}:streamGenerateContent?alt=sse"
        answer = GeminiAnswer()
        async with aclosing(self._client.events(path, encoded(asked))) as events:
            async for event in events:
                news = read(event.data, NEWS, PROVIDER)
                if news.error is not None:
                    raise self._faults.translate(news.error.code, news.error, event.data)
                for text in answer.take(news):
                    yield Text(text)
        for piece in answer.rest():
            yield piece
