"""The models in use, each connected once."""

from __future__ import annotations

from typing import Protocol

from segue.agent.models.base import Model
from segue.agent.models.choice import check_account, choose, connect
from segue.config import Settings


class Models(Protocol):
    """Where a turn gets its model from."""

    async def get(self, wanted: str | None) -> Model:
        """The model of that name, or without one the usual one; a ModelError when there is
        none."""
        ...

    async def close(self) -> None: ...


class Pool:
    """Chooses by the settings, once for every name: a conversation does not change its model
    because a server came up meanwhile."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._names: dict[str | None, str] = {}
        self._models: dict[str, Model] = {}

    async def get(self, wanted: str | None) -> Model:
        if wanted not in self._names:
            self._names[wanted] = (await choose(self._settings, wanted)).name
        name = self._names[wanted]
        check_account(name, self._settings)
        if name not in self._models:
            self._models[name] = connect(name, self._settings)
        return self._models[name]

    async def close(self) -> None:
        models, self._models = self._models, {}
        for model in models.values():
            await model.close()
