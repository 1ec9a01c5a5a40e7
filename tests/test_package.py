"""The package as its tools see it."""

from __future__ import annotations

from pathlib import Path

import segue


def test_every_folder_of_the_package_is_visible_to_the_import_linter():
    folders = {path.parent for path in Path(segue.__file__).parent.rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []
