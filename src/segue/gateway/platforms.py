"""The adapters of a gateway: the platforms from the settings, plus the built-in web page."""

from __future__ import annotations

from importlib import import_module

from segue.config import Settings
from segue.core.address import Platform
from segue.core.errors import UserError
from segue.platforms import registry
from segue.platforms.absent import Absent
from segue.platforms.base import Adapter
from segue.platforms.spec import PlatformSettings
from segue.store import Store

_PAGE = "segue.web.adapter"


def adapters(settings: Settings, store: Store) -> list[Adapter]:
    """Create the adapters, importing each module only now. A platform that fails to load is
    replaced by an Absent adapter and does not affect the others."""
    enabled = {name: given for name, given in settings.platforms.items() if given.enabled}
    found = [_made(platform, given) for platform, given in enabled.items()]
    if settings.web.enabled and Platform.WEB not in enabled:
        # The web page runs in this process and keeps its content in our store.
        found.append(import_module(_PAGE).make(settings.web, store))
    return found


def _made(platform: Platform, given: PlatformSettings) -> Adapter:
    try:
        return registry.make(platform, given)
    except UserError as error:
        return Absent(platform, f"{error} Then stop the gateway, and start it again")
