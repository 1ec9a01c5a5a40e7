"""Which platforms a gateway speaks to: those of the settings, and the built-in page."""

from __future__ import annotations

from importlib import import_module

from segue.config import Settings
from segue.core.address import Platform
from segue.platforms import registry
from segue.platforms.base import Adapter
from segue.store import Store

_PAGE = "segue.web.adapter"


def adapters(settings: Settings, store: Store) -> list[Adapter]:
    """Each loads what it needs only now; BadAdapter when one cannot be had."""
    enabled = {name: given for name, given in settings.platforms.items() if given.enabled}
    found = [registry.make(platform, given) for platform, given in enabled.items()]
    if settings.web.enabled and Platform.WEB not in enabled:
        # The page's server is ours, and keeps what it shows in our store.
        found.append(import_module(_PAGE).make(settings.web, store))
    return found
