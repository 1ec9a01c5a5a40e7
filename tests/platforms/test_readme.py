"""The table of platforms in the README, compared with what the adapters declare."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from segue.platforms import registry
from segue.platforms.adapter import BaseAdapter
from segue.platforms.base import Capabilities
from segue.web.adapter import WebAdapter

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
HEAD, *ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in re.findall(r"^\| (?:\||\[).*$", README, re.MULTILINE)
]
TABLE = {re.sub(r"\[(.*)\].*", r"\1", name): cells for name, *cells in ROWS}
KEYED_LATER = ("Slack",)
"""Those that decide when they connect. With the scopes of its manifest, Slack has keys."""


def adapters() -> dict[str, Any]:
    """The class of each adapter, by the name of the platform."""
    found: dict[str, Any] = {"web page": WebAdapter}
    for spec in registry.BUILT_IN:
        module = import_module(f"segue.platforms.{spec.platform}.adapter")
        found[spec.title] = getattr(module, f"{spec.title}Adapter")
    return found


def test_the_table_has_every_platform():
    assert list(TABLE) == list(adapters())


@pytest.mark.parametrize("platform", TABLE)
def test_the_table_says_what_the_adapter_declares(platform: str):
    adapter = adapters()[platform]
    able: Capabilities = adapter.capabilities
    grows = "edits" if able.edits else "–"
    expected = {
        "threads": able.threads,
        "edits": able.edits,
        "buttons": "reactions" if able.reactions else able.buttons,
        "files": able.files,
        "streaming": grows if adapter.previews is BaseAdapter.previews else "previews",
        "keys": able.keys or platform in KEYED_LATER,
    }
    signs: dict[Any, str] = {True: "✓", False: "–"}
    cells = {name: signs.get(it, it) for name, it in expected.items()}
    assert dict(zip(HEAD[1:], TABLE[platform], strict=True)) == cells
