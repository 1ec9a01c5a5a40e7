"""The package as its tools see it."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import segue

PACKAGE = Path(segue.__file__).parent

SHARED = {
    # The frames of the page's protocol and Telegram's own types have their protocol's names.
    *("Button", "Chat", "Message", "Origin", "Refused", "Say", "Tool", "Working"),
    # Findings of setup checks and of `segue doctor`.
    "Finding",
    # The settings of approvals, and the stored ones.
    "Approvals",
}
"""Names of several classes. Do not add to them."""


def test_every_folder_of_the_package_is_visible_to_the_import_linter():
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_a_class_name_is_unique_in_the_code_base():
    files = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "testing" not in path.parents]
    classes = Counter(
        node.name
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in classes.items() if count > 1} <= SHARED
