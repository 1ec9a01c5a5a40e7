"""Completion in a shell: the offered words, and that a real bash reads them correctly."""

from __future__ import annotations

import asyncio
import os
import pty
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

import segue.store
from segue.cli.main import main
from segue.core.address import Platform
from segue.core.session import ME
from segue.jobs.queries import jobs
from segue.jobs.schedule import Once
from segue.jobs.values import LOCAL, NewJob
from segue.store import owners, sessions
from tests.harness.screen import plain

ODD = 'what is *? "quoted" $HOME `x` it\'s, ok'
TITLES = ("my project", "My other: thing", ODD)


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with a few sessions and `segue` on the path."""
    program = tmp_path / "bin" / "segue"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nfrom segue.cli.main import main\n\nmain(prog_name='segue')\n"
    )
    program.chmod(0o755)
    (tmp_path / "config.toml").write_text("[endpoints.work]\nurl = 'http://10.0.0.7/v1'\n")
    return plain(
        {
            "PATH": f"{program.parent}:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "SEGUE_CONFIG": str(tmp_path / "config.toml"),
            "SEGUE_STORE": f"sqlite://{tmp_path}/segue.db",
        }
    )


@pytest.fixture
def ids(shell: dict[str, str]) -> list[str]:
    async def make() -> list[str]:
        async with await segue.store.open(shell["SEGUE_STORE"]) as store:
            await owners.ensure(store, ME)
            titles = [*TITLES, None]
            made = [await sessions.create(store, ME, Platform.LOCAL, title=t) for t in titles]
            return [session.id for session in made]

    return asyncio.run(make())


def script(name: str) -> str:
    result = CliRunner().invoke(main, ["completion", name])
    assert result.exit_code == 0
    return result.stdout


def offered(shell: dict[str, str], line: str, incomplete: str = "") -> list[str]:
    """The words that the program offers at the end of `line`, or for a word with spaces after
    it."""
    words = [*line.split(" "), shlex.quote(incomplete)] if incomplete else line.split(" ")
    asked = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    environment = {**shell, **asked, "_SEGUE_COMPLETE": "bash_complete"}
    result = CliRunner().invoke(main, [], env=environment, prog_name="segue")
    assert (result.exit_code, result.stderr) == (0, "")
    return [output.removeprefix("plain,") for output in result.stdout.split("\n") if output]


def offered_by_bash(shell: dict[str, str], line: str, words: list[str] | None = None) -> list[str]:
    """The words that bash offers at the end of `line`, which it has split into `words`."""
    words = line.split(" ") if words is None else words
    given = f"COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)} COMP_CWORD={len(words) - 1}"
    program = (
        f"{script('bash')}\n{given} COMP_WORDS=({' '.join(map(shlex.quote, words))})\n"
        "compopt() { :; }\n"  # which only bash calls
        "_segue_completion segue\n"
        'for reply in "${COMPREPLY[@]}"; do printf "%s\\n" "$reply"; done\n'
    )
    ran = subprocess.run(
        ["bash", "--norc", "-c", program],
        env=shell,
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert ran.stderr == ""
    return ran.stdout.splitlines()


def as_bash_reads(text: str, shell: dict[str, str]) -> str:
    """The words that bash reads in `text`, each in brackets if there are several."""
    program = f'set -- {text}; if [ $# = 1 ]; then printf %s "$1"; else printf \'(%s)\' "$@"; fi'
    ran = subprocess.run(
        ["bash", "--norc", "-c", program], env=shell, capture_output=True, text=True, check=True
    )
    return ran.stdout


def test_commands_and_options_complete(shell: dict[str, str]):
    assert offered(shell, "segue ses") == ["sessions"]
    assert offered(shell, "segue sessions re") == ["rename"]
    assert "--platform" in offered(shell, "segue sessions list --")
    assert offered(shell, "segue sessions list --platform te") == ["telegram"]
    assert offered(shell, "segue completion ") == ["bash", "zsh", "fish"]


@pytest.mark.real
def test_completed_titles_are_quoted_as_one_word(shell: dict[str, str], ids: list[str]):
    assert offered_by_bash(shell, "segue sessions show my") == [r"my\ project"]
    odd = offered_by_bash(shell, "segue sessions show what")
    assert [as_bash_reads(reply, shell) for reply in odd] == [ODD]
    words = ["segue", "sessions", "show", r"my\ p"]
    assert offered_by_bash(shell, " ".join(words), words) == [r"my\ project"]


@pytest.mark.real
def test_titles_complete_within_quotes(shell: dict[str, str], ids: list[str]):
    for quote in "'\"":
        words = ["segue", "sessions", "show", f"{quote}my p"]
        assert offered_by_bash(shell, " ".join(words), words) == ["my project"]
        words[-1] = f"{quote}what"
        (reply,) = offered_by_bash(shell, " ".join(words), words)
        assert as_bash_reads(f"{quote}{reply}{quote}", shell) == ODD


@pytest.mark.real
def test_a_title_completes_after_a_colon_at_which_bash_splits(
    shell: dict[str, str], ids: list[str]
):
    line = r"segue sessions show My\ other:"
    assert offered_by_bash(
        shell, line, [*line[:-1].rsplit(" ", 2)[0].split(" "), r"My\ other", ":"]
    ) == [r"\ thing"]
    assert offered_by_bash(
        shell, line + r"\ t", ["segue", "sessions", "show", r"My\ other", ":", r"\ t"]
    ) == [r"\ thing"]


def test_case_is_ignored_only_if_no_title_matches_it(shell: dict[str, str], ids: list[str]):
    assert offered(shell, "segue sessions show My") == ["My other: thing"]
    assert offered(shell, "segue sessions show what") == [ODD]
    assert offered(shell, "segue sessions delete", "MY P") == ["my project"]


def test_ids_complete_for_untitled_sessions_and_once_typed(shell: dict[str, str], ids: list[str]):
    everything = offered(shell, "segue sessions show ")
    assert ids[3] in everything
    assert "latest" in everything
    assert ids[0] not in everything
    assert offered(shell, f"segue sessions show {ids[0][:-1]}") == [ids[0]]


def test_settings_and_their_values_complete(shell: dict[str, str]):
    assert offered(shell, "segue config set idle") == ["idle_minutes"]
    assert offered(shell, "segue config get endpoints.work.u") == ["endpoints.work.url"]
    assert offered(shell, "segue config set approvals.policy ") == ["ask", "allow-list", "auto"]
    assert offered(shell, "segue config set private_network f") == ["false"]
    assert offered(shell, "segue config set model anthropic/c") == ["anthropic/claude-sonnet-5"]
    assert offered(shell, "segue config set nonsense ") == []


def test_models_complete_without_a_request(shell: dict[str, str]):
    assert offered(shell, "segue model use anth") == ["anthropic/claude-sonnet-5"]
    assert offered(shell, "segue model test wo") == ["work/"]
    assert offered(shell, "segue model use l") == ["local", "lmstudio/", "llamacpp/"]
    assert offered(shell, "segue model list ol") == ["ollama"]


def test_jobs_and_their_options_complete(shell: dict[str, str]):
    async def make() -> None:
        async with await segue.store.open(shell["SEGUE_STORE"]) as store:
            await owners.ensure(store, ME)
            due = Once(datetime.now(UTC) + timedelta(days=1))
            new = NewJob(prompt="Look.", schedule=due, zone="UTC", deliver=(LOCAL,))
            await jobs.create(store, ME, new)

    asyncio.run(make())
    assert offered(shell, "segue jobs show ") == ["1"]
    assert offered(shell, "segue jobs pause 2") == []
    assert offered(shell, "segue jobs add --zone europe/osl") == ["Europe/Oslo"]
    assert offered(shell, "segue jobs add --deliver a") == ["all"]
    assert offered(shell, "segue jobs add --deliver local,te") == ["local,telegram"]
    assert offered(shell, "segue jobs edit 1 --only-if-p") == ["--only-if-page"]


def test_completion_is_silent_with_a_broken_store_or_settings_file(shell: dict[str, str]):
    Path(shell["SEGUE_CONFIG"]).write_text("broken")
    assert offered(shell, "segue sessions show ") == []
    assert offered(shell, "segue config set idle") == ["idle_minutes"]
    Path(shell["SEGUE_CONFIG"]).unlink()
    Path(shell["HOME"], "segue.db").write_text("something else")
    assert offered(shell, "segue sessions show ") == []


@pytest.mark.real
def test_the_tab_key_completes_in_an_interactive_bash(shell: dict[str, str], ids: list[str]):
    """The completed command runs: the shell has read one title."""
    typed = "segue ses\tsh\tmy\t --json | cut -c-60\nexit\n"
    printed = type_into_bash(shell, typed)
    assert r"segue sessions show my\ project " in printed
    assert f'{{"id":"{ids[0]}"' in printed


def type_into_bash(environment: dict[str, str], typed: str) -> str:
    """The whole screen after `typed` was typed at the prompt."""
    ours, theirs = pty.openpty()
    rc = Path(environment["HOME"], "rc")
    rc.write_text(f"{script('bash')}\nPS1='ready> '\n")
    with os.fdopen(ours, "rb", 0) as screen:
        process = subprocess.Popen(
            ["bash", "--noprofile", "--rcfile", str(rc), "-i"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)
        printed = b""
        waiting = True
        try:
            while chunk := screen.read(4096):
                printed += chunk
                if waiting and printed.endswith(b"ready> "):
                    os.write(ours, typed.encode())
                    waiting = False
        except OSError:  # the last writer has closed the terminal
            pass
        process.wait(50)
    return printed.decode()


def test_every_shell_has_a_completion_script():
    assert "complete -o nosort -F _segue_completion segue" in script("bash")
    assert "compdef _segue_completion segue" in script("zsh")
    assert "complete --no-files --command segue" in script("fish")
    refused = CliRunner().invoke(main, ["completion", "tcsh"])
    assert refused.exit_code == 2


@pytest.mark.real
def test_every_installed_shell_can_read_its_script(tmp_path: Path):
    for name in ("bash", "zsh", "fish"):
        if program := shutil.which(name):
            path = tmp_path / name
            path.write_text(script(name))
            ran = subprocess.run([program, "-n", path], capture_output=True, text=True, check=False)
            assert (ran.returncode, ran.stderr) == (0, ""), name
