"""Shell commands in the program's texts, which name them as `segue …` in backticks or quotes."""

from __future__ import annotations

import re

from segue import config

_COMMAND = re.compile(r"(?<=[`'])segue(?=[ `'])")


def pasteable(text: str) -> str:
    """Return `text` with its commands as the user can type them in a shell."""
    return _COMMAND.sub(lambda _: config.command_name(), text) if "segue" in text else text
