"""Worker processes for benchmarks, each connected to its parent by a pipe."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Generator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

PATIENCE = 120.0
"""Seconds without a message after which a worker has failed."""

READY = "ready"
GO = "go"


class Line:
    """One end of the pipe between a worker and its parent."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection = connection

    def tell(self, what: object) -> None:
        self._connection.send(what)

    def hear(self) -> Any:
        """Receive the next message. Raises TimeoutError or EOFError if there is none."""
        if not self._connection.poll(PATIENCE):
            raise TimeoutError("a worker said nothing for too long")
        return self._connection.recv()

    def wait_for_go(self) -> None:
        """In a worker: report that it is ready, and wait for the common start."""
        self.tell(READY)
        self.hear()


@contextlib.contextmanager
def started(count: int, work: Callable[..., None], *args: object) -> Generator[list[Line]]:
    """Run `work(line, *args)` in `count` new processes, which end with the `with`."""
    # Workers are forked from a clean process that has already imported the work. On a slow machine,
    # starting forty interpreters takes longer than the measurement.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([work.__module__])
    lines: list[Line] = []
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            here, there = context.Pipe()
            stack.callback(here.close)
            process = context.Process(target=_main, args=(there, work, args), daemon=True)
            process.start()
            stack.callback(_end, process)
            there.close()
            lines.append(Line(here))
        yield lines


def together(count: int, work: Callable[..., None], *args: object) -> list[Any]:
    """Start `count` workers at the same moment and return the result of each."""
    with started(count, work, *args) as lines:
        for line in lines:
            line.hear()
        for line in lines:
            line.tell(GO)
        return [line.hear() for line in lines]


def _main(connection: Connection[Any, Any], work: Callable[..., None], args: Any) -> None:
    work(Line(connection), *args)


def _end(process: BaseProcess) -> None:
    process.join(5)
    if process.is_alive():
        process.terminate()
        process.join()
