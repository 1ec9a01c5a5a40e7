"""Failures of a remote platform: what the adapter's errors say about them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from segue.core.errors import ConnectFailed
from segue.platforms.base import Adapter
from segue.testing.contract.rig import (
    BOUND,
    HOME,
    PHOTO,
    Act,
    Contract,
    Feature,
    Place,
    ReconnectingReader,
    RemoteRig,
    Rig,
    UpdateReader,
    failure,
    home_of,
    one_attachment,
    part,
    reading,
)
from segue.testing.peers import Trouble

BUSY_SECONDS = 7.0
REFUSED = (Trouble.BUSY, Trouble.FORBIDDEN)
LOST = (
    Trouble.BROKEN,
    Trouble.DROP_BEFORE,
    Trouble.DROP_AFTER,
    Trouble.GARBLED,
    Trouble.HANG,
    Trouble.HANG_AFTER,
)
"""After these faults the adapter cannot know whether the call took effect."""
FAILURES = [
    *itertools.product((Act.SEND,), (*REFUSED, *LOST)),
    # Any bytes are the content of a file, so it cannot be garbled.
    *itertools.product((Act.FETCH,), (*REFUSED, *(it for it in LOST if it is not Trouble.GARBLED))),
    # Hanging calls and dropped requests are the same for all calls.
    *itertools.product(
        (Act.EDIT, Act.TYPING, Act.OPEN_THREAD),
        (*REFUSED, Trouble.BROKEN, Trouble.DROP_AFTER, Trouble.GARBLED),
    ),
]
TOOK_EFFECT = frozenset({Trouble.DROP_AFTER, Trouble.GARBLED, Trouble.HANG_AFTER})


class FailureContract(Contract):
    @pytest.mark.parametrize("trouble", LOST)
    async def test_a_message_that_may_have_arrived_is_repeated_under_its_key(
        self, rig: RemoteRig, trouble: Trouble
    ) -> None:
        require_fault(rig, Act.SEND, trouble)
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, await rig.place(rig.usual))
            await rig.fail(Act.SEND, trouble, seconds=BUSY_SECONDS)
            async with adapter_for(trouble, rig) as adapter:
                await failure(adapter.send(home, part("Once."), key="1"))
            await rig.calm()
            arrived = len(await rig.seen("Once."))
            assert arrived == (1 if trouble in TOOK_EFFECT else 0)
            await rig.adapter.send(home, part("Once."), key="1")
            keyed = rig.adapter.capabilities.keys
            assert len(await rig.seen("Once.")) == (1 if keyed else arrived + 1)

    @pytest.mark.parametrize(("act", "trouble"), FAILURES)
    async def test_an_error_says_whether_to_retry_and_whether_the_call_arrived(
        self, rig: RemoteRig, act: Act, trouble: Trouble
    ) -> None:
        require_fault(rig, act, trouble)
        async with reading(rig.adapter) as reader:
            do = await operation(rig, act, await rig.place(rig.usual), reader)
            await rig.fail(act, trouble, seconds=BUSY_SECONDS)
            async with adapter_for(trouble, rig) as adapter:
                failed = await failure(do(adapter))
            assert failed.retry == (trouble is not Trouble.FORBIDDEN)
            timed = trouble is Trouble.BUSY and Feature.RETRY_TIMES not in rig.lacks
            assert failed.after == (BUSY_SECONDS if timed else None)
            assert failed.arrived == (trouble in LOST)
            assert failed.reason
            await rig.calm()
            if act is Act.EDIT and trouble in LOST and Feature.EDIT_REPEATS in rig.lacks:
                again = await failure(do(rig.adapter))
                assert (again.retry, again.arrived) == (False, False)
            else:
                await do(rig.adapter)

    @pytest.mark.parametrize("act", [Act.SEND, Act.FETCH])
    async def test_a_call_to_a_platform_that_is_down_did_not_arrive(
        self, rig: RemoteRig, act: Act
    ) -> None:
        require_act(rig, act)
        async with reading(rig.adapter) as reader:
            do = await operation(rig, act, await rig.place(rig.usual), reader)
            await rig.down()
            failed = await failure(do(rig.adapter))
            assert (failed.retry, failed.arrived) == (True, False)
            await rig.up()
            await do(rig.adapter)

    async def test_an_adapter_reconnects_after_an_outage(self, rig: RemoteRig) -> None:
        at = await rig.place(rig.usual)
        async with reading(rig.adapter) as reader:
            home = await home_of(rig, reader, at)
            waiting = asyncio.ensure_future(reader.next())
            await rig.down()
            if Feature.CONNECTION in rig.lacks:
                waiting.cancel()
                await asyncio.wait([waiting])
            else:
                with pytest.raises(ConnectFailed):
                    await waiting
        with pytest.raises(ConnectFailed):
            await rig.adapter.connect()
        await rig.say(at, "Are you there?")
        await rig.up()
        await rig.adapter.connect()
        async with reading(rig.adapter) as reader:
            if Feature.BACKLOG not in rig.lacks:
                # The confirmation of the first message may have been lost with the connection.
                found = await reader.next()
                if found.text == HOME:
                    found = await reader.next()
                assert found.text == "Are you there?"
            await rig.adapter.send(home, part("Yes."), key="1")
            assert await rig.seen("Yes.")

    @pytest.mark.parametrize("trouble", [Trouble.FORBIDDEN, Trouble.BROKEN, Trouble.DROP_BEFORE])
    async def test_a_chat_that_cannot_be_looked_up_does_not_stop_another(
        self, rig: RemoteRig, trouble: Trouble
    ) -> None:
        require_lookup(rig)
        bad = await rig.place(rig.usual)
        good = await rig.place(rig.usual)
        await rig.break_lookups(bad, trouble, times=1_000)
        async with contextlib.aclosing(ReconnectingReader(rig.adapter)) as reader:
            await rig.say(bad, "Can you read this?")
            await rig.say(good, "Or this?")
            await reader.until("Or this?")
            await rig.calm()
            await rig.say(bad, "And now?")
            await reader.until("And now?")

    @pytest.mark.parametrize("trouble", [Trouble.BUSY, Trouble.BROKEN, Trouble.DROP_BEFORE])
    async def test_a_message_is_not_lost_while_its_chat_cannot_be_looked_up_for_a_moment(
        self, rig: RemoteRig, trouble: Trouble
    ) -> None:
        require_lookup(rig)
        at = await rig.place(rig.usual)
        await rig.break_lookups(at, trouble, times=2)
        async with contextlib.aclosing(ReconnectingReader(rig.adapter)) as reader:
            await rig.say(at, "Can you read this?")
            await reader.until("Can you read this?")

    async def test_an_invalid_credential_is_named(self, rig: RemoteRig) -> None:
        await rig.place(rig.usual)
        denied = rig.denied()
        with pytest.raises(ConnectFailed, match=rig.credential):
            await denied.connect()
        await denied.close()


def require_fault(rig: RemoteRig, act: Act, trouble: Trouble) -> None:
    """Skip the test unless the adapter can meet that fault."""
    require_act(rig, act)
    if not rig.can_fail(act, trouble):
        pytest.skip(f"the adapter does not notice this fault: {act} {trouble}")


def require_lookup(rig: RemoteRig) -> None:
    """Skip the test unless the adapter asks about the chats of updates."""
    if not rig.lookup:
        pytest.skip("the adapter does not look up chats")


def require_act(rig: Rig, act: Act) -> None:
    """Skip the test unless the platform supports the operation."""
    supported = {
        Act.CONNECT: True,
        Act.SEND: True,
        Act.EDIT: rig.adapter.capabilities.edits,
        Act.TYPING: rig.adapter.capabilities.typing,
        Act.OPEN_THREAD: rig.has_threads(rig.usual),
        Act.FETCH: Feature.FILES not in rig.lacks,
        Act.HISTORY: Feature.HISTORY not in rig.lacks,
    }
    if not supported[act]:
        pytest.skip(f"the platform lacks this operation: {act}")


@contextlib.asynccontextmanager
async def adapter_for(trouble: Trouble, rig: RemoteRig) -> AsyncGenerator[Adapter]:
    """Return an adapter for the fault. For a hanging call, that is one with a short timeout."""
    if trouble not in (Trouble.HANG, Trouble.HANG_AFTER):
        yield rig.adapter
        return
    adapter = rig.impatient()
    async with asyncio.timeout(BOUND):
        while True:  # its timeout is so short that connecting may fail too
            with contextlib.suppress(ConnectFailed):
                await adapter.connect()
                break
    try:
        yield adapter
    finally:
        await adapter.close()


async def operation(
    rig: Rig, act: Act, at: Place, reader: UpdateReader
) -> Callable[[Adapter], Awaitable[object]]:
    """Return a function that performs the operation with an adapter, any number of times."""
    home = await home_of(rig, reader, at)
    numbers = itertools.count()
    match act:
        case Act.CONNECT:
            return lambda adapter: adapter.connect()
        case Act.SEND:
            return lambda adapter: adapter.send(home, part("text"), key=f"key {next(numbers)}")
        case Act.EDIT:
            receipt = await rig.adapter.send(home, part("before"), key="before")
            return lambda adapter: adapter.edit(home, receipt, part(f"after {next(numbers)}"))
        case Act.TYPING:
            return lambda adapter: adapter.typing(home)
        case Act.OPEN_THREAD:
            return lambda adapter: adapter.create_handoff_thread(
                home, "title", key=f"key {next(numbers)}"
            )
        case Act.FETCH:
            attachment = await one_attachment(rig, reader, at, PHOTO)
            return lambda adapter: adapter.fetch(attachment)
        case Act.HISTORY:
            raise AssertionError("the adapter reads it by itself")
