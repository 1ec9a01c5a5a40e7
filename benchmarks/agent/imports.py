"""What importing each provider costs in a fresh interpreter."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

from benchmarks.alternation import by_turns, of_program
from benchmarks.figures import Base, Figure, milliseconds

PROVIDERS = ("openai", "anthropic", "gemini")
_BEYOND = 1.5
"""The maximum ratio of the import time of a provider to that of httpx2 alone."""


def measure(*, quick: bool) -> Iterator[Figure]:
    programs = {"": "pass", "httpx2": "import httpx2"}
    programs |= {name: f"import segue.agent.models.{name}" for name in PROVIDERS}
    ways = {
        name: partial(of_program, (sys.executable, "-c", program))
        for name, program in programs.items()
    }
    costs = by_turns(ways, 3 if quick else 10)
    base = Base(name="httpx2 alone", value=costs["httpx2"] - costs[""])
    for provider in PROVIDERS:
        cost = costs[provider] - costs[""]
        yield milliseconds(f"import of the provider {provider}", cost, base, _BEYOND)
