"""Blocks, chunks and message text: strict checks, and what users see of them.

Fields and limits: docs.slack.dev/reference/block-kit, the models of python-slack-sdk and slack-go.
`blocks.json` has only those that a bot like ours needs; any other is refused and recorded.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.fakes.protocols import shapes
from tests.fakes.slack.state import Json, check, mistake

_LONGEST = 12_000
_MENTION = re.compile(r"<(?:@[UW][A-Z0-9]+|!(?:channel|here|everyone|subteam\^\w+))(?:\|[^>]*)?>")
_TYPED = re.compile(
    r"&lt;(@[UW][A-Z0-9]+)&gt;|&lt;(#[CG][A-Z0-9]+)&gt;|(https?://(?:[^\s&]|&amp;)+)"
)
_SHAPES = shapes.read(Path(__file__).with_name("blocks.json"))


def flaw(given: object, shape: str) -> str:
    """Return what is wrong with JSON that should be of that shape, or an empty string."""
    return shapes.flaw(given, _SHAPES[shape])


def checked(given: Sequence[Any]) -> tuple[Json, ...]:
    """Return the blocks with the ids that Slack adds. Raises Refuse."""
    wrong = flaw(given, "Blocks") if given else ""
    actions = [block["elements"] for block in given if not wrong and block["type"] == "actions"]
    for row in (given, *actions):
        ids = [it.get("block_id") or it.get("action_id") or object() for it in row]
        if not wrong and len(set(ids)) < len(ids):
            wrong = "an id is used twice"
    if wrong:
        raise mistake(wrong, "invalid_blocks")
    long = sum(len(block["text"]) for block in given if block["type"] == "markdown")
    check(long <= _LONGEST, "msg_blocks_too_long")
    return tuple({"block_id": f"b{number}", **block} for number, block in enumerate(given))


def appended(chunks: Sequence[Any] | None, markdown: str | None) -> str:
    """The text that a call adds to a stream. Raises Refuse."""
    check(len(markdown or "") <= _LONGEST, "msg_too_long")
    if chunks and (wrong := flaw(chunks, "Chunks")):
        raise mistake(wrong, "invalid_chunks")
    return "".join([markdown or "", *(chunk["text"] for chunk in chunks or ())])


def displayed(blocks: Iterable[Any]) -> str:
    """The text of the blocks, without the buttons, a line for each."""
    lines: list[str] = []
    for block in blocks:
        if block["type"] == "actions":
            continue
        for it in block.get("elements", [block.get("text")]):
            lines.append(it if isinstance(it, str) else it["text"])
    return "\n".join(lines)


def buttons(blocks: Iterable[Any]) -> dict[str, Any]:
    """The buttons by label, each with the ids that Slack adds."""
    found: dict[str, Any] = {}
    for block in blocks:
        if block["type"] != "actions":
            continue
        for place, it in enumerate(block["elements"]):
            added = {"action_id": f"a{place}", "block_id": block["block_id"]}
            found[it["text"]["text"]] = {**added, **it}
    return found


def mentions(text: str) -> tuple[str, ...]:
    """The users and groups that a text notifies."""
    return tuple(_MENTION.findall(text))


def typed(text: str) -> str:
    """What a user typed, as `text`: Slack escapes it and puts links in angle brackets. The name of
    a channel is left out, because not every reader may see it."""
    escaped = html.escape(text, quote=False)
    return _TYPED.sub(lambda it: f"<{it[2]}|>" if it[2] else f"<{it[1] or it[3]}>", escaped)
