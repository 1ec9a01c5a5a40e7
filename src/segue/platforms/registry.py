"""All platforms, and how their adapters are made. A new platform is one line in BUILT_IN."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

from segue.core.address import Platform
from segue.core.errors import BadAdapter, LibraryMissing, ValuesMissing
from segue.core.handoff import TARGETS
from segue.platforms.spec import Field, PlatformSettings, PlatformSpec
from segue.platforms.telegram.spec import TELEGRAM

if TYPE_CHECKING:
    from segue.platforms.base import Adapter

BUILT_IN = (TELEGRAM,)

SPECS: Mapping[str, PlatformSpec] = {
    **{platform: PlatformSpec(platform=platform, title=platform) for platform in TARGETS},
    **{spec.platform: spec for spec in BUILT_IN},
}
"""Every platform. One that is not built in can have an adapter from outside, which gets a token and
a URL."""


def fields() -> dict[str, tuple[PlatformSpec, Field]]:
    """Return the fields of all platforms by the names of their settings."""
    return {spec.setting(field): (spec, field) for spec in SPECS.values() for field in spec.fields}


def make(platform: Platform, settings: PlatformSettings) -> Adapter:
    """Create the adapter of `platform`, not yet connected.

    Raise ValuesMissing, LibraryMissing or BadAdapter if that is impossible. An adapter's function
    is called with the PlatformSettings, and may reject them with a UserError.
    """
    spec = SPECS[platform]
    name = settings.adapter or spec.make
    if not name:
        raise BadAdapter(platform=platform, reason="this version has none of its own for it")
    missing = [field for field in spec.fields if field.required and not settings.value(field.name)]
    if missing and not settings.adapter:
        raise ValuesMissing(
            platform=platform,
            settings=", ".join(map(spec.setting, missing)),
            variables=", ".join(map(spec.variable, missing)),
        )
    module, _, function = name.partition(":")
    try:
        found = getattr(import_module(module), function)
    except (ImportError, SyntaxError) as error:
        library, _, _ = str(getattr(error, "name", "")).partition(".")
        if library in spec.libraries:
            raise LibraryMissing(platform=platform, extra=spec.extra) from error
        raise BadAdapter(platform=platform, reason=f"{name}: {error}") from error
    except AttributeError as error:
        raise BadAdapter(platform=platform, reason=f"there is no {name}") from error
    if not callable(found):
        raise BadAdapter(platform=platform, reason=f"{name} is no function")
    made = cast("Adapter", found(settings))
    if made.platform is not platform:
        raise BadAdapter(platform=platform, reason=f"{name} is one for {made.platform}")
    return made
