"""Rules for what the agent may do without asking. An approval covers one exact call.

Writing, running and sending need approval, inside the working directory as well as outside. Reading
does not, except for private files and for pages that the user did not point at (`Proposal.asks`).
Only the policy and the user's own answers decide.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from segue.core.approval import Policy, plain_words
from segue.core.transcript import ToolCall


class Risk(StrEnum):
    """The effect that a tool may have. It decides whether the user is asked first."""

    READ = "read"
    WRITE = "write"
    RUN = "run"
    SEND = "send"


class Permission(StrEnum):
    ALLOWED = "allowed"
    LISTED = "listed"
    """Allowed only because the command is on the allow-list. See `Proposal.guarded`."""
    ASK = "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The approval rules of a turn."""

    policy: Policy = Policy.ASK
    allowed_commands: tuple[str, ...] = ()
    """Command prefixes, compared word by word: `git status` allows `git status --short`.

    An entry with shell syntax in it allows nothing.
    """
    allowed_tools: tuple[str, ...] = ()
    """The tools that need no approval."""

    def shown(self, risk: Risk) -> str:
        """A phrase for the user that says whether a tool with this risk asks first."""
        if self.policy is Policy.AUTO:
            return "runs at once"
        return "may ask" if risk is Risk.READ else "asks first"

    def verdict(
        self,
        risk: Risk,
        call: ToolCall,
        cwd: Path,
        granted: Collection[str] = (),
        *,
        asks: bool = False,
        place: str = "",
    ) -> Permission:
        """Decide whether the call may run. `granted` are the fingerprints that the user allowed for
        this session; `asks` and `place` come from the Proposal."""
        if self.policy is Policy.AUTO or call.name in self.allowed_tools:
            return Permission.ALLOWED
        if risk is Risk.READ and not asks:
            return Permission.ALLOWED
        if fingerprint(call, cwd, place) in granted:
            return Permission.ALLOWED
        listed = self.policy is Policy.ALLOW_LIST and risk is Risk.RUN
        return Permission.LISTED if listed and self._listed(call) else Permission.ASK

    def _listed(self, call: ToolCall) -> bool:
        words = plain_words(_command(call))
        if is_git(words) and not only_shows(words):
            return False
        return any(
            words[: len(allowed)] == allowed
            for command in self.allowed_commands
            if (allowed := plain_words(command))
        )


def fingerprint(call: ToolCall, cwd: Path, bound: str = "") -> str:
    """Identify a call by its tool, arguments (in any order), working directory, and `bound`: the
    file or other object it is bound to (`Proposal.exact` or `Proposal.place`)."""
    try:
        arguments = msgspec.json.encode(msgspec.json.decode(call.arguments or "{}"), order="sorted")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        arguments = call.arguments.encode("utf-8", "surrogatepass")
    whole = hashlib.sha256()
    name = call.name.encode("utf-8", "surrogatepass")
    for part in (name, arguments, os.fsencode(cwd), os.fsencode(bound)):
        # Prefixed with the length, so that bytes cannot shift from one part to the next.
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()


def _command(call: ToolCall) -> str:
    try:
        command = msgspec.json.decode(call.arguments, type=dict[str, object]).get("command")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    return command if isinstance(command, str) else ""


# Git commands on the allow-list


_OPTIONS = (
    *("--output", "--output-directory", "--ext-diff", "--textconv", "--filters", "--no-index"),
    *("--upload-pack", "--receive-pack", "--exec", "--exec-path", "--open-files-in-pager"),
    *("--config", "--config-env", "--git-dir", "--work-tree", "--namespace", "--template"),
    *("--recurse-submodules", "--submodule", "--show-signature"),
)
"""Options of any command that write files, run programs or use other settings."""
_LETTERS = frozenset("cCoO")
"""Short forms of such options."""


def is_git(words: Sequence[str]) -> bool:
    return bool(words) and words[0].rpartition("/")[2] == "git"


def only_shows(words: Sequence[str]) -> bool:
    """True if no argument makes git write, run or read more than its command implies."""
    return not any(map(_is_refused, words[1:]))


def _is_refused(word: str) -> bool:
    name, _, value = word.partition("=")
    if name.startswith("--") and name != "--":
        # Git accepts any prefix of a long option.
        return any(option.startswith(name) for option in _OPTIONS) or _leads_out(value)
    if name.startswith("-"):
        return not _LETTERS.isdisjoint(word)
    return _leads_out(word)


def _leads_out(path: str) -> bool:
    return path.startswith("/") or ".." in path.split("/")
