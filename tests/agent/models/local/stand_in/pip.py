"""A fake pip, because the real one takes longer to start than most tests.

It supports `download` from an index on loopback, and `install` from a folder of wheels, as far as
Segue uses them. The real pip passes the same tests in `make test-real`.
"""

# ruff: noqa: TID251 - it is another program, with a separate environment

from __future__ import annotations

import hashlib
import http.client
import os
import re
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit


def fail(reason: str) -> NoReturn:
    print(f"ERROR: {reason}", file=sys.stderr)
    sys.exit(1)


def download(requirement: str, folder: Path) -> None:
    name = requirement.partition("==")[0]
    index = urlsplit(os.environ["PIP_INDEX_URL"])
    connection = http.client.HTTPConnection(index.netloc)
    half_done = Path(os.environ["TMPDIR"]) / "wheel"
    try:
        connection.request("GET", f"{index.path}/{name}/")
        found = re.search(r'href="(.*?)"', connection.getresponse().read().decode())
        if found is None:
            fail(f"No matching distribution found for {requirement}")
        connection.request("GET", found[1])
        answer = connection.getresponse()
        with half_done.open("wb") as file:
            while chunk := answer.read1(65536):
                file.write(chunk)
    except OSError as error:
        fail(f"Could not install packages due to an OSError: {error}")
    half_done.rename(folder / found[1].rpartition("/")[2])


def install(requirements: Path) -> None:
    requirement, wanted = requirements.read_text().strip().split(" --hash=sha256:")
    name, _, version = requirement.partition("==")
    wheel = Path(os.environ["PIP_FIND_LINKS"]) / f"{name}-{version}-py3-none-any.whl"
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != wanted:
        fail("THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(sysconfig.get_path("purelib"))
    print(f"Successfully installed {name}-{version}")


def main() -> None:
    given = dict(word.split("=", 1) for word in sys.argv if re.match("--.*=", word))
    match [word for word in sys.argv[1:] if not word.startswith("--")]:
        case ["download", requirement]:
            download(requirement, Path(given["--dest"]))
        case ["install"]:
            install(Path(given["--requirement"]))
        case other:
            fail(f"nobody stands in for {other}")


if __name__ == "__main__":
    main()
