"""The points at which a process can be killed: each step of a handoff, and of an answer."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from segue.testing.contract.rig import Act
from segue.testing.peers import Trouble
from tests.crash.model import Hang
from tests.crash.trap import Trap
from tests.crash.world import WITHIN, Life, World, until

Action = Callable[[], Awaitable[None]]

_numbers = itertools.count(1)


class Point(Protocol):
    def at(self, world: World, life: Life, act: Action) -> AbstractAsyncContextManager[None]:
        """Start `act` and yield when its work has reached this point, and stays there."""
        ...


def _is_transaction(work: str) -> bool:
    """Whether there is a function that a trap knows by this name."""
    module, name = work.split(".")
    for place in (f"segue.store.{module}", f"segue.{module}.queries", f"segue.turns.{module}"):
        with contextlib.suppress(ImportError):
            if hasattr(import_module(place), name):
                return True
    return False


@dataclass(frozen=True)
class Between:
    """Just before or after one transaction."""

    work: str
    about: tuple[str, ...] = ()
    after: bool = False
    any_session: bool = False

    def __post_init__(self) -> None:
        if not _is_transaction(self.work):
            raise ValueError(f"nothing is called {self.work}, so no process would be killed there")

    @contextlib.asynccontextmanager
    async def at(self, world: World, life: Life, act: Action) -> AsyncGenerator[None]:
        about = self.about if self.any_session else (*self.about, life.session_id)
        trap = Trap(self.work, self.after, about, 1, next(_numbers))

        async def sprung() -> bool:
            return world.traps.sprung

        world.traps.lay(trap)
        try:
            await act()
            await until(sprung, f"{self} is reached", WITHIN)
            yield
        finally:
            world.traps.take_away(trap)


@dataclass(frozen=True)
class OnPlatform:
    """A platform call without an answer yet: before its effect (HANG), or after it."""

    call: Act
    trouble: Trouble

    @contextlib.asynccontextmanager
    async def at(self, world: World, life: Life, act: Action) -> AsyncGenerator[None]:
        await world.rig.fail(self.call, self.trouble, chat=life.chat)
        try:
            await act()
            await world.rig.until(lambda view: view.hanging > 0)
            yield
        finally:
            await world.rig.calm()


@dataclass(frozen=True)
class InModel:
    """The model was asked, and has not finished its answer."""

    handoff: bool = False
    midway: bool = False
    """It has started to answer."""
    shown: bool = False
    """The partial answer is already visible."""

    @contextlib.asynccontextmanager
    async def at(self, world: World, life: Life, act: Action) -> AsyncGenerator[None]:
        about = life.arrival if self.handoff else world.next_word

        async def hangs() -> bool:
            return world.model.hanging > 0

        world.model.hang(Hang(about, self.midway))
        try:
            await act()
            await until(hangs, f"{self} is reached", WITHIN)
            if self.shown:
                await world.rig.until(
                    lambda view: any(m.text.endswith("…") for m in view.messages), life.chat
                )
            yield
        finally:
            world.model.go_on()


@dataclass(frozen=True)
class InTool:
    """The tool is running."""

    @contextlib.asynccontextmanager
    async def at(self, world: World, life: Life, act: Action) -> AsyncGenerator[None]:
        word = world.next_word

        async def runs() -> bool:
            return world.runs()[word] > 0

        with world.tools_held():
            await act()
            await until(runs, f"{self} is reached", WITHIN)
            yield


@dataclass(frozen=True)
class Then:
    """The first point is passed, then the second is reached. For steps that happen repeatedly."""

    first: Point
    second: Point

    @contextlib.asynccontextmanager
    async def at(self, world: World, life: Life, act: Action) -> AsyncGenerator[None]:
        async with contextlib.AsyncExitStack() as held:
            await held.enter_async_context(self.first.at(world, life, act))
            async with self.second.at(world, life, held.aclose):
                yield


@dataclass(frozen=True)
class While:
    """The second point is reached while the first is held."""

    first: Point
    second: Point

    @contextlib.asynccontextmanager
    async def at(self, world: World, life: Life, act: Action) -> AsyncGenerator[None]:
        async with contextlib.AsyncExitStack() as held:

            async def begin() -> None:
                await held.enter_async_context(self.first.at(world, life, act))

            async with self.second.at(world, life, begin):
                yield


# A handoff

_STEP = "handoffs.record_step"
_RECAP = (":recap'",)
_REPLY = (":reply'",)
_COMPLETE = Between("handoffs.complete")


@dataclass(frozen=True)
class Moment:
    """A point, and whether the agent's answer is recorded by then and must not be requested
    again."""

    point: Point
    kept: bool = False
    polled: bool = False
    """Gateways also come to this point without a handoff, when they look for one."""


HANDING_OFF: dict[str, Moment] = {
    "before the claim": Moment(Between("handoffs.claim_next", any_session=True), polled=True),
    "claimed": Moment(Between("handoffs.claim_next", after=True)),
    "before a thread is opened": Moment(Between(_STEP, ("Step.OPENING",), after=True)),
    "a thread is being opened": Moment(OnPlatform(Act.OPEN_THREAD, Trouble.HANG)),
    "a thread was opened": Moment(OnPlatform(Act.OPEN_THREAD, Trouble.HANG_AFTER)),
    "the thread is known": Moment(Between(_STEP, ("Step.REPLYING",))),
    "the thread is kept": Moment(Between(_STEP, ("Step.REPLYING",), after=True)),
    "the agent replies": Moment(InModel(handoff=True)),
    "the agent has replied": Moment(Between(_STEP, ("Step.DELIVERING",))),
    "the reply is kept": Moment(Between(_STEP, ("Step.DELIVERING",), after=True), kept=True),
    "the recap is queued": Moment(Between("outbox.enqueue", _RECAP, after=True), kept=True),
    "the recap is taken": Moment(Between("deliveries.claim", _RECAP, after=True), kept=True),
    "the recap is being sent": Moment(OnPlatform(Act.SEND, Trouble.HANG), kept=True),
    "the recap was sent": Moment(OnPlatform(Act.SEND, Trouble.HANG_AFTER), kept=True),
    "the recap is not noted": Moment(Between("deliveries.sent", _RECAP), kept=True),
    "the recap is noted": Moment(Between("deliveries.sent", _RECAP, after=True), kept=True),
    "before the commit": Moment(_COMPLETE, kept=True),
    "after the commit": Moment(Between("handoffs.complete", after=True), kept=True),
    "the reply is taken": Moment(Between("deliveries.claim", _REPLY, after=True), kept=True),
    "the reply is being sent": Moment(
        Then(_COMPLETE, OnPlatform(Act.SEND, Trouble.HANG)), kept=True
    ),
    "the reply was sent": Moment(
        Then(_COMPLETE, OnPlatform(Act.SEND, Trouble.HANG_AFTER)), kept=True
    ),
    "the reply is not noted": Moment(Between("deliveries.sent", _REPLY), kept=True),
    "the reply is noted": Moment(Between("deliveries.sent", _REPLY, after=True), kept=True),
}

# The message does not name its session: a refusal is no news there.
_returned = functools.partial(Between, about=(":return'",), after=True, any_session=True)

RETURNING: dict[str, Moment] = {
    "claimed, to return": HANDING_OFF["claimed"],
    "its thread is known": HANDING_OFF["the thread is known"],
    "its thread is kept": HANDING_OFF["the thread is kept"],
    "the agent replies there": HANDING_OFF["the agent replies"],
    "the reply there is kept": HANDING_OFF["the reply is kept"],
    "the return is queued": Moment(_returned("outbox.enqueue"), kept=True),
    "the return is taken": Moment(_returned("deliveries.claim"), kept=True),
    "the return is being sent": HANDING_OFF["the recap is being sent"],
    "the return was sent": HANDING_OFF["the recap was sent"],
    "the return is noted": Moment(_returned("deliveries.sent"), kept=True),
    "before the commit of a return": HANDING_OFF["before the commit"],
    "after the commit of a return": HANDING_OFF["after the commit"],
}

# The answer to a message

_BEGIN = "turns.begin"
_ADD = "turns.add"
_ASKED = ("Role.USER",)
_CALLED = ("tool_calls=(ToolCall",)
_RESULT = ("Role.TOOL",)
_ANSWER = ("Role.ASSISTANT", "I heard")

ANSWERING: dict[str, Moment] = {
    "before it is recorded": Moment(Between("inbox.record", any_session=True)),
    "it is recorded": Moment(Between("inbox.record", after=True, any_session=True)),
    "the session is not in hand": Moment(Between("runner._take")),
    "the session is in hand": Moment(Between("runner._take", after=True)),
    "before it is taken": Moment(Between(_BEGIN, _ASKED)),
    "it is taken": Moment(Between(_BEGIN, _ASKED, after=True)),
    "the agent thinks": Moment(InModel()),
    "the agent has answered": Moment(Between(_ADD, _ANSWER)),
    "the answer is queued": Moment(Between(_ADD, _ANSWER, after=True), kept=True),
    "the answer is taken": Moment(Between("deliveries.claim", after=True), kept=True),
    "the answer is being sent": Moment(OnPlatform(Act.SEND, Trouble.HANG), kept=True),
    "the answer was sent": Moment(OnPlatform(Act.SEND, Trouble.HANG_AFTER), kept=True),
    "the answer is not noted": Moment(Between("deliveries.sent"), kept=True),
    "the answer is noted": Moment(Between("deliveries.sent", after=True), kept=True),
    "the session is let go": Moment(Between("leases.release"), kept=True),
}
_FIND = "bindings.get_or_create"
ENTERING: dict[str, Moment] = {
    "before the session comes": Moment(Between(_FIND, any_session=True)),
    "the session has come": Moment(Between(_FIND, after=True, any_session=True)),
    "it is taken there": ANSWERING["it is taken"],
}
WITH_A_TOOL: dict[str, Moment] = {
    "the call is not kept": Moment(Between(_ADD, _CALLED)),
    "the call is kept": Moment(Between(_ADD, _CALLED, after=True)),
    "the tool runs": Moment(InTool()),
    "the result is not kept": Moment(Between(_ADD, _RESULT)),
    "the result is kept": Moment(Between(_ADD, _RESULT, after=True)),
    "the answer after it is not kept": Moment(Between(_ADD, _ANSWER)),
    "the answer after it is queued": Moment(Between(_ADD, _ANSWER, after=True), kept=True),
}
_SPEAKS = InModel(midway=True)
SHOWN = InModel(midway=True, shown=True)
"""The chat shows half an answer."""
_BUBBLE = "bubbles.put"
SHOWN_AS_IT_COMES: dict[str, Moment] = {
    "the bubble is being sent": Moment(While(_SPEAKS, OnPlatform(Act.SEND, Trouble.HANG))),
    "the bubble was sent": Moment(While(_SPEAKS, OnPlatform(Act.SEND, Trouble.HANG_AFTER))),
    "the bubble is not noted": Moment(While(_SPEAKS, Between(_BUBBLE))),
    "the bubble is noted": Moment(While(_SPEAKS, Between(_BUBBLE, after=True))),
    "the bubble is shown": Moment(SHOWN),
    "the bubble is being changed": Moment(Then(SHOWN, OnPlatform(Act.EDIT, Trouble.HANG))),
    "the bubble was changed": Moment(Then(SHOWN, OnPlatform(Act.EDIT, Trouble.HANG_AFTER))),
    "the answer in it is not noted": Moment(Then(SHOWN, Between("deliveries.sent")), kept=True),
    "the answer in it is noted": Moment(
        Then(SHOWN, Between("deliveries.sent", after=True)), kept=True
    ),
}

# A handoff in the middle of a turn, before its tool call

_REPLIES = (
    "the agent replies", "the reply is taken", "the reply is being sent", "the reply was sent",
    "the reply is not noted", "the reply is noted",
)  # fmt: skip
MID_TURN: dict[str, Moment] = {
    "the call is kept here": Moment(Between(_ADD, _CALLED, after=True)),
    "before it is asked for": Moment(Between("handoffs.request")),
    "it is asked for": Moment(Between("handoffs.request", after=True)),
    **{
        name: Moment(m.point, polled=m.polled)
        for name, m in HANDING_OFF.items()
        if name not in _REPLIES
    },
}
"""Nothing has moved, or everything has. The agent gives no reply: its turn is the reply."""
GOING_ON: dict[str, Moment] = {
    "the session is in hand there": Moment(Between("runner._take", after=True)),
    "before the turn goes on": Moment(Then(_COMPLETE, Between(_BEGIN))),
    "the turn goes on": Moment(Then(_COMPLETE, Between(_BEGIN, after=True))),
    "the tool runs there": Moment(InTool()),
    "the result is not kept there": Moment(Between(_ADD, _RESULT)),
    "the result is kept there": Moment(Between(_ADD, _RESULT, after=True)),
    "the answer is not kept there": Moment(Between(_ADD, _ANSWER)),
    "the answer is queued there": Moment(Between(_ADD, _ANSWER, after=True), kept=True),
}
"""The turn goes on in the chat."""
AFTER_A_TOOL: dict[str, Moment] = {
    "the tool runs here": Moment(InTool()),
    "the result is not kept here": Moment(Between(_ADD, _RESULT)),
    "the result is kept here": Moment(Between(_ADD, _RESULT, after=True)),
    "it is asked for then": Moment(Between("handoffs.request", after=True)),
    "it is claimed then": HANDING_OFF["claimed"],
    "before the commit then": Moment(_COMPLETE),
    "after the commit then": Moment(Between("handoffs.complete", after=True)),
    "the turn goes on then": Moment(Then(_COMPLETE, Between(_BEGIN, after=True))),
    "the answer then is not kept": Moment(Between(_ADD, _ANSWER)),
    "the answer then is queued": Moment(Between(_ADD, _ANSWER, after=True), kept=True),
}
"""The same, for a handoff that waits for the tool: the turn goes on with the model's answer."""

# A terminal takes the session in the middle of an answer

_LEFT = ("moved:",)
TAKING: dict[str, Point] = {
    "before a terminal takes it": Between("runner._take"),
    "a terminal has taken it": Between("runner._take", after=True),
}
LEFT_BEHIND: dict[str, Point] = {
    "the notice is taken": Between("deliveries.claim", _LEFT, after=True),
    "the half is being marked": OnPlatform(Act.EDIT, Trouble.HANG),
    "the half was marked": OnPlatform(Act.EDIT, Trouble.HANG_AFTER),
    "the notice is being sent": OnPlatform(Act.SEND, Trouble.HANG),
    "the notice was sent": OnPlatform(Act.SEND, Trouble.HANG_AFTER),
    "the notice is not noted": Between("deliveries.sent", _LEFT),
    "the notice is noted": Between("deliveries.sent", _LEFT, after=True),
}
"""What the chat shows then."""

# Messages that are too long for one part

IN_PIECES: dict[str, Moment] = {
    "a piece is not noted": Moment(Between("deliveries.progress")),
    "a piece is noted": Moment(Between("deliveries.progress", after=True)),
}
