"""How git runs when the allow-list permits a command of it.

A repository can configure programs for git to run. A user who allows `git status` does not mean to
allow that. Everything that environment variables can turn off is turned off. If a repository has
any setting that is not known to be harmless, or has submodules, which have their own settings, the
user is asked.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
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
