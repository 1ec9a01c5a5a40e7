"""Find the adapter of a platform: a built-in one, or one named in the settings."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from segue.config import PlatformSettings
from segue.core.address import Platform
from segue.core.errors import BadAdapter
from segue.platforms.base import Adapter

BUILT_IN: Mapping[Platform, str] = {Platform.TELEGRAM: "segue.platforms.telegram:make"}
"""`package.module:function` of each adapter, imported only when the adapter is made."""

GUIDES: Mapping[Platform, str] = {Platform.TELEGRAM: "segue.platforms.telegram.guide:STEPS"}
"""Where to find each platform's instructions for getting a token."""


def guide(platform: Platform) -> str:
    """Instructions for getting a token, one step per line."""
    module, _, name = GUIDES[platform].partition(":")
    return getattr(import_module(module), name)


def make(platform: Platform, settings: PlatformSettings) -> Adapter:
    """Create the adapter of `platform`, not yet connected. Raise BadAdapter if that is impossible.

    Its function is called with the PlatformSettings, and may reject them with a UserError.
    """
    name = settings.adapter or BUILT_IN.get(platform, "")
    if not name:
        raise BadAdapter(platform=platform, reason="this version has none of its own for it")
    module, _, function = name.partition(":")
    try:
        found = getattr(import_module(module), function)
    except (ImportError, SyntaxError) as error:
        raise BadAdapter(platform=platform, reason=f"{name}: {error}") from error
    except AttributeError as error:
        raise BadAdapter(platform=platform, reason=f"there is no {name}") from error
    if not callable(found):
        raise BadAdapter(platform=platform, reason=f"{name} is no function")
    made = cast("Adapter", found(settings))
    if made.platform is not platform:
        raise BadAdapter(platform=platform, reason=f"{name} is one for {made.platform}")
    return made
