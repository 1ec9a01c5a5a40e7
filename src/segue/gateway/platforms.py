"""The adapters of a gateway, and the HTTP server of the built-in page and of webhooks."""

from __future__ import annotations

import importlib
from importlib import import_module

from segue.config import Settings
from segue.core.address import Platform
from segue.core.errors import UserError
from segue.platforms import registry
from segue.platforms.absent import Absent
from segue.platforms.base import Adapter
from segue.platforms.spec import PlatformSettings
from segue.platforms.webhook import Webhook, WebhookServer
from segue.store import Store

_PAGE = "segue.web.adapter"
_SERVER = "segue.web.server"


def load(settings: Settings, store: Store) -> tuple[list[Adapter], WebhookServer | None]:
    """Create the adapters, and the HTTP server if it is needed. Each module is imported only now.
    An Absent adapter replaces a platform that fails to load."""
    enabled = {name: given for name, given in settings.platforms.items() if given.enabled}
    found = [made(platform, given) for platform, given in enabled.items()]
    has_page = settings.web.enabled and Platform.WEB not in enabled
    if not has_page and not any(isinstance(adapter, Webhook) for adapter in found):
        return found, None
    server = http_server(settings, store)
    if has_page:
        # The web page runs in this process and keeps its content in our store.
        found.append(import_module(_PAGE).WebAdapter(store, server))
    return found, server


def http_server(settings: Settings, store: Store) -> WebhookServer:
    """The server of the page and of webhooks, which listens once something is mounted."""
    return import_module(_SERVER).SharedServer(settings.web, store)


def made(platform: Platform, given: PlatformSettings) -> Adapter:
    """The adapter of a platform, or an Absent one if it fails to load."""
    importlib.invalidate_caches()  # `segue setup` may have installed its packages
    try:
        return registry.make(platform, given)
    except UserError as error:
        return Absent(platform, str(error).removesuffix("."))
