"""Summaries of a conversation for the model, and titles for the user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import aclosing
from datetime import UTC, datetime

from segue.agent.models.base import End, Model, Prompt, Text
from segue.agent.tools.base import shorten
from segue.core import provenance
from segue.core.errors import ModelError
from segue.core.session import Summary, Usage
from segue.core.text import one_line, tokens_in
from segue.core.transcript import Kind, Message, Role, Transcript, words

MAX_PARTS = 8
"""The maximum number of requests per summary. In a longer conversation the oldest part is left out.
"""
_ENTRY_LIMIT = 6_000
_TITLE_LENGTH = 60
_TITLE_TOKENS = 64
_NO_TIME = datetime.fromtimestamp(0, UTC)  # models are not sent the times of messages

_SUMMARISE = """\
You write the summary from which a conversation between a person and their agent goes on. Whoever \
goes on sees only your summary of this part. Keep everything that is still needed: what the \
person wants and said about themselves, names, numbers, paths, commands, decisions and their \
reasons, what was done, what came of it, what failed, what is still open. Leave out greetings and \
repetitions. Plain text, no preamble."""

_TITLE = """\
Give this conversation a title of two to six words, in the language of the person. Answer with the \
title alone: no quotation marks, no full stop."""


async def summarise(model: Model, transcript: Transcript) -> Summary:
    """Summarise the conversation. Raise ModelError if the model fails."""
    answer_tokens = min(2048, model.context // 8)
    # Half of the context, because our token count is an estimate, and to leave room for the
    # previous summary.
    limit = max(model.context // 2 - answer_tokens, 512)
    summary = ""
    usage = Usage()
    for part in _parts(transcript, limit):
        before = f"Summary of what came before:\n{summary}\n\nWhat followed:\n" if summary else ""
        asked = f"{before}{part}\n\n[End of the conversation. Write the summary now.]"
        answer = await _ask(model, _SUMMARISE, asked, answer_tokens)
        summary = answer.text
        usage = usage + answer.usage
    return Summary(summary, usage)


async def title(model: Model, transcript: Transcript) -> str:
    """Ask the model for a title, based on the first exchange.

    Return an empty string for an answer that is too long for one, as a small model may give.
    """
    said = "\n\n".join(shorten(entry, 2_000) for entry in _entries(transcript.messages[:4]))
    answer = await _ask(model, _TITLE, f"{said}\n\n[End. Write the title now.]", _TITLE_TOKENS)
    line = next((line for line in answer.text.splitlines() if line.strip()), "")
    found = one_line(line.strip().strip("\"'“”„«»*#` ").rstrip("."))
    return found if len(found) <= _TITLE_LENGTH else ""


async def _ask(model: Model, system: str, asked: str, max_tokens: int) -> Summary:
    # Sent as a single text, so that no provider can reject the order of roles or calls to
    # undeclared tools.
    message = Message(
        Role.USER, asked, _NO_TIME, tokens=tokens_in(asked), provenance=provenance.UNKNOWN
    )
    prompt = Prompt(system=system, messages=(message,), max_tokens=max_tokens)
    text = ""
    usage = Usage()
    async with aclosing(model.stream(prompt)) as pieces:
        async for piece in pieces:
            match piece:
                case Text(more):
                    text += more
                case End():
                    usage = piece.usage
                case _:
                    pass
    if not text.strip():
        raise ModelError(provider=model.name, reason="it gave no answer")
    return Summary(text.strip(), usage)


def _parts(transcript: Transcript, limit: int) -> list[str]:
    """The conversation as text, in as few parts of at most `limit` tokens as possible."""
    parts: list[list[str]] = [[]]
    left = limit
    for entry in _entries(transcript.messages):
        cost = tokens_in(entry)
        if parts[-1] and cost > left:
            parts.append([])
            left = limit
        parts[-1].append(entry)
        left -= cost
    return ["\n\n".join(part) for part in parts[-MAX_PARTS:]]


def _entries(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        if said := _entry(message):
            yield shorten(said, _ENTRY_LIMIT)


def _entry(message: Message) -> str:
    if message.kind is Kind.SUMMARY:
        return f"Summary of what came before:\n{message.content}"
    if message.role is Role.TOOL:
        return f"{message.tool_name} answered:\n{words(message)}"
    lines = [words(message), *(f"[calls {c.name} {c.arguments}]" for c in message.tool_calls)]
    said = "\n".join(line for line in lines if line)
    who = {Role.USER: "Person", Role.ASSISTANT: "Agent"}.get(message.role, "System")
    return f"{who}: {said}" if said else ""
