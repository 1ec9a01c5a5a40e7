"""The tool interface: a schema for the model, a description for the user, and the work itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from segue.agent.models.base import ToolSpec
from segue.agent.tools.search import NOTHING, PrivateFiles
from segue.approvals.rules import Risk
from segue.core import provenance
from segue.core.approval import Description
from segue.core.provenance import Author, Provenance
from segue.core.transcript import ToolCall

OUTPUT_LIMIT = 30_000
"""The maximum number of characters that one tool call returns to the model."""


class ToolFailed(Exception):
    """The error message of a tool call, for the model to read and act on."""


class ToolInterrupted(asyncio.CancelledError):
    """A cancelled tool call. The message is what it had printed until then."""


def _any(_: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """The environment in which a session's tools work."""

    cwd: Path
    private_network: bool = False
    """Whether pages on private addresses may be fetched."""
    private: PrivateFiles = NOTHING
    """The files that are not read without asking."""
    may_fetch: Callable[[str], bool] = _any
    """Returns True if the page at a URL may be fetched without asking."""
    read: Provenance = provenance.UNKNOWN
    """The authors of everything that the agent has read. What a call keeps may repeat it."""


Work = Callable[[], Awaitable[str]]
"""Does the work and returns its result. Raises ToolFailed on failure."""


class Proposal(Struct, frozen=True, kw_only=True):
    """A call that is ready to run: `what` is shown to the user, and `work` does exactly that."""

    what: Description
    """Exactly what will be done."""
    work: Work
    asks: bool = False
    """Ask the user even though the tool only reads."""
    always_asks: bool = False
    """Ask the user even if the policy is to ask nothing: it allows what comes later, by itself."""
    exact: str = ""
    """Identifies the object of the call, such as a file. An approval applies to that object only.
    """
    place: str = ""
    """Like `exact`, for an approval for the whole session, during which the file may change."""
    guarded: Callable[[], Awaitable[Work | None]] | None = None
    """For a command on the allow-list: returns the work in the form that the list allows, or None
    if the user must be asked."""


A = TypeVar("A", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[A]):
    """A capability of the agent."""

    name: str
    description: str
    risk: Risk
    arguments: type[A]
    """A Struct whose fields are the parameters, described by their msgspec.Meta."""
    propose: Callable[[A, Workplace], Proposal | Awaitable[Proposal]]
    """Prepares a call without doing anything yet. Awaited if it must look something up first.
    Raises only ToolFailed."""
    author: Author = Author.TOOL
    """Who wrote what it returns."""

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=self.name, description=self.description, parameters=_schema(self.arguments)
        )

    def parse(self, call: ToolCall) -> A:
        """Parse the call's arguments. Raise ToolFailed if they are invalid."""
        try:
            return msgspec.json.decode(call.arguments or "{}", type=self.arguments)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ToolFailed(f"These arguments do not fit {self.name}: {error}") from error

    async def prepare(self, call: ToolCall, place: Workplace) -> Proposal:
        """Parse the call and work out a proposal. Raise ToolFailed if it cannot run."""
        proposed = self.propose(self.parse(call), place)
        return proposed if isinstance(proposed, Proposal) else await proposed


@cache
def _schema(arguments: type[msgspec.Struct]) -> Mapping[str, Any]:
    """A plain JSON schema without references or alternatives, which every provider accepts. An
    argument that may be null is one that may be left out."""
    (schema,), components = msgspec.json.schema_components([arguments])

    def plain(part: dict[str, Any]) -> dict[str, Any]:
        if reference := part.get("$ref"):
            found = components[reference.rpartition("/")[2]]
            return plain(found | {key: part[key] for key in part if key != "$ref"})
        if options := part.get("anyOf"):
            return plain(next(option for option in options if option != {"type": "null"}))
        kept = {key: value for key, value in part.items() if key != "title"}
        if "enum" in part:
            kept["type"] = "string"
        if properties := part.get("properties"):
            kept["properties"] = {name: plain(about) for name, about in properties.items()}
        if items := part.get("items"):
            kept["items"] = plain(items)
        return kept

    return plain(schema)


def shorten(text: str, limit: int = OUTPUT_LIMIT) -> str:
    """Cut the middle out of a text that is too long. Its start and end are more informative."""
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[… {left_out:,} characters left out …]\n{text[-half:]}"


def clean(text: str) -> str:
    """Replace bytes that are not UTF-8, and were escaped as surrogates, with U+FFFD, so that the
    text can be stored and sent."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
