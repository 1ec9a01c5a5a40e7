"""What the agent may do without asking. An approval is for one exact call, and for nothing else.

What writes, runs or sends is asked about, inside the working directory as well as outside. Reading
is not, except for private files and for pages that the person did not point at (`Plan.asks`). Only
the policy and the person's own answers decide.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from segue.agent.tools import git
from segue.agent.tools.base import Risk
from segue.agent.tools.shell import plain_words
from segue.core.approval import Policy
from segue.core.transcript import ToolCall


class Verdict(StrEnum):
    ALLOWED = "allowed"
    LISTED = "listed"
    """Allowed by the allow-list alone: see `Plan.guarded`."""
    ASK = "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is allowed where a turn takes place."""

    policy: Policy = Policy.ASK
    allowed_commands: tuple[str, ...] = ()
    """Beginnings of commands, word by word: `git status` allows `git status --short`. One that is
    more than plain words allows nothing."""

    def shown(self, risk: Risk) -> str:
        """Whether a person is asked first, for people."""
        if self.policy is Policy.AUTO:
            return "runs at once"
        return "asks at times" if risk is Risk.READ else "asks first"

    def verdict(
        self,
        risk: Risk,
        call: ToolCall,
        cwd: Path,
        granted: Collection[str] = (),
        *,
        asks: bool = False,
        place: str = "",
    ) -> Verdict:
        """`granted` are the fingerprints that the person allowed for this session; `asks` and
        `place` are the Plan's."""
        if self.policy is Policy.AUTO or (risk is Risk.READ and not asks):
            return Verdict.ALLOWED
        if fingerprint(call, cwd, place) in granted:
            return Verdict.ALLOWED
        listed = self.policy is Policy.ALLOW_LIST and risk is Risk.RUN
        return Verdict.LISTED if listed and self._listed(call) else Verdict.ASK

    def _listed(self, call: ToolCall) -> bool:
        words = plain_words(_command(call))
        if git.is_git(words) and not git.only_shows(words):
            return False
        return any(
            words[: len(allowed)] == allowed
            for command in self.allowed_commands
            if (allowed := plain_words(command))
        )


def fingerprint(call: ToolCall, cwd: Path, bound: str = "") -> str:
    """What makes two calls the same: tool, arguments (in any order), working directory, and the
    file or the like that they are bound to (`Plan.exact` or `Plan.place`)."""
    try:
        arguments = msgspec.json.encode(msgspec.json.decode(call.arguments or "{}"), order="sorted")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        arguments = call.arguments.encode("utf-8", "surrogatepass")
    whole = hashlib.sha256()
    name = call.name.encode("utf-8", "surrogatepass")
    for part in (name, arguments, os.fsencode(cwd), os.fsencode(bound)):
        # With its length, so that nothing can move from one part to the next.
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()


def _command(call: ToolCall) -> str:
    try:
        command = msgspec.json.decode(call.arguments, type=dict[str, object]).get("command")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    return command if isinstance(command, str) else ""
