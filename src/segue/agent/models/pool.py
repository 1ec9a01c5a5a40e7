"""The models in use, each connected once."""

from __future__ import annotations

from typing import Protocol

from segue.agent.models import routes
from segue.agent.models.base import Model
from segue.agent.models.catalog import LOCAL, SCRIPTED
from segue.agent.models.choice import choose, connect
from segue.config import Settings


class Models(Protocol):
    """The source of models for turns."""

    async def get(self, wanted: str | None) -> Model:
        """Return the model `wanted`, or the default model if None. Raise ModelError if there is
        none."""
        ...

    async def close(self) -> None: ...


class Pool:
    """Chooses by the settings, once per name, so that a conversation does not change its model
    because a server comes up later."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._names: dict[str | None, str] = {}
        self._models: dict[str, Model] = {}
        self._retired: list[Model] = []
        """Models of earlier settings, which running turns may still use."""

    async def get(self, wanted: str | None) -> Model:
        if wanted not in self._names:
            self._names[wanted] = (await choose(self._settings, wanted)).name
        name = self._names[wanted]
        if name not in {LOCAL, SCRIPTED}:
            routes.check_account(routes.find(name, self._settings), self._settings)
        if name not in self._models:
            self._models[name] = connect(name, self._settings)
        return self._models[name]

    def reload(self, settings: Settings) -> None:
        """Choose by new settings from now on. Turns that are running keep their models."""
        self._settings = settings
        self._retired += self._models.values()
        self._names, self._models = {}, {}

    async def close(self) -> None:
        models, self._models, self._retired = [*self._retired, *self._models.values()], {}, []
        for model in models:
            await model.close()
