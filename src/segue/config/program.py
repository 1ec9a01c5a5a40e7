"""How the user runs this program in a shell."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

NAME = "segue"


def command_name(environ: Mapping[str, str]) -> str:
    """Return `segue` if it is on the PATH, or else the path of the program, quoted for a shell.

    The path is relative if the program is inside the directory of the user's shell.
    """
    if shutil.which(NAME, path=environ.get("PATH", "")):
        return NAME
    program, directory = Path(sys.prefix) / "bin" / NAME, environ.get("PWD", "")
    # Not the working directory: a resumed session changes it, but not that of the shell.
    if directory and program.is_relative_to(directory) and program.parent != Path(directory):
        program = program.relative_to(directory)
    return shlex.quote(str(program))
