"""Builds a store. `stores.build` runs this in a process with the program's code at SCHEMA, and then
with `--upgrade` in one with that of today."""

from __future__ import annotations

import argparse
import asyncio

from benchmarks.scale import stores
from benchmarks.scale.stores import Size


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("sessions", type=int)
    parser.add_argument("--owners", action="store_true")
    parser.add_argument("--upgrade", action="store_true")
    options = parser.parse_args()
    size = Size(sessions=options.sessions, has_many_owners=options.owners)
    if options.upgrade:
        asyncio.run(stores.upgrade(options.url))
    else:
        asyncio.run(stores.fill(options.url, size))


if __name__ == "__main__":
    main()
