"""Real processes to measure with, each on a line to the one that started it."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Generator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

PATIENCE = 120.0
"""Seconds after which a worker that says nothing has failed."""

READY = "ready"
GO = "go"


class Line:
    """One end of the line between a worker and the process that started it."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection = connection

    def tell(self, what: object) -> None:
        self._connection.send(what)

    def hear(self) -> Any:
        """What the other end says next; TimeoutError or EOFError when it fails to."""
        if not self._connection.poll(PATIENCE):
            raise TimeoutError("a worker said nothing for too long")
        return self._connection.recv()

    def wait_for_go(self) -> None:
        """For a worker: everything is prepared, and all of them shall start at once."""
        self.tell(READY)
        self.hear()


@contextlib.contextmanager
def started(count: int, work: Callable[..., None], *args: object) -> Generator[list[Line]]:
    """`count` new processes that run `work(line, *args)`; they end with the `with`."""
    # Each is forked from a clean process that has imported the work already: on a slow machine
    # forty interpreters that start take longer than what they measure.
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
    """What `count` processes tell after they have started their work at the same moment."""
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
