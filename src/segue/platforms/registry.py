"""All platforms, and how their adapters are made. A new platform is one line in BUILT_IN."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

from segue.core.address import TARGETS, Platform
from segue.core.errors import LibraryMissing, PlatformError
from segue.platforms.discord.spec import DISCORD
from segue.platforms.errors import bad_adapter
from segue.platforms.matrix.spec import MATRIX
from segue.platforms.signal.spec import SIGNAL
from segue.platforms.slack.spec import SLACK
from segue.platforms.spec import Field, PlatformSettings, PlatformSpec, UploadRules
from segue.platforms.telegram.spec import TELEGRAM
from segue.platforms.whatsapp.spec import WHATSAPP

if TYPE_CHECKING:
    from segue.platforms.base import Adapter

BUILT_IN = (TELEGRAM, DISCORD, SLACK, MATRIX, WHATSAPP, SIGNAL)

SPECS: Mapping[str, PlatformSpec] = {
    **{platform: PlatformSpec(platform=platform, title=platform) for platform in TARGETS},
    Platform.WEB: PlatformSpec(
        platform=Platform.WEB, title=Platform.WEB, uploads=UploadRules(most=0)
    ),
    **{spec.platform: spec for spec in BUILT_IN},
}
"""Every platform, in the order in which they are listed. Any can have an adapter from outside."""


def fields() -> dict[str, tuple[PlatformSpec, Field]]:
    """Return the fields of all platforms by the names of their settings."""
    found: dict[str, tuple[PlatformSpec, Field]] = {}
    for spec in SPECS.values():
        for field in spec.fields:
            found[spec.setting(field)] = (spec, field)
    return found


def listed() -> str:
    """Return the names of all platforms, for the user."""
    return ", ".join(SPECS)


def make(platform: Platform, settings: PlatformSettings) -> Adapter:
    """Create the adapter of `platform`, not yet connected.

    Raise PlatformError if that is impossible: LibraryMissing without the packages that it needs.
    The adapter's function is called with the PlatformSettings, and may reject them with a
    UserError.
    """
    spec = SPECS[platform]
    name = settings.adapter or spec.make
    missing = [field for field in spec.fields if field.required and not settings.value(field.name)]
    if missing and not settings.adapter:
        values = ", ".join(map(spec.setting, missing))
        variables = ", ".join(map(spec.variable, missing))
        raise PlatformError(
            f"{platform} has no value for {values}. Type `segue setup {platform}`, or set"
            f" {variables}."
        )
    made = cast("Adapter", load(spec, name)(settings))
    if made.platform is not platform:
        raise bad_adapter(platform, f"{name} is one for {made.platform}")
    return made


def load(spec: PlatformSpec, name: str) -> Callable[[PlatformSettings], object]:
    """Import the function `name`, which makes the adapter. Raise what `make` raises."""
    platform = spec.platform
    module, _, function = name.partition(":")
    try:
        found = getattr(import_module(module), function)
    except (ImportError, SyntaxError) as error:
        library, _, _ = str(getattr(error, "name", "")).partition(".")
        if library in spec.libraries:
            raise LibraryMissing(platform=platform, extra=spec.extra) from error
        raise bad_adapter(platform, f"{name}: {error}") from error
    except AttributeError as error:
        raise bad_adapter(platform, f"there is no {name}") from error
    if not callable(found):
        raise bad_adapter(platform, f"{name} is no function")
    return found
