"""One command of `segue`, in this process and without a terminal."""

from __future__ import annotations

from typing import Any

import msgspec
from click.testing import CliRunner, Result

from segue.cli.main import main
from tests.harness.screen import on_screen


class Command:
    """`command` in this environment, with any further arguments.

    `secret` must never be printed.
    """

    def __init__(self, command: str, environment: dict[str, str], *, secret: str = "") -> None:
        self.environment = environment
        self._command = command
        self._secret = secret

    def run(self, *words: str, given: str | None = None, **more: str) -> Result:
        """Run it with `given` as its input and `more` environment variables."""
        environment = {**self.environment, **more}
        result = CliRunner().invoke(main, [self._command, *words], env=environment, input=given)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert not self._secret or self._secret not in result.output
        return result

    def __call__(self, *words: str, given: str | None = None, **more: str) -> str:
        """Run it and return its output. It must succeed without any notice."""
        result = self.run(*words, given=given, **more)
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        return result.stdout

    def json(self, *words: str, **more: str) -> Any:
        line = self(*words, "--json", **more)
        assert line.count("\n") == 1
        return msgspec.json.decode(line)

    def refused(self, *words: str, given: str | None = None, **more: str) -> str:
        """Run it and return its error. It must fail and print nothing else."""
        result = self.run(*words, given=given, **more)
        assert result.exit_code != 0
        assert result.stdout == ""
        return result.stderr

    def on_screen(
        self, *words: str, columns: int = 80, keys: bytes = b"", prompt: str = "", **more: str
    ) -> tuple[int, str]:
        """Run it on a terminal, in a separate process; see `on_screen`."""
        environment = {**self.environment, **more}
        return on_screen(
            environment, self._command, *words, columns=columns, keys=keys, prompt=prompt
        )
