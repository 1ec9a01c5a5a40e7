"""The list of commands is correct, and loads none of the commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from segue.cli.main import _ELSEWHERE, main
from tests.harness.cases import brief

NOT_LOADED = sorted({"asyncio", "segue.store", *(f"segue.cli.{name}" for name in _ELSEWHERE)})


def loaded(setup: str, call: str) -> str:
    """The output of the program, and which of NOT_LOADED it has loaded."""
    script = (
        f"import os, sys\n{setup}\n"
        "from segue.cli.main import main\n"
        f"try:\n    {call}\n"
        f"finally:\n    print([name for name in {NOT_LOADED} if name in sys.modules])\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    return done.stdout


@pytest.mark.parametrize("name", _ELSEWHERE)
def test_a_command_is_listed_with_its_own_help(name: str):
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name == name
    assert not command.hidden
    assert _ELSEWHERE[name] == command.get_short_help_str(limit=1000)


@pytest.mark.parametrize("width", [30, 60, 80])
def test_the_command_list_is_formatted_like_clicks(width: int):
    ours, theirs = click.HelpFormatter(width=width), click.HelpFormatter(width=width)
    main.format_commands(click.Context(main), ours)
    click.Group.format_commands(main, click.Context(main), theirs)
    assert ours.getvalue() == theirs.getvalue()


def test_command_names_complete_like_clicks():
    for incomplete in ("", "s", "-"):
        ctx = click.Context(main)
        ours = [(item.value, item.help) for item in main.shell_complete(ctx, incomplete)]
        theirs = click.Group.shell_complete(main, click.Context(main), incomplete)
        assert ours == [(item.value, item.help) for item in theirs]


def test_commands_are_listed_without_loading_them():
    output = loaded("", "main(['--help'])")
    assert "\n  memory      Show or change the notes that the agent keeps" in output
    assert output.endswith("\n[]\n")


def test_command_names_complete_without_loading_the_commands():
    asked = {"_SEGUE_COMPLETE": "bash_complete", "COMP_WORDS": "segue s", "COMP_CWORD": "1"}
    output = loaded(f"os.environ.update({asked})", "main(prog_name='segue')")
    assert output == "plain,sessions\nplain,setup\nplain,status\n[]\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has this device")
@pytest.mark.parametrize(
    "arguments",
    brief(
        [
            ["--version"],
            ["--help"],
            ["sessions", "--help"],
            ["status"],
            ["-p", "hi"],
            ["config", "path"],
        ],
        [["--version"], ["--help"], ["-p", "hi"]],
    ),
)
def test_output_that_cannot_be_written_is_reported_in_one_line(
    tmp_path: Path, arguments: list[str]
):
    environment = {
        "HOME": str(tmp_path),
        "SEGUE_STORE": f"sqlite://{tmp_path}/segue.db",
        "SEGUE_MODEL": "scripted",
    }
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "segue", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=50,
            check=False,
        )
    assert done.stderr == "Error: The output could not be written: No space left on device.\n"
    assert done.returncode == 1


RUNNING = [
    "cronsim",
    "segue.jobs.queries.jobs",
    "segue.jobs.queries.runs",
    "segue.jobs.queries.reports",
]
SCHEDULES = [*RUNNING, "segue.jobs.values", "segue.jobs.schedule"]


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["sessions"], SCHEDULES),
        (["memory"], SCHEDULES),
        (["-p", "hello"], RUNNING),  # the agent has tools for jobs
    ],
)
def test_a_command_without_jobs_loads_no_schedules(
    tmp_path: Path, arguments: list[str], heavy: list[str]
):
    environment = {
        "HOME": str(tmp_path),
        "SEGUE_STORE": f"sqlite://{tmp_path}/segue.db",
        "SEGUE_MODEL": "scripted",
    }
    script = (
        f"import os, sys\nos.environ.update({environment})\nsys.stdin = open(os.devnull)\n"
        "from segue.cli.main import main\n"
        f"try:\n    main({arguments})\n"
        f"finally:\n    print([name for name in {heavy} if name in sys.modules])\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.endswith("[]\n")
