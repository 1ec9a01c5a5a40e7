"""A platform whose adapter needs a package that is not installed."""

from __future__ import annotations

from importlib import import_module

from segue.core.address import Platform
from segue.platforms import registry
from segue.platforms.spec import PlatformSpec

PACKAGE = "segue_tiny_platform"
SPEC = PlatformSpec(
    platform=Platform.SLACK,
    title="Slack",
    extra="slack",
    libraries=(PACKAGE,),
    make="tests.platforms.needy_adapter:make",
)
SPECS = {**registry.SPECS, SPEC.platform: SPEC}
REGISTERED = {"segue.platforms.registry.SPECS": "tests.platforms.needy:SPECS"}
"""For `tests.program.constants`: the spec is registered in a process."""


def is_there() -> bool:
    try:
        import_module(PACKAGE)
    except ImportError:
        return False
    return True
