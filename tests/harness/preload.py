"""Imports the whole program, for the process from which `tests.program` forks all others.

It also triggers what the program computes on first use: schemas, certificates, key bindings.
"""

from __future__ import annotations

import gc
import importlib
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import segue
from segue.agent.tools.base import Tool
from segue.system.http import tls
from segue.terminal.render import stream

_CODE = Path(segue.__file__).parents[1]

for path in sorted(Path(segue.__file__).parent.rglob("*.py")):
    if path.stem not in ("__init__", "__main__"):
        importlib.import_module(".".join(path.relative_to(_CODE).with_suffix("").parts))
for name in (
    "anyio._backends._asyncio",
    "anyio.streams.tls",
    "anyio.to_thread",
    "concurrent.futures.thread",
    "certifi.core",
    "getpass",
    "gzip",
    "httpcore",
    "httpcore._async.http11",
    "httpcore._backends.anyio",
    "httpcore2._async.http11",
    "httpcore2._backends.anyio",
    "importlib.readers",
    "importlib.resources.readers",
    "prompt_toolkit.input.vt100",
    "prompt_toolkit.key_binding.bindings.search",
    "prompt_toolkit.patch_stdout",
    "pygments.lexers.python",
    "segno",
    "tomlkit",
    "tomllib",
    "truststore",
):  # libraries import these on first use
    importlib.import_module(name)
tls(trust_env=True)
tls(trust_env=False)
stream.warm()
for tool in gc.get_objects():
    if isinstance(tool, Tool):
        _ = tool.spec
with create_pipe_input() as typed:
    typed.send_text("/help\r")
    PromptSession[str](input=typed, output=DummyOutput()).prompt()
gc.freeze()  # keep these objects in memory shared with forked processes
