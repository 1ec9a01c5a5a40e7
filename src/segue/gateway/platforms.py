"""Which platforms a gateway speaks to: those of the settings, and the built-in page."""

from __future__ import annotations

from importlib import import_module

from segue.config import PlatformSettings, Settings
from segue.core.address import Platform
from segue.core.errors import UserError
from segue.platforms import registry
from segue.platforms.absent import Absent
from segue.platforms.base import Adapter
from segue.store import Store

_PAGE = "segue.web.adapter"


def adapters(settings: Settings, store: Store) -> list[Adapter]:
    """Each loads what it needs only now. One that cannot be had does not keep the others away."""
    enabled = {name: given for name, given in settings.platforms.items() if given.enabled}
    found = [_made(platform, given) for platform, given in enabled.items()]
    if settings.web.enabled and Platform.WEB not in enabled:
        # The page's server is ours, and keeps what it shows in our store.
        found.append(import_module(_PAGE).make(settings.web, store))
    return found


def _made(platform: Platform, given: PlatformSettings) -> Adapter:
    try:
        return registry.make(platform, given)
    except UserError as error:
        return Absent(platform, f"{error} Then stop the gateway, and start it again")
