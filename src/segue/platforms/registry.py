"""Which adapter speaks to a platform: a built-in one, or one that the settings name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from segue.config import PlatformSettings
from segue.core.address import Platform
from segue.core.errors import BadAdapter
from segue.platforms.base import Adapter

BUILT_IN: Mapping[Platform, str] = {Platform.TELEGRAM: "segue.platforms.telegram:make"}
"""`package.module:function` each. What it needs is imported when it is made, and only then."""

GUIDES: Mapping[Platform, str] = {Platform.TELEGRAM: "segue.platforms.telegram.guide:STEPS"}
"""Where each says how a person gets a token."""


def guide(platform: Platform) -> str:
    """What a person does to get a token there, a line for each step."""
    module, _, name = GUIDES[platform].partition(":")
    return getattr(import_module(module), name)


def make(platform: Platform, settings: PlatformSettings) -> Adapter:
    """The adapter of `platform`, not yet connected; BadAdapter when it cannot be had.

    Its function is called with the PlatformSettings, and may refuse them with a UserError.
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
