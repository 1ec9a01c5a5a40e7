"""Settings that change while the gateway runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

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
        changed = config.changed(self._used, settings)
        self._used = settings
        if now := sorted(changed & config.RELOADED):
            self._apply(settings)
            logger.info("settings reloaded changed=%s", ", ".join(now))
        elif not changed and not is_first:
            self._apply(settings)
            logger.info("settings read again, unchanged")
        if later := sorted(changed - config.RELOADED):
            logger.warning("settings changed, restart to use them changed=%s", ", ".join(later))
