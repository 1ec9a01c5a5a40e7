"""What a tool is: a schema for the model, a sentence for the person, and the work itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from segue.agent.models.base import ToolSpec
from segue.agent.tools.search import NOTHING, Private
from segue.core.text import visible as visible
from segue.core.text import visible_name as visible_name
from segue.core.transcript import ToolCall

OUTPUT_LIMIT = 30_000
"""The most characters that one tool call gives to the model."""


class Risk(StrEnum):
    """What a tool may change: it decides whether a person is asked first."""

    READ = "read"
    WRITE = "write"
    RUN = "run"
    SEND = "send"


class ToolFailed(Exception):
    """What went wrong, for the model to read and act on."""


def _any(_: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """Where a session's tools work."""

    cwd: Path
    private_network: bool = False
    """Whether pages on private addresses may be fetched."""
    private: Private = NOTHING
    """The files that are not read without asking."""
    may_fetch: Callable[[str], bool] = _any
    """Whether the page at a URL may be fetched without asking."""


Work = Callable[[], Awaitable[str]]
"""Does it, and returns what came of it; ToolFailed says why not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One call, worked out: `what` is shown to the person, and `work` does that and no more."""

    what: str
    """What exactly will be done: see `visible`."""
    work: Work
    asks: bool = False
    """A person is asked, although the tool only reads."""
    exact: str = ""
    """Identifies what the call is about, such as a file: an answer counts for that alone."""
    place: str = ""
    """The same for an answer that counts for the whole session, in which the file may change."""
    guarded: Callable[[], Awaitable[Work | None]] | None = None
    """For a command on the allow-list: the work as the list allows it, or None to ask."""


A = TypeVar("A", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[A]):
    """Something that the agent can do."""

    name: str
    description: str
    risk: Risk
    arguments: type[A]
    """A Struct: its fields are the parameters, its docstrings their descriptions."""
    plan: Callable[[A, Workplace], Plan]
    """Works a call out, and does nothing yet. Raises only ToolFailed."""

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=self.name, description=self.description, parameters=_schema(self.arguments)
        )

    def parse(self, call: ToolCall) -> A:
        """The call's arguments; ToolFailed says what is wrong with them."""
        try:
            return msgspec.json.decode(call.arguments or "{}", type=self.arguments)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ToolFailed(f"These arguments do not fit {self.name}: {error}") from error


@cache
def _schema(arguments: type[msgspec.Struct]) -> Mapping[str, Any]:
    """A plain JSON schema without references, as every provider takes it."""
    (schema,), components = msgspec.json.schema_components([arguments])
    name = schema["$ref"].rpartition("/")[2]
    whole = dict(components[name])
    whole.pop("title", None)
    return whole


def shorten(text: str, limit: int = OUTPUT_LIMIT) -> str:
    """`text`, or its beginning and end when it is too long: both tell more than the middle."""
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[… {left_out:,} characters left out …]\n{text[-half:]}"


def clean(text: str) -> str:
    """`text` as it can be kept and sent: what stands for a byte that is no UTF-8 becomes a mark."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
