"""`segue demo` shows a handoff, and leaves nothing behind however it ends."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from segue import config
from segue.agent.models.local.runtime import QWEN, mark
from segue.cli.demo.gateway import installed_parts
from segue.cli.demo.play import FACT, QUESTION, DemoRecord, left
from segue.core.transcript import ToolCall
from tests import program
from tests.fakes.models.openai import Answer, Say
from tests.harness.gateways import ROOT, segue_says
from tests.harness.pty import CODE
from tests.harness.terminal import Person
from tests.harness.terminal import person as person
from tests.program import Program

ROLES = ["user", "assistant"] * 3
STEPS = ["gateway", "terminal", "handoff", "page", "reply", "back"]


@pytest.fixture
def folder(person: Person, tmp_path: Path) -> Path:
    """The folder for the temporary folder of the demo."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    person.environment["TMPDIR"] = str(folder)
    return folder


def processes_of(folder: Path) -> list[str]:
    """The command lines of all processes that use something in `folder`."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # not a process, or no longer one
            continue
        if entry.name.isdigit() and f"{folder}/" in line:
            found.append(line)
    return found


def files_in(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*")]


def nothing_left(person: Person, folder: Path) -> None:
    assert files_in(folder) == []
    assert processes_of(folder) == []
    home = Path(person.environment["HOME"])
    assert not (home / "segue.db").exists(), "the person's own store was touched"
    assert not list(home.rglob("config.toml"))


async def demo_json(person: Person, *words: str) -> tuple[int, dict[str, Any]]:
    output = await asyncio.to_thread(segue_says, person, "demo", "--json", *words)
    assert output.stdout.count("\n") == 1, output.stdout
    return output.returncode, json.loads(output.stdout)


async def test_each_step_is_printed_with_its_time_in_80_columns(person: Person, folder: Path):
    """With the user's own model. A reply that does not remember is a failure."""
    async with person.talks_to("A fine boat.", "I am here.", "No idea.") as model:
        output = await asyncio.to_thread(segue_says, person, "demo")
    assert output.returncode == 1, output.stderr
    lines = output.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    headings = [line for line in lines if line[:1].isdigit()]
    assert [line[:2] for line in headings] == [f"{n}." for n in range(1, 7)]
    assert sum(line.strip().startswith("(") and line.endswith("s)") for line in lines) == 6
    assert f"   you    {FACT}" in lines
    assert f"   you    {QUESTION}" in lines
    assert "   Segue  No idea." in lines
    third = lines[lines.index(headings[2]) + 1 : lines.index(headings[3])]
    assert any(line.endswith("…") for line in third), "no step of the handoff was shown"
    assert "   The session is on the web page now." in third
    assert "page did not use what was said in the terminal." in " ".join(output.stdout.split())
    assert "\x1b" not in output.stdout
    asked = [message["content"] for message in model.requests[-1]["messages"]]
    assert FACT in asked, "the model was shown what was said in the terminal"
    assert asked[-1] == QUESTION
    nothing_left(person, folder)


async def test_the_json_output_is_one_object(person: Person, folder: Path):
    code, output = await demo_json(person, "--scripted")
    assert code == 0, output
    assert (output["state"], output["error"], output["model"]) == ("completed", None, "scripted")
    assert [step["name"] for step in output["steps"]] == STEPS
    assert all(step["ms"] >= 0 for step in output["steps"])
    assert 0 <= output["pickup_ms"] <= output["handoff_ms"] <= 30_000
    assert output["roles"] == ROLES
    assert output["saw_earlier"] is True
    assert "which name the boat Aurora" in output["reply"]
    assert len(output["session"]) == len("20261116_042656_f8ddcc17")
    nothing_left(person, folder)


def _shell() -> Say:
    return Say(calls=(ToolCall("call_1", "shell", json.dumps({"command": "date"})),))


@pytest.mark.parametrize(
    ("answers", "steps", "reason"),
    [
        ([], ["gateway"], "The script of this test is at its end."),
        (["Fine.", "I am here."], STEPS[:4], "The script of this test is at its end."),
        (["Fine.", "I am here.", _shell()], STEPS[:4], "the model asked to use a tool"),
    ],
)
async def test_a_failure_is_reported_with_the_steps_before_it(
    person: Person, folder: Path, answers: list[str | Answer], steps: list[str], reason: str
):
    async with person.talks_to(*answers):
        code, output = await demo_json(person)
    assert (code, output["state"]) == (1, "failed")
    assert [step["name"] for step in output["steps"]] == steps
    assert reason in output["error"]
    nothing_left(person, folder)


