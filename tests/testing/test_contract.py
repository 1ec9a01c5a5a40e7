"""The contract suite fails for an adapter that breaks the contract."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from segue.core.address import Address, ChatType
from segue.core.errors import DeliveryFailed
from segue.platforms.base import Button, Inbound, Part, Receipt
from segue.testing.contract import rig as rigs
from segue.testing.contract.connection import ReconnectContract
from segue.testing.contract.rig import Feature
from segue.testing.contract.suite import RemoteContract
from segue.testing.platform import PeerAdapter, Trouble, serving
from segue.testing.platform.rig import PeerRig

DOCS = Path(__file__).parents[2] / "docs" / "adapters.md"
FAILURES = (AssertionError, TimeoutError, pytest.fail.Exception)


class OtherAddress(PeerAdapter):
    """Opens a thread whose address differs from that of its messages."""

    async def create_handoff_thread(self, home: Address, title: str, *, key: str) -> Address | None:
        opened = await super().create_handoff_thread(home, title, key=key)
        return opened and dataclasses.replace(opened, chat_type=ChatType.THREAD)


class EarlyConfirmation(PeerAdapter):
    """Confirms an update when it is parsed, before it is recorded."""

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        async with contextlib.aclosing(super().receive()) as received:
            async for inbound in received:
                if inbound is not None:
                    self._offset = (self._offset or 0) + 1
                yield inbound


class MutedErrors(PeerAdapter):
    """Returns as if the message had been sent."""

    async def send(
        self, to: Address, part: Part, *, key: str, buttons: Sequence[Button] = ()
    ) -> Receipt:
        with contextlib.suppress(DeliveryFailed):
            return await super().send(to, part, key=key, buttons=buttons)
        return Receipt("")


class LostKey(PeerAdapter):
    """Sends each message under a new key."""

    numbers = itertools.count()

    async def send(
        self, to: Address, part: Part, *, key: str, buttons: Sequence[Button] = ()
    ) -> Receipt:
        return await super().send(to, part, key=f"{next(self.numbers)}", buttons=buttons)


class OwnRetry(LostKey):
    """Repeats a message that may have arrived."""

    async def send(
        self, to: Address, part: Part, *, key: str, buttons: Sequence[Button] = ()
    ) -> Receipt:
        with contextlib.suppress(DeliveryFailed):
            return await super().send(to, part, key=key, buttons=buttons)
        return await super().send(to, part, key=key, buttons=buttons)


def lost(suite: RemoteContract, rig: PeerRig) -> Awaitable[None]:
    return suite.test_a_message_that_may_have_arrived_is_repeated_under_its_key(
        rig, Trouble.DROP_AFTER
    )


@pytest.mark.parametrize(
    ("adapter", "test"),
    [
        (
            OtherAddress,
            lambda suite, rig: suite.test_a_reply_in_an_opened_thread_has_its_address(rig, "group"),
        ),
        (EarlyConfirmation, RemoteContract.test_an_update_that_was_not_recorded_is_received_again),
        (MutedErrors, RemoteContract.test_a_message_to_an_unknown_chat_is_refused),
        (LostKey, RemoteContract.test_one_key_sends_one_message),
        (OwnRetry, lost),
    ],
)
async def test_the_suite_fails_for_a_broken_adapter(
    adapter: type[PeerAdapter],
    test: Callable[[RemoteContract, Any], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rigs, "BOUND", 0.5)

    class BrokenRig(PeerRig):
        speaks = adapter

    async with serving() as peer:
        async with PeerRig.plugged_in(peer) as rig:
            await test(RemoteContract(), rig)
        async with BrokenRig.plugged_in(peer) as rig:
            with pytest.raises(FAILURES):
                await test(RemoteContract(), rig)


def test_the_docs_list_every_feature_that_a_platform_can_lack() -> None:
    docs = DOCS.read_text()
    assert [feature for feature in Feature if f"| `{feature.name}`: {feature} |" not in docs] == []


def test_the_former_module_still_has_the_contract_of_connections():
    with pytest.deprecated_call():
        former = importlib.import_module("segue.testing.contract.reconnecting")
    assert former.ReconnectContract is ReconnectContract
