"""`segue doctor`: checks the installation, and says what is wrong and what to type."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

import click

from segue.cli import diagnostics
from segue.cli.diagnostics import Finding, Verdict
from segue.cli.model import Around
from segue.cli.options import JSON
from segue.config import Settings
from segue.core.errors import SettingsError
from segue.core.redaction import redacted
from segue.core.text import one_line
from segue.terminal.output import folded, print_json, screen

_SECONDS = 20.0
"""How long to wait for a check. A busy machine takes seconds to load the library of a platform."""
_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}
_ROOM = len("problem  packages  ")


@click.command()
@JSON
@click.make_pass_decorator(Around, ensure=True)
@click.pass_context
def doctor(ctx: click.Context, around: Around, *, as_json: bool) -> None:
    """Check the installation and say how to fix what is wrong.

    The checks cost nothing. The exit code is 1 if there is a problem.
    """
    examination = Examination(around)
    findings = examination.findings(_SECONDS)
    if as_json:
        print_json({"findings": findings})
    else:
        _print(findings)
    failed = any(finding.verdict == "problem" for finding in findings)
    if examination.is_stuck:
        # Threads of unfinished checks may wait forever, and a normal exit would wait for them.
        sys.stdout.flush()
        os._exit(int(failed))
    ctx.exit(int(failed))


class Examination:
    """Runs all checks at once, each in its own thread, so that no check can block another."""

    def __init__(self, around: Around) -> None:
        self._around = around
        self._checks: list[Check] = []

    @property
    def is_stuck(self) -> bool:
        return any(check.thread.is_alive() for check in self._checks)

    def findings(self, seconds: float) -> list[Finding]:
        """Run the checks, and return what they find within `seconds`, in a fixed order."""
        deadline = time.monotonic() + seconds
        self._start("program", diagnostics.program)
        if settings := self._settings():
            self._start("settings", partial(diagnostics.settings_file, settings))
            self._start("store", partial(diagnostics.store, settings))
            self._start("model", partial(diagnostics.model, settings, self._around.servers))
            for platform in diagnostics.bots(settings):
                self._start(platform, partial(diagnostics.bot, settings, platform))
        self._start("terminal", diagnostics.terminal)
        return [finding for check in self._checks for finding in check.found(deadline)]

    def _settings(self) -> Settings | None:
        """Return the settings. If they are invalid, add that as a finding and return None."""
        try:
            return self._around.settings()
        except (SettingsError, OSError) as error:
            told = f"{error} Type `segue config edit`. Store and model were not checked."
            broken = Finding("settings", told, Verdict.PROBLEM)
            self._start("settings", lambda: [broken])
            return None

    def _start(self, about: str, look: Callable[[], list[Finding]]) -> None:
        self._checks.append(Check(about, look))


class Check:
    """A running check."""

    def __init__(self, about: str, look: Callable[[], list[Finding]]) -> None:
        self._about = about
        self._look = look
        self._found: list[Finding] = []
        self.thread = threading.Thread(target=self._run, name=f"check {about}", daemon=True)
        self.thread.start()

    def found(self, deadline: float) -> list[Finding]:
        self.thread.join(max(deadline - time.monotonic(), 0))
        if self.thread.is_alive():
            return [self._problem("No answer in time. Something is stuck, or the machine is busy.")]
        return self._found

    def _run(self) -> None:
        try:
            self._found = self._look()
        except Exception as error:  # noqa: BLE001 - an unexpected error is a finding, too
            self._found = [self._problem(f"The check failed: {type(error).__name__}: {error}")]

    def _problem(self, told: str) -> Finding:
        return Finding(self._about, told, Verdict.PROBLEM)


def _print(findings: Sequence[Finding]) -> None:
    # Not with --json, which also works if Rich is missing. It honours NO_COLOR and dumb terminals.
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console()
    width = screen()
    for finding in findings:
        head = f"{finding.verdict:<7}  {finding.about:<8}  "
        line = Text(folded(one_line(redacted(finding.told)), width, " " * _ROOM, head))
        line.stylize(_STYLES[finding.verdict], 0, len(finding.verdict))
        console.print(line, soft_wrap=True)
