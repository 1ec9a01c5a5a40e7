"""Which adapter serves a platform."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.core.address import Platform
from segue.core.errors import PlatformError
from segue.platforms import registry
from segue.platforms.spec import PlatformSettings

OWN = """
from types import SimpleNamespace

from segue.core.address import Platform

adapters = []


def slack(settings):
    return SimpleNamespace(platform=Platform.SLACK, settings=settings)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "adapters_of_mine.py").write_text(OWN)
    return tmp_path


def named(adapter: str, platform: Platform = Platform.SLACK) -> PlatformSettings:
    return PlatformSettings(platform=platform, adapter=adapter)


def test_an_external_adapter_is_made_by_its_function(folder: Path):
    settings = named("adapters_of_mine:slack")
    made = registry.make(Platform.SLACK, settings)
    assert made.platform is Platform.SLACK
    assert vars(made)["settings"] is settings


@pytest.mark.parametrize(
    ("adapter", "expected"),
    [
        ("no_such_package.module:make", "no_such_package.module:make: No module named 'no_such"),
        ("adapters_of_mine:discord", "there is no adapters_of_mine:discord"),
        ("adapters_of_mine:adapters", "adapters_of_mine:adapters is no function"),
        ("broken_of_mine:make", "broken_of_mine:make: "),
    ],
)
def test_an_adapter_that_cannot_be_loaded_is_named_with_the_reason(
    folder: Path, adapter: str, expected: str
):
    (folder / "broken_of_mine.py").write_text("def make(:\n")
    with pytest.raises(PlatformError) as caught:
        registry.make(Platform.SLACK, named(adapter))
    assert f"The adapter for slack cannot be loaded: {expected}" in str(caught.value)
    assert "platforms.slack.adapter" in str(caught.value)


def test_an_adapter_for_another_platform_is_refused(folder: Path):
    with pytest.raises(PlatformError, match="adapters_of_mine:slack is one for slack"):
        registry.make(Platform.WEB, named("adapters_of_mine:slack", Platform.WEB))


def test_the_built_in_adapter_is_the_default(folder: Path, monkeypatch: pytest.MonkeyPatch):
    spec = replace(registry.SPECS[Platform.SLACK], make="adapters_of_mine:slack", fields=())
    monkeypatch.setattr(registry, "SPECS", {Platform.SLACK: spec})
    assert registry.make(Platform.SLACK, named("")).platform is Platform.SLACK
