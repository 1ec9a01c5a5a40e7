"""A gateway must not pay for the library of a platform that it does not use."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Base, Figure, milliseconds

_WITHOUT = ""
_WITH = '[platforms.telegram]\ntoken = "1:a"\n'
_MOST = 0.9
"""The maximum ratio of load times. A gateway that loads an unused library would be near 1."""
_PROGRAM = """
import sys, time
from segue import config
from segue.gateway import connections, service
connections.load_adapters(config.load({"SEGUE_CONFIG": sys.argv[1]}), None)
modules = sum(name.partition(".")[0] == "telegram" for name in sys.modules)
print(time.process_time(), modules)
"""
"""Everything that a gateway loads before it connects, in a fresh interpreter."""


def measure(*, quick: bool) -> Iterator[Figure]:
    runs = 5 if quick else 15
    with tempfile.TemporaryDirectory() as folder:
        without, with_it = (_settings(Path(folder), text) for text in (_WITHOUT, _WITH))
        modules = [_once(without)[1], _once(with_it)[1]]  # this also fills caches
        if not modules[1]:
            raise RuntimeError("with Telegram its library should be loaded, and is not")
        pairs = [(_once(without)[0], _once(with_it)[0]) for _ in range(runs)]
    less = min(pair[0] for pair in pairs)
    more = min(pair[1] for pair in pairs)
    yield Figure(
        name="gateway: modules of Telegram's library, without Telegram",
        value=modules[0],
        unit="modules",
        target=0,
    )
    base = Base(name="with Telegram", value=more)
    yield milliseconds("gateway: to load everything, without Telegram: CPU", less, base, _MOST)


def _settings(folder: Path, text: str) -> Path:
    path = folder / f"{len(text)}.toml"
    path.write_text(text, "utf-8")
    path.chmod(0o600)
    return path


def _once(settings: Path) -> tuple[float, int]:
    """The processor seconds, and the number of the library's modules that were loaded."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(settings)], check=True, capture_output=True, text=True
    )
    used, modules = done.stdout.split()
    return float(used), int(modules)
