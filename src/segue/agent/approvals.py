"""What the agent may do without asking. An approval is for one exact call, and for nothing else."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from segue.agent.tools.base import Risk
from segue.core.transcript import ToolCall


class Policy(StrEnum):
    """How much a person lets the agent do in one place."""

    ASK = "ask"
    ALLOW_LIST = "allow-list"
    AUTO = "auto"


class Answer(StrEnum):
    """What a person says to a call."""

    ONCE = "once"
    SESSION = "session"
    """This very call, as often as it comes in this session."""
    NEVER = "never"


class Verdict(StrEnum):
    ALLOWED = "allowed"
    ASK = "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is allowed where a turn takes place."""

    policy: Policy = Policy.ASK
    allowed_commands: tuple[str, ...] = ()
    """Beginnings of commands, word by word: `git status` allows `git status --short`."""

    def verdict(
        self, risk: Risk, call: ToolCall, cwd: Path, granted: Collection[str] = ()
    ) -> Verdict:
        """`granted` are the fingerprints that the person allowed for this session."""
        if risk is Risk.READ or self.policy is Policy.AUTO:
            return Verdict.ALLOWED
        if fingerprint(call, cwd) in granted:
            return Verdict.ALLOWED
        listed = self.policy is Policy.ALLOW_LIST and risk is Risk.RUN
        return Verdict.ALLOWED if listed and self._listed(call) else Verdict.ASK

    def _listed(self, call: ToolCall) -> bool:
        words = _plain_words(call)
        return any(
            words[: len(allowed)] == allowed
            for command in self.allowed_commands
            if (allowed := shlex.split(command))
        )


def fingerprint(call: ToolCall, cwd: Path) -> str:
    """What makes two calls the same: tool, arguments and place."""
    try:
        arguments = msgspec.json.encode(msgspec.json.decode(call.arguments or "{}"), order="sorted")
    except msgspec.DecodeError:
        arguments = call.arguments.encode("utf-8", "surrogatepass")
    parts = (call.name.encode(), arguments, str(cwd).encode("utf-8", "surrogateescape"))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _plain_words(call: ToolCall) -> list[str]:
    """The words of a command that is nothing but words; none for one that the shell would make
    more of, such as `git status; rm -r .`"""
    try:
        command = str(msgspec.json.decode(call.arguments, type=dict[str, object])["command"])
        if any(c in command for c in "\n\r;&|<>`$(){}*?[]~!#\\"):
            return []
        return shlex.split(command)
    except (msgspec.DecodeError, KeyError, ValueError):
        return []
