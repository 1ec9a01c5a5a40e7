"""Imports the whole program, for the process from which `tests.program` forks all others."""

from __future__ import annotations

import gc
import importlib
from pathlib import Path

import segue

_CODE = Path(segue.__file__).parents[1]

for path in sorted(Path(segue.__file__).parent.rglob("*.py")):
    if path.stem not in ("__init__", "__main__"):
        importlib.import_module(".".join(path.relative_to(_CODE).with_suffix("").parts))
gc.freeze()  # so that it stays in shared memory
