"""Runs the demo until it is completed, failed or interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import tempfile
from pathlib import Path

from segue import config
from segue.agent.models.choice import Choice
from segue.cli.demo.model import installed, ready
from segue.cli.demo.play import Play
from segue.cli.demo.report import DemoRecord, DemoReport, left
from segue.cli.signals import on_stop_signals
from segue.config import Settings
from segue.core.errors import UserError
from segue.core.text import one_line
from segue.terminal.output import notice, print_json

COMPLETED = 0
FAILED = 1
INTERRUPTED = 130
_INTERRUPTED = "The demo was interrupted."


def run(*, as_json: bool, yes: bool, scripted: bool) -> int:
    """Run the demo, and return the exit code."""
    record = DemoRecord()
    report = DemoReport(silent=as_json)
    code = COMPLETED
    try:
        settings = config.load()
        before = installed(settings)
        # With --json, only the JSON object is on standard output.
        try:
            with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
                choice = ready(settings, yes=yes, scripted=scripted)
        finally:
            record.kept = [part for part in installed(settings) if part not in before]
        asyncio.run(_perform(settings, choice, record, report))
    except UserError as error:
        record.error = str(error)
        code = FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        record.error = f"{_INTERRUPTED} {left(record)}"
        code = INTERRUPTED
    if as_json:
        print_json(record.json())
    elif record.error:
        notice(one_line(record.error if code == INTERRUPTED else f"Error: {record.error}"))
    else:
        report.end(record)
    return FAILED if code == COMPLETED and not record.saw_earlier else code


async def _perform(
    settings: Settings, choice: Choice, record: DemoRecord, report: DemoReport
) -> None:
    """Run the demo in a temporary folder, and always remove the folder."""
    task = asyncio.current_task()

    def end() -> None:
        # Later signals do not disturb the cleanup.
        if task is not None and not task.cancelling():
            task.cancel()

    with on_stop_signals(end):
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="segue-demo-"))
        try:
            await Play(settings, choice, folder, record, report).perform()
        finally:
            # Not in a thread, so that a second interrupt cannot prevent the cleanup.
            shutil.rmtree(folder, ignore_errors=True)
