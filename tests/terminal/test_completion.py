"""Completion at the prompt."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from segue.terminal.console import PromptCompleter


async def no_names() -> Sequence[str]:
    return ()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("/handoff tel", ["telegram"]),
        ("/handoff telegram ", ["telegram --new-thread"]),
        ("/handoff telegram --n", ["telegram --new-thread"]),
    ],
)
async def test_a_handoff_completes_the_platform_and_then_its_option(typed: str, offered: list[str]):
    completer, event = PromptCompleter(no_names), CompleteEvent(completion_requested=True)
    found = completer.get_completions_async(Document(typed), event)
    assert [completion.text async for completion in found] == offered
