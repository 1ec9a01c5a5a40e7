"""What each extra installs: `python -m benchmarks.sizes` writes the table in docs/installation.md.

The packages are those of the lock files, for Linux and Python 3.11. Their sizes are those of the
files in this environment, which has all of them, without compiled bytecode.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from packaging.markers import Marker

from segue.platforms import registry

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/installation.md"
CORE = "core"
EXTRAS = (*(spec.extra for spec in registry.BUILT_IN), "postgres", "local", "backup", "all")
_SYSTEM = {
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "python_full_version": "3.11.0",
    "python_version": "3.11",
    "sys_platform": "linux",
}
_PIN = re.compile(r"^([a-z0-9][^ =]*)==([^ ;\\]+)(?: *; *([^\\\n]+))?", re.MULTILINE)
_ROW = re.compile(r"^\| `([a-z]+)` \| (\d+) \| [\d.]+ MB \| (.*) \|$", re.MULTILINE)
_MEGABYTE = 1_000_000


def lock(extra: str) -> Path:
    """The lock file of an extra, or of the core."""
    platforms = ROOT / "src/segue/platforms/requirements" / f"{extra}.txt"
    return platforms if platforms.exists() else ROOT / "requirements" / f"{extra}.txt"


def pins(extra: str) -> dict[str, str]:
    """The versions of the packages in a lock file, by name."""
    found = _PIN.findall(lock(extra).read_text())
    return {
        name: version
        for name, version, marker in found
        if not marker or Marker(marker.strip()).evaluate(_SYSTEM)
    }


def packages() -> dict[str, list[str]]:
    """The packages of the core, and those that each extra adds to them."""
    core = pins(CORE)
    added = {extra: sorted(pins(extra).keys() - core.keys()) for extra in EXTRAS}
    return {CORE: sorted(core), **added}


def written() -> dict[str, list[str]]:
    """The packages in the table of the page."""
    found: dict[str, list[str]] = {}
    for extra, count, names in _ROW.findall(PAGE.read_text()):
        found[extra] = [] if names == "none" else names.split(", ")
        assert len(found[extra]) == int(count), f"the number of packages of {extra}"
    return found


def size(name: str, version: str) -> int:
    """The size of an installed package in bytes."""
    found = metadata.distribution(name)
    if found.version != version:
        sys.exit(f"{name} is not installed as locked. Type `make clean`, then `make .venv/.dev`.")
    paths = [Path(str(file.locate())) for file in found.files or () if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.exists())


def table(sizes: Mapping[str, int]) -> str:
    """The rows of the table."""
    rows = ["| extra | packages | size | names |", "| --- | ---: | ---: | --- |"]
    for extra, names in packages().items():
        whole = sum(sizes[name] for name in names) / _MEGABYTE
        listed = ", ".join(names) or "none"
        rows.append(f"| `{extra}` | {len(names)} | {whole:.1f} MB | {listed} |")
    return "\n".join(rows)


def main() -> None:
    """Measure, and write the table into the page."""
    locked = {name: version for extra in (CORE, *EXTRAS) for name, version in pins(extra).items()}
    new = table({name: size(name, version) for name, version in locked.items()})
    page = PAGE.read_text()
    PAGE.write_text(re.sub(r"^\| extra \|.*(?:\n\|.*)*", new, page, count=1, flags=re.MULTILINE))
    print(new)


if __name__ == "__main__":
    main()
