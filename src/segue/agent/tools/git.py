"""Git commands on the allow-list.

A repository can configure programs for git to run, and some options write files or run programs. A
user who allows `git status` does not mean to allow that. Everything that environment variables can
turn off is turned off. If a repository has any setting that is not known to be harmless, or has
submodules, which have their own settings, the user is asked.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from segue.agent.tools.isolation import run

TIMEOUT = 5.0
"""The maximum time for git to list its settings."""

_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.editor": "false",
    "sequence.editor": "false",
    "diff.ignoreSubmodules": "all",
    "submodule.recurse": "false",
    "log.showSignature": "false",
    "protocol.ext.allow": "never",
    "safe.bareRepository": "explicit",
}
_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
}

_OPTIONS = (
    *("--output", "--output-directory", "--ext-diff", "--textconv", "--filters", "--no-index"),
    *("--upload-pack", "--receive-pack", "--exec", "--exec-path", "--open-files-in-pager"),
    *("--config", "--config-env", "--git-dir", "--work-tree", "--namespace", "--template"),
    *("--recurse-submodules", "--submodule", "--show-signature"),
)
"""Options of any command that write files, run programs or use other settings."""
_LETTERS = frozenset("cCoO")
"""Short forms of such options."""

_HARMLESS = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode"
    r"|symlinks|autocrlf|eol|safecrlf|quotepath|abbrev|sparsecheckout|sparsecheckoutcone|longpaths"
    r"|untrackedcache|commitgraph|checkstat|trustctime|preloadindex|protecthfs|protectntfs)"
    r"|remote\.(.*\.)?(url|pushurl|fetch|push|tagopt|prune|pushdefault)"
    r"|branch\.(.*\.)?(remote|pushremote|merge|rebase|description|autosetupmerge|autosetuprebase"
    r"|vscode-merge-base|github-pr-owner-number)"
    r"|user\.(name|email|signingkey)|init\.defaultbranch|(pull|push|fetch|color|advice|gui)\..*"
    r"|extensions\.(worktreeconfig|objectformat|refstorage)|lfs\.repositoryformatversion",
    re.DOTALL,
)


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


def environment(usual: Mapping[str, str]) -> dict[str, str]:
    """Add settings to `usual` that keep git from running a repository's own programs: hooks,
    monitors, pagers and editors."""
    given = usual.get("GIT_CONFIG_COUNT", "")
    first = int(given) if given.isdecimal() else 0
    count = first + len(_SETTINGS)
    numbered = enumerate(_SETTINGS.items(), first)
    return {
        **usual,
        **_VARIABLES,
        "GIT_CONFIG_COUNT": str(count),
        **{
            f"GIT_CONFIG_{part}_{number}": text
            for number, (name, value) in numbered
            for part, text in (("KEY", name), ("VALUE", value))
        },
    }


async def is_harmless(cwd: Path, guarded: Mapping[str, str]) -> bool:
    """True if the repository at `cwd` has only settings that are known to run nothing."""
    settings, top = await asyncio.gather(
        _shown(cwd, guarded, "config", "--list", "--show-scope", "--name-only", "-z"),
        _shown(cwd, guarded, "rev-parse", "--show-toplevel"),
    )
    if settings is None or (top and _has_submodules(Path(top.rstrip("\n")))):
        return False
    fields = settings.split("\0")
    ours = zip(fields[::2], fields[1::2], strict=False)
    return all(_HARMLESS.fullmatch(name) for scope, name in ours if scope in ("local", "worktree"))


def _has_submodules(top: Path) -> bool:
    return (top / ".gitmodules").exists()


async def _shown(cwd: Path, guarded: Mapping[str, str], *arguments: str) -> str | None:
    """The output of a git command, or None if it fails."""
    try:
        result = await run("git", *arguments, cwd=cwd, env=guarded, seconds=TIMEOUT)
    except OSError:
        return None
    return result.output if result.code == 0 else None
