"""The user at a terminal, from the terminal harness."""

from __future__ import annotations

from tests.harness.terminal import person as person
