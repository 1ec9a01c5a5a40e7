"""The store's threads: a few of them serve any number of callers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Generator
from queue import Empty, SimpleQueue
from typing import Any

from msgspec import Struct

from segue.core.errors import SegueError, StoreClosed

START_TIMEOUT = 15.0
"""Seconds that a call waits to be started before its caller gets a busy error."""


class WorkFailed(RuntimeError):
    """The work of a call ended with an error that a task cannot receive. It is the cause."""


class StoreCall:
    """One caller's work, on its way from the event loop to a thread and back."""

    __slots__ = ("_begun", "future", "lasting", "loop", "then", "timer", "work")

    def __init__(
        self, work: Callable[[Any], Any], busy: Callable[[], SegueError], *, lasting: bool = True
    ) -> None:
        self.work = work
        self.lasting = lasting
        """Whether its writes must survive a power cut."""
        self.then: Callable[[], None] | None = None
        """Called on the event loop if the work succeeded, even if no caller waits for it."""
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        # Acquired once and never released. The thread that starts the work and the caller that
        # stops waiting for it both try; the first one decides whether the work is done.
        self._begun = threading.Lock()
        self.timer = self.loop.call_later(START_TIMEOUT, self._give_up, busy)

    def begin(self) -> bool:
        """Claim the decision. Return False if the other side already has it."""
        return self._begun.acquire(blocking=False)

    def _give_up(self, busy: Callable[[], SegueError]) -> None:
        if self.begin() and not self.future.done():
            self.future.set_exception(busy())

    def __await__(self) -> Generator[Any, None, Any]:
        try:
            return (yield from self.future)
        finally:
            self.timer.cancel()
            self.begin()


class CallResult(Struct, frozen=True):
    """The result or the error of a call."""

    call: StoreCall
    result: Any = None
    error: BaseException | None = None

    def deliver(self) -> None:
        """End the caller's wait. The follow-up comes second, so that the caller never waits for
        it."""
        future = self.call.future
        if not future.done():  # unless the caller was cancelled
            if self.error is None:
                future.set_result(self.result)
            else:
                future.set_exception(_deliverable(self.error))
        if self.call.then is not None and self.error is None:
            self.call.then()


def _deliverable(error: BaseException) -> Exception:
    """The error as a task can receive it. A future refuses StopIteration, so that its caller would
    wait for ever; SystemExit would end the event loop; and CancelledError would look as if the
    caller had been cancelled."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
        return error
    failed = WorkFailed(f"{type(error).__name__}: {error}")
    failed.__cause__ = error
    return failed


def deliver(outcomes: list[CallResult]) -> None:
    """Deliver every outcome, even if the follow-up of one raises."""
    with contextlib.ExitStack() as stack:
        for outcome in reversed(outcomes):  # the last callback is called first
            stack.callback(outcome.deliver)


class Threads:
    """Up to `count` threads that take calls in order, at most `batch` at a time."""

    def __init__(
        self,
        name: str,
        *,
        count: int,
        batch: int = 1,
        run: Callable[[list[StoreCall]], list[CallResult]],
        done: Callable[[], None],
    ) -> None:
        self._name = name
        self._count = count
        self._batch = batch
        self._run = run
        self._done = done
        self._queue: SimpleQueue[StoreCall | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False

    def submit(self, call: StoreCall) -> StoreCall:
        if self._closed:
            call.timer.cancel()
            raise StoreClosed
        self._queue.put(call)
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if not self._threads:
            self._idle = 0
        if self._idle < self._queue.qsize() and len(self._threads) < self._count:
            self._start(call)
        return call

    def _start(self, call: StoreCall) -> None:
        thread = threading.Thread(target=self._main, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system allows no more threads
            if self._threads:
                return  # the others come to it
            call.timer.cancel()
            call.begin()  # so that no later thread runs it
            raise
        self._threads.append(thread)

    async def close(self) -> bool:
        """Finish the submitted calls, then stop. Return False if a thread is stuck."""
        self._closed = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join, START_TIMEOUT)
        return not any(thread.is_alive() for thread in self._threads)

    def _main(self) -> None:
        while calls := self._take():
            try:
                outcomes = self._run(calls)
            except BaseException as error:  # noqa: BLE001 - passed on to every caller
                outcomes = [CallResult(call, error=error) for call in calls]
            for loop in {outcome.call.loop for outcome in outcomes}:
                mine = [outcome for outcome in outcomes if outcome.call.loop is loop]
                with contextlib.suppress(RuntimeError):  # the loop was closed: no caller waits
                    loop.call_soon_threadsafe(deliver, mine)
        self._done()

    def _take(self) -> list[StoreCall]:
        self._idle += 1
        first = self._queue.get()
        self._idle -= 1
        if first is None:
            return []
        calls = [first]
        while len(calls) < self._batch:
            try:
                call = self._queue.get_nowait()
            except Empty:
                break
            if call is None:
                self._queue.put(None)
                break
            calls.append(call)
        return calls
