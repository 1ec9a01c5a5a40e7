"""Imports the whole program, for the process from which `tests.program` forks all others."""

from __future__ import annotations

import gc
import importlib
from pathlib import Path

import segue
from segue.agent.models.http import trusted
from segue.testing.peers import tls

_CODE = Path(segue.__file__).parents[1]

for path in sorted(Path(segue.__file__).parent.rglob("*.py")):
    if path.stem not in ("__init__", "__main__"):
        importlib.import_module(".".join(path.relative_to(_CODE).with_suffix("").parts))
for name in (
    "anyio._backends._asyncio",
    "anyio.streams.tls",
    "anyio.to_thread",
    "concurrent.futures.thread",
    "httpcore2._async.http11",
    "httpcore2._backends.anyio",
    "importlib.resources.readers",
    "prompt_toolkit.input.vt100",
    "prompt_toolkit.key_binding.bindings.search",
    "prompt_toolkit.patch_stdout",
    "pygments.lexers.python",
    "tomllib",
    "truststore",
):  # which libraries import when they are first used
    importlib.import_module(name)
trusted()
tls()
gc.freeze()  # so that it stays in shared memory
