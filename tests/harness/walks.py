"""Walk three ways through the program and count what each passes: files, functions, and functions
that only forward.

    .venv/bin/python -m tests.harness.walks        the table
    .venv/bin/python -m tests.harness.walks -v     also each file and each forwarding function

The ways, each through a gateway in this process with the test platform:

- a message in a chat: from its arrival until the answer is in the chat
- a handoff: from `/handoff telegram` in a terminal's conversation until the terminal has left
- a reminder: from `/remind` in a chat until the reminder is in the chat

A walk is made once to fill the caches, then four times. What all four pass is counted, so a timer
that happens to run meanwhile is not. For the same reason, no loop is woken just because the store
has changed: each is woken only by the nudges meant for it. Only `src/segue` counts, without
`segue.testing`: the platform and its users. Modules, lambdas and comprehensions are no functions of
their own.

A function is **one call** if its body, docstring aside, is one statement that makes one call and
returns, awaits or yields what comes of it, and if each argument is a parameter, an attribute of a
parameter (so also of `self`) or a name from outside of the function. It **only forwards** if what
it calls is a function of ours: the walk saw that, or the function returns a coroutine unawaited. So
what makes a value, changes an argument or gives a call of a library a name does not only forward.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import functools
import io
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeAlias

import segue
import segue.store
from segue import config
from segue.store import Topic, Tx, sqlite
from segue.store.wake import Notifier
from segue.terminal.conversation import Conversation
from segue.terminal.display import Display
from segue.terminal.plain_console import PlainConsole
from segue.terminal.render.screen import Screen
from segue.turns import Turns
from segue.turns.agents import Agents
from tests.harness import house, stores
from tests.harness.house import House, Offered

SOURCE = Path(segue.__file__).parent
TIMES = 4
QUIET_SECONDS = 0.2
"""How long a walk is watched after its end: what was sent is recorded, and indexed."""

COLUMNS = ("files", "functions", "one call", "only forward")
_UNAWAITED = ("Coroutine", "Awaitable", "AsyncGenerator", "AsyncContextManager")

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Passed: TypeAlias = dict[CodeType, set[CodeType]]
"""Functions in the order of their first call, each with those that it called."""


class NudgedOnly(Notifier):
    """Wakes only the listeners that a nudge is meant for, and all of them only at the start."""

    def notify(self, topics: Iterable[str] | None = None) -> None:
        super().notify(topics if topics is not None or not self._ready.is_set() else ())


class Tracer:
    """Records the calls of functions of ours, in all threads that start after it."""

    def __init__(self) -> None:
        self._passed: Passed | None = None
        """None while nothing is recorded."""

    @contextlib.contextmanager
    def installed(self) -> Generator[None]:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def start(self) -> None:
        self._passed = {}

    def stop(self) -> Passed:
        """Stop recording, and return what was recorded since the start."""
        passed = self._passed or {}
        self._passed = None
        return passed

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        passed = self._passed
        if passed is None or event != "call" or not _is_ours(frame.f_code):
            return
        passed.setdefault(frame.f_code, set())
        caller = frame.f_back
        while caller is not None and not _is_ours(caller.f_code):
            caller = caller.f_back
        if caller is not None:
            passed.setdefault(caller.f_code, set()).add(frame.f_code)


@functools.cache
def _is_ours(code: CodeType) -> bool:
    path = Path(code.co_filename)
    is_function = not code.co_name.startswith("<")
    return (
        is_function and path.is_relative_to(SOURCE) and path.parts[len(SOURCE.parts)] != "testing"
    )


# Functions that only forward


def is_one_call(code: CodeType) -> bool:
    function = _function(code)
    return function is not None and _one_call(function) is not None


def only_forwards(code: CodeType, called: set[CodeType]) -> bool:
    function = _function(code)
    if function is None or _one_call(function) is None:
        return False
    if isinstance(function, ast.FunctionDef) and function.returns is not None:
        returned = ast.unparse(function.returns)
        if any(name in returned for name in _UNAWAITED):
            return True
    return any(it is not code and not it.co_name.startswith("__") for it in called)


def _one_call(function: Function) -> ast.Call | None:
    """The call, if the body makes only that, with what the function was given."""
    body = function.body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    call = _only_call(body[0]) if len(body) == 1 else None
    if call is None:
        return None
    values = [call.func, *call.args, *(keyword.value for keyword in call.keywords)]
    is_given = all(_is_given(it.value if isinstance(it, ast.Starred) else it) for it in values)
    return call if is_given else None


def _only_call(statement: ast.stmt) -> ast.Call | None:
    """The call whose result is all that the statement returns, awaits or yields."""
    match statement:
        case ast.Return(value=value) | ast.Expr(value=value) if value is not None:
            while isinstance(value, ast.Await | ast.YieldFrom):
                value = value.value
            return value if isinstance(value, ast.Call) else None
        case (
            ast.AsyncFor(iter=ast.Call() as call, body=[body])
            | ast.For(iter=ast.Call() as call, body=[body])
            | ast.AsyncWith(items=[ast.withitem(context_expr=ast.Call() as call)], body=[body])
            | ast.With(items=[ast.withitem(context_expr=ast.Call() as call)], body=[body])
        ):
            only_yields = isinstance(body, ast.Expr) and isinstance(body.value, ast.Yield)
            return call if only_yields else None
        case _:
            return None


def _is_given(value: ast.expr) -> bool:
    while isinstance(value, ast.Attribute):
        value = value.value
    return isinstance(value, ast.Name)


def _function(code: CodeType) -> Function | None:
    return _functions(code.co_filename).get(code.co_firstlineno)


@functools.cache
def _functions(path: str) -> dict[int, Function]:
    """The functions of a file by their first line, which is that of the first decorator."""
    tree = ast.parse(Path(path).read_text())
    found = [it for it in ast.walk(tree) if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {min([it.lineno, *(d.lineno for d in it.decorator_list)]): it for it in found}


# The ways


class Ways:
    """A gateway, a chat with it, and terminals."""

    def __init__(self, house: House, chat: str, folder: Path) -> None:
        self._house = house
        self._chat = chat
        self._folder = folder

    async def message(self, name: str, tracer: Tracer) -> None:
        tracer.start()
        await self._say(name)
        await self._until_answered(name)

    async def handoff(self, name: str, tracer: Tracer) -> None:
        display = Display(PlainConsole(lambda _: False), Screen(styled=False), echo=False)
        settings = self._house.settings
        async with (
            await segue.store.open(settings.store) as store,
            Turns(
                store, Agents(store, settings, Offered(self._house.model)), titles=False
            ) as turns,
        ):
            conversation = Conversation(store, settings, turns, display, self._folder)
            async with conversation.open():
                await conversation.do(name)
                tracer.start()
                is_here = await conversation.do("/handoff telegram")
                assert not is_here

    async def reminder(self, name: str, tracer: Tracer) -> None:
        tracer.start()
        await self._say(f"/remind in 20 minutes {name}")
        await self._until_answered(name)
        await self._house.store.write(_make_due)
        await self._house.driver.message(name, chat=self._chat)

    async def _say(self, text: str) -> None:
        await self._house.driver.say(self._house.anna, self._chat, text)

    async def _until_answered(self, text: str) -> None:
        """Wait until an answer repeats the text."""
        await self._house.driver.until(
            lambda shown: sum(text in it for it in shown.texts) > 1, chat=self._chat
        )


def _make_due(tx: Tx) -> None:
    tx.change("UPDATE jobs SET due = :now WHERE state = 'enabled'", now=tx.now)
    tx.nudge(Topic.JOBS)


async def walk(folder: Path, tracer: Tracer) -> dict[str, Passed]:
    """What each of the three ways passes."""
    settings = config.load(
        {
            "SEGUE_CONFIG": f"{folder}/config.toml",
            "SEGUE_STORE": stores.create(folder / "segue.db"),
            "SEGUE_GATEWAY_LOG": f"{folder}/gateway.log",
        }
    )
    async with house.build(settings) as built, built.gateway():
        chat = await built.chat()
        await built.home(chat)
        ways = Ways(built, chat, folder)
        return {
            "message": await _common(tracer, ways.message),
            "handoff": await _common(tracer, ways.handoff),
            "reminder": await _common(tracer, ways.reminder),
        }


async def _common(tracer: Tracer, way: Callable[[str, Tracer], Awaitable[None]]) -> Passed:
    """What every walk passes, in the order of the last one."""
    walks: list[Passed] = []
    for number in range(TIMES + 1):
        await way(f"{way.__name__} number {number}", tracer)
        await asyncio.sleep(QUIET_SECONDS)
        walks.append(tracer.stop())
    warm = walks[1:]
    return {
        code: set[CodeType]().union(*(it[code] for it in warm))
        for code in warm[-1]
        if all(code in it for it in warm)
    }


# What is printed


def report(name: str, passed: Passed, *, is_long: bool) -> str:
    files = list(dict.fromkeys(code.co_filename for code in passed))
    forwarders = [code for code, called in passed.items() if only_forwards(code, called)]
    one_call = [code for code in passed if is_one_call(code)]
    counts = [len(files), len(passed), len(one_call), len(forwarders)]
    lines = [f"{name:10}" + "".join(f"{it:14}" for it in counts)]
    if is_long:
        lines += ["", *(f"    {_module(path)}" for path in files), "", "  only forward:"]
        lines += [f"    {_module(it.co_filename)}: {it.co_qualname}" for it in forwarders]
        lines.append("")
    return "\n".join(lines)


def _module(path: str) -> str:
    return str(Path(path).relative_to(SOURCE))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0] if __doc__ else "")
    parser.add_argument("-v", action="store_true", dest="is_long", help="print all names")
    is_long = parser.parse_args().is_long
    sqlite.Notifier = NudgedOnly
    tracer = Tracer()
    with (
        tempfile.TemporaryDirectory(prefix="segue-") as folder,
        contextlib.redirect_stdout(io.StringIO()),  # of the terminal
        tracer.installed(),
    ):
        ways = asyncio.run(walk(Path(folder), tracer))
    print(" " * 10 + "".join(f"{it:>14}" for it in COLUMNS))
    for name, passed in ways.items():
        print(report(name, passed, is_long=is_long))


if __name__ == "__main__":
    main()
