"""Settings that change while the gateway runs."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from datetime import tzinfo

from segue import config
from segue.config import Settings
from segue.core.errors import BadSettings, NoPage

LOOK_SECONDS = 1.0
"""Seconds between two looks at the settings file."""

logger = logging.getLogger(__name__)


class SettingsWatch:
    """Applies the settings again whenever their file was written, even if it says the same: `segue
    setup` does that after it installed packages."""

    def __init__(
        self, used: Settings, load: Callable[[], Settings], apply: Callable[[Settings], None]
    ) -> None:
        """`used` are the settings that the gateway started with."""
        self._used = used
        self._load = load
        self._apply = apply

    async def run(self) -> None:
        seen = None
        while True:
            try:
                found = config.text(), config.written()
                if found != seen:
                    is_first = seen is None
                    seen = found
                    self._reload(is_first=is_first)
            except (BadSettings, NoPage) as error:  # the gateway keeps the settings that it has
                logger.warning("settings not reloaded: %s", error)
            await asyncio.sleep(LOOK_SECONDS)

    def _reload(self, *, is_first: bool) -> None:
        settings = self._load()
        changed = _changed(self._used, settings)
        self._used = settings
        if now := sorted(changed & config.RELOADED):
            self._apply(settings)
            logger.info("settings reloaded changed=%s", ", ".join(now))
        elif not changed and not is_first:
            self._apply(settings)
            logger.info("settings read again, unchanged")
        if later := sorted(changed - config.RELOADED):
            logger.warning("settings changed, restart to use them changed=%s", ", ".join(later))


def _changed(before: Settings, after: Settings) -> frozenset[str]:
    """The names of the settings, or of their tables, that differ."""
    return frozenset(
        field.metadata.get("setting", field.name)
        for field in dataclasses.fields(Settings)
        if field.name not in {"model_from", "warnings"}
        and _value(before, field.name) != _value(after, field.name)
    )


def _value(settings: Settings, name: str) -> object:
    value = getattr(settings, name)
    return str(value) if isinstance(value, tzinfo) else value  # zones are equal only if identical
