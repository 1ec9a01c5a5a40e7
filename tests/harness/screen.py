"""The program on a real terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

from tests.program import PATH, start


def plain(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` with the variables that every program needs."""
    needed = {"PATH": PATH, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    return {**needed, "PYTHONPATH": os.pathsep.join(sys.path), **environment}


def on_screen(
    environment: Mapping[str, str],
    *words: str,
    columns: int = 80,
    keys: bytes = b"",
    prompt: str = "",
) -> tuple[int, str]:
    """Run the program on a terminal of that width. Return the exit code and the output.

    `keys` are typed at the `prompt`, or before the start if there is no `prompt`.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    if not prompt:
        os.write(ours, keys)
    with os.fdopen(ours, "rb", 0) as screen:
        process = start(
            *words,
            environment=plain(environment),
            cwd=Path.cwd(),
            output=theirs,
            errors=theirs,
            given=theirs,
            terminal=True,
        )
        os.close(theirs)
        printed = b""
        try:
            while chunk := screen.read(4096):
                printed += chunk
                if prompt and printed.endswith(prompt.encode()):
                    os.write(ours, keys)
                    prompt = ""
        except OSError:  # the last writer has closed the terminal
            pass
        return process.wait(50), printed.decode().replace("\r\n", "\n")
