"""Git on the allow-list only reads, and runs no program that a repository names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from segue.agent.tools.base import Workplace
from segue.agent.tools.shell import git_environment, shell
from segue.approvals import rules
from segue.core.approval import plain_words
from tests.agent.tools.calls import propose

ENVIRONMENT = {
    "PATH": os.defpath,
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    **{
        f"GIT_{who}_{what}": "me@here"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    },
}
SHELL = shell(ENVIRONMENT)


def run(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, env=ENVIRONMENT, check=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit and one change."""
    folder = tmp_path.resolve() / "repository"
    folder.mkdir()
    run(folder, "init", "-q", "-b", "main")
    (folder / "a").write_text("one\n")
    run(folder, "add", "a")
    run(folder, "commit", "-q", "-m", "first")
    (folder / "a").write_text("two\n")
    return folder


async def listed(folder: Path, command: str) -> str | None:
    """The output if the allow-list alone allows the command, or None if it needs approval."""
    made = propose(SHELL, Workplace(cwd=folder), command=command)
    assert made.guarded is not None
    work = await made.guarded()
    return None if work is None else await work()


async def test_git_output_is_unchanged(repository: Path):
    assert await listed(repository, "git status --short") == " M a"
    assert "+two" in (await listed(repository, "git diff") or "")
    assert "first" in (await listed(repository, "git log -p") or "")
    run(repository, "remote", "add", "origin", "https://example.com/a.git")
    run(repository, "config", "branch.main.remote", "origin")
    assert await listed(repository, "git status --short") == " M a"


async def test_git_reports_a_missing_repository(tmp_path: Path):
    assert "not a git repository" in (await listed(tmp_path, "git status") or "")


async def test_another_command_is_unchanged(tmp_path: Path):
    assert await listed(tmp_path, "echo hello") == "hello"


@pytest.mark.parametrize("hook", ["post-index-change", "pre-commit"])
async def test_hooks_do_not_run(repository: Path, hook: str):
    script = repository / ".git/hooks" / hook
    script.parent.mkdir(exist_ok=True)
    script.write_text("#!/bin/sh\ntouch ../ran ran\n")
    script.chmod(0o755)
    for command in ("git status", "git diff", "git log", "git add a", "git commit -q -m x"):
        assert await listed(repository, command) is not None
    assert not (repository / "ran").exists()


SETTINGS = {
    "core.fsmonitor": "touch ran; false",
    "core.hooksPath": "hooks",
    "core.pager": "touch ran",
    "core.sshCommand": "touch ran",
    "core.worktree": "/",
    "core.attributesFile": "x",
    "diff.external": "touch ran",
    "diff.evil.textconv": "touch ran; cat",
    "diff.evil.command": "touch ran",
    "filter.evil.clean": "touch ran; cat",
    "filter.evil.process": "touch ran",
    "merge.evil.driver": "touch ran",
    "alias.status": "!touch ran",
    "alias.st": "!touch ran",
    "gpg.program": "./evil",
    "log.showSignature": "true",
    "credential.helper": "!touch ran",
    "remote.origin.uploadpack": "touch ran",
    "remote.origin.vcs": "evil",
    "submodule.evil.update": "!touch ran",
    "uploadpack.packObjectsHook": "touch ran",
    "include.path": "../more",
    "new.setting": "touch ran",
}


@pytest.mark.parametrize("name", SETTINGS)
async def test_a_repository_whose_settings_can_run_a_program_needs_approval(
    repository: Path, name: str
):
    (repository / ".git/info/attributes").write_text("* filter=evil diff=evil\n")
    (repository / ".git/more").write_text("[core]\n\tfsmonitor = touch ran\n")
    run(repository, "config", name, SETTINGS[name])
    assert await listed(repository, "git status") is None
    assert not (repository / "ran").exists()


async def test_a_repository_with_submodules_needs_approval(repository: Path):
    (repository / "folder").mkdir()
    (repository / ".gitmodules").write_text('[submodule "s"]\n\tpath = s\n\tignore = none\n')
    assert await listed(repository, "git status") is None
    assert await listed(repository / "folder", "git status") is None


async def test_a_nested_repository_is_not_inspected(repository: Path):
    inner = repository / "inner"
    inner.mkdir()
    run(inner, "init", "-q")
    (inner / "x").write_text("x\n")
    run(inner, "add", "x")
    run(inner, "commit", "-q", "-m", "inner")
    run(repository, "-c", "advice.addEmbeddedRepo=false", "add", "inner")
    (inner / ".git/info/attributes").write_text("* filter=evil\n")
    run(inner, "config", "filter.evil.clean", f"touch {repository}/ran; cat")
    run(inner, "config", "core.fsmonitor", f"touch {repository}/ran; false")
    os.utime(inner / "x", (1, 1))
    for command in ("git status", "git diff", "git diff HEAD", "git log -p"):
        assert await listed(repository, command) is not None
    assert not (repository / "ran").exists()


async def test_a_folder_that_only_looks_like_a_repository_is_not_one(tmp_path: Path):
    bare = tmp_path / "bare"
    bare.mkdir()
    run(bare, "init", "-q", "--bare")
    run(bare, "config", "core.fsmonitor", "touch ran")
    assert "cannot use bare repository" in (await listed(bare, "git status") or "")
    assert not (bare / "ran").exists()


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git status --short --untracked-files=no",
        "git log --oneline -n 5 main..other -- src/a",
        "git log --stat -p --since=yesterday",
        "git diff --cached HEAD~1 -- a",
        "git diff --color=never -w",
        "git show HEAD:a",
        "git branch -a",
    ],
)
def test_read_only_options_are_allowed(command: str):
    assert rules.only_shows(command.split())


@pytest.mark.parametrize(
    "arguments",
    [
        "diff --output=x",
        "diff --output x",
        "diff --outp=x",
        "log --o=x",
        "diff --ext-diff",
        "diff --ext",
        "log -p --textconv",
        "diff --no-index a b",
        "diff /dev/null /home/me/.ssh/id_rsa",
        "diff ../a ../b",
        "log -- a/../../b",
        "-c core.pager=x log",
        "-C / status",
        "--exec-path=x status",
        "--git-dir=x status",
        "--git-dir x status",
        "grep -O x",
        "grep -nOvi x",
        "grep --open-files-in-pager=vi x",
        "fetch --upload-pack=x",
        "ls-remote --exec=x",
        "format-patch -o x",
        "commit --file=/etc/passwd",
        "diff --submodule=diff",
        "clone --config core.fsmonitor=x a",
        "clone -c core.fsmonitor=x a",
    ],
)
def test_options_that_write_run_or_leave_the_repository_need_approval(arguments: str):
    assert not rules.only_shows(["git", *arguments.split()])


@pytest.mark.parametrize("command", ["git", "/usr/bin/git", "bin/git"])
def test_git_is_recognised_by_any_path(command: str):
    assert rules.is_git(plain_words(f"{command} status"))
    assert not rules.is_git(plain_words("gitk"))
    assert not rules.is_git([])


def test_settings_of_the_environment_are_kept():
    usual = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "c"}
    guarded = git_environment(usual)
    assert guarded["GIT_CONFIG_KEY_0"] == "a.b"
    assert guarded["GIT_CONFIG_KEY_1"] == "core.fsmonitor"
    assert f"GIT_CONFIG_VALUE_{int(guarded['GIT_CONFIG_COUNT']) - 1}" in guarded
