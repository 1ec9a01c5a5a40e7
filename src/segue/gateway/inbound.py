"""Inbound updates: checked by the gate, recorded once, then dispatched."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from segue.core.address import Platform
from segue.core.text import whole
from segue.gateway import messages, reactions, texts
from segue.gateway.access import Gate
from segue.gateway.containment import contain
from segue.gateway.dispatch import Dispatcher
from segue.handoff import arrivals
from segue.platforms.base import Adapter, Inbound, InboundKind
from segue.store import Store, Topic, inbox, outbox
from segue.store.base import Tx

_LOOKS, _LOOK_SECONDS = 10, 0.5
"""How often, and after how many seconds, to look again for a message that is being sent."""


class Receiver:
    def __init__(
        self,
        store: Store,
        gate: Gate,
        dispatcher: Dispatcher,
        answers_all: Callable[[Platform], bool],
    ) -> None:
        """`answers_all`: whether the agent answers every message in the groups of a platform."""
        self._store = store
        self._answers_all = answers_all
        self._gate = gate
        self._dispatcher = dispatcher

    async def receive(self, adapter: Adapter, inbound: Inbound) -> None:
        """Record the update or set it aside. The adapter may then confirm it."""
        await contain(
            f"update {inbound.update_id} of {adapter.platform}",
            partial(self._accept, adapter, inbound),
            partial(self._refuse, adapter, inbound),
        )

    async def _refuse(self, adapter: Adapter, inbound: Inbound, reason: str) -> None:
        """Set aside an update that failed, and notify its sender. Strangers get no reply."""
        if await self._gate.owner(inbound.sender) is not None:
            await self._store.write(_refuse, adapter.account, inbound, reason)

    async def _accept(self, adapter: Adapter, inbound: Inbound) -> None:
        if inbound.moved_to is not None:
            await self._store.bindings.chat_moved(inbound.address, inbound.moved_to)
            self._dispatcher.move(inbound.address, inbound.moved_to)
        elif inbound.kind in (InboundKind.DELIVERED, InboundKind.UNDELIVERED):
            await self._settle(inbound)
        else:
            owner = await self._gate.owner(inbound.sender)
            paired = await self._gate.pair(adapter.account, inbound)
            if owner is not None and not paired and (chosen := await self._chosen(inbound)):
                await self._accept_from(owner.id, adapter, chosen)

    async def _accept_from(self, owner: str, adapter: Adapter, inbound: Inbound) -> None:
        """Record what the owner sent, if it is for the agent."""
        before = await self._before_edit(adapter.account, inbound)
        if not (before or await self._is_for_agent(owner, inbound)):
            return
        if inbound.press_id:
            adapter.acknowledge(inbound)
        inbound = msgspec.structs.replace(inbound, text=whole(inbound.text))
        if inbound.kind is InboundKind.EDIT:
            if before is not None and before.text == inbound.text:
                return  # a reaction or a link preview
            if before is None:  # not addressed to the agent before the edit
                inbound = msgspec.structs.replace(inbound, kind=InboundKind.MESSAGE)
        pending = await messages.record(self._store, adapter.account, owner, inbound)
        if pending is not None:
            await self._dispatcher.dispatch(pending)

    async def _chosen(self, inbound: Inbound) -> Inbound | None:
        """Return a reaction as the button that it stands for, or None if it stands for none."""
        if inbound.kind is not InboundKind.REACTION:
            return inbound
        at, message = inbound.address, inbound.message_id
        data = await reactions.chosen(self._store, at, message, inbound.text)
        if data is None:
            return None
        return msgspec.structs.replace(inbound, kind=InboundKind.BUTTON, text=data)

    async def _settle(self, inbound: Inbound) -> None:
        """Record what became of our message. It may still be in the hands of its sender, who has
        not recorded the receipt; if that takes long, the message counts as uncertain anyway."""
        box, is_there = self._store.outbox, inbound.kind is InboundKind.DELIVERED
        record = partial(
            box.delivered if is_there else box.undelivered,
            inbound.address,
            inbound.message_id,
            inbound.text,
        )
        async with self._store.listen(Topic.SENT) as wake:
            for _ in range(_LOOKS):
                if await record() is not None:
                    return
                await wake.wait(_LOOK_SECONDS)

    async def _before_edit(self, account: str, changed: Inbound) -> Inbound | None:
        """The message before it was edited. None if it is not an edit, or was never recorded."""
        if changed.kind is not InboundKind.EDIT:
            return None
        body = await self._store.inbox.said(account, changed.address, changed.message_id)
        try:
            return None if body is None else messages.decode(body)
        except msgspec.DecodeError:  # written by an older version
            return None

    async def _is_for_agent(self, owner: str, inbound: Inbound) -> bool:
        """Whether the agent answers it: a message to the agent, in the thread of a session that is
        or arrives there, or in a group where the agent answers all."""
        address = inbound.address
        if inbound.addressed or self._answers_all(address.platform):
            return True
        if address.thread_id is None:
            return False
        door = await self._store.doors.get(address)
        if door is not None and door.owner == owner:
            return True
        if await self._store.bindings.get(address) is not None:
            return True
        return await arrivals.is_opened(self._store, address, owner)


def _refuse(tx: Tx, account: str, inbound: Inbound, reason: str) -> None:
    no = inbox.refuse(tx, account, inbound.update_id, inbound.address, reason)
    if no is not None:
        outbox.enqueue(tx, messages.notice(no, inbound.address, texts.FAULT))