async def test_without_a_model_and_a_terminal_it_does_not_ask(person: Person, folder: Path):
    del person.environment["SEGUE_MODEL"]
    person.environment["SEGUE_MODELS"] = str(folder.parent / "no-models")
    output = await asyncio.to_thread(segue_says, person, "demo")
    assert (output.returncode, output.stdout) == (1, "")
    assert "No model is available yet" in output.stderr
    assert "--yes" in output.stderr
    assert "--scripted" in output.stderr
    nothing_left(person, folder)


async def test_with_yes_a_model_that_cannot_be_had_is_replaced_by_scripted_answers(
    person: Person, folder: Path
):
    del person.environment["SEGUE_MODEL"]
    person.environment["SEGUE_MODELS"] = "/dev/null/models"
    output = await asyncio.to_thread(segue_says, person, "demo", "--yes")
    assert output.returncode == 0, output.stderr
    assert "The embedded model could not be downloaded" in output.stderr
    assert "The demo goes on with scripted answers" in output.stderr
    assert "which name the boat Aurora" in " ".join(output.stdout.split())
    nothing_left(person, folder)


def test_what_the_demo_downloaded_is_named(tmp_path: Path):
    settings = config.load({"SEGUE_CONFIG": "/dev/null", "SEGUE_MODELS": str(tmp_path)})
    before = installed_parts(settings)
    part = tmp_path / f"{QWEN.file}.part"
    part.write_text("half")
    record = DemoRecord(kept=[it for it in installed_parts(settings) if it not in before])
    assert left(record) == f"The demo left nothing behind but a part of the model in {tmp_path}."
    part.rename(tmp_path / QWEN.file)
    mark(tmp_path, QWEN)
    record = DemoRecord(kept=[it for it in installed_parts(settings) if it not in before])
    assert left(record) == f"The demo left nothing behind but the model in {tmp_path}."
    assert left(DemoRecord()) == "The demo left nothing behind."


def test_make_demo_asks_nothing():
    # Without ARGS it would be given those of a `make test ARGS=…` that runs this test.
    command = ["make", "--dry-run", "--no-print-directory", "--old-file=.venv/.core"]
    command += ["demo", "ARGS="]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == ".venv/bin/segue demo --yes \n"


async def test_the_user_is_asked_before_a_model_is_downloaded(person: Person, folder: Path):
    del person.environment["SEGUE_MODEL"]
    person.environment["SEGUE_MODELS"] = str(folder.parent / "no-models")
    async with person.opens("demo") as shown:
        await shown.see("Download it now? [Y/n]:")
        shown.say("n")
        assert await shown.end() == 1
        assert "A gateway starts" not in shown.text
    nothing_left(person, folder)


async def test_ctrl_c_in_the_middle_cleans_up(person: Person, folder: Path):
    async with person.talks_to("A fine boat.") as model:
        model.pausing()
        async with person.opens("demo") as shown:
            await shown.see("you    My boat")
            assert processes_of(folder), "its gateway runs"
            shown.press("c-c")
            assert await shown.end() == 130
            await shown.shows("The demo was interrupted. The demo left nothing behind.")
            assert "Traceback" not in shown.text
    nothing_left(person, folder)


async def test_a_killed_demo_leaves_nothing_behind(person: Person, folder: Path):
    async with person.talks_to("A fine boat.") as model:
        model.pausing()
        nothing = os.open(os.devnull, os.O_WRONLY)
        environment = {**CODE, **person.environment}
        demo = program.start(
            "demo", environment=environment, cwd=person.cwd, output=nothing, errors=nothing
        )
        os.close(nothing)
        await _begun(demo, folder)
        demo.kill()
        deadline = time.monotonic() + 20
        while processes_of(folder) or files_in(folder):
            assert time.monotonic() < deadline, processes_of(folder)
            await asyncio.sleep(0.05)
    nothing_left(person, folder)


async def _begun(process: Program, folder: Path) -> None:
    """Wait until its gateway runs."""
    deadline = time.monotonic() + 20
    while not any("segue.db" in file for file in files_in(folder)) or not processes_of(folder):
        assert process.poll() is None
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


@pytest.mark.real
async def test_the_embedded_model_remembers_on_the_page(person: Person, folder: Path):
    person.environment["SEGUE_MODEL"] = "local"
    person.environment["SEGUE_MODELS"] = str(config.load().models_folder)
    code, output = await demo_json(person)
    assert (code, output["state"], output["saw_earlier"]) == (0, "completed", True), output
    assert output["roles"] == ROLES
    assert "aurora" in output["reply"].lower()
    nothing_left(person, folder)
