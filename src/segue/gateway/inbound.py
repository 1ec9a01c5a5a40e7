"""Inbound updates: checked by the gate, recorded once, then dispatched."""

from __future__ import annotations

import logging
from functools import partial

import msgspec

from segue import commands
from segue.approvals import questions
from segue.commands.base import Where
from segue.core.address import ChatType
from segue.core.session import Owner
from segue.core.text import whole
from segue.gateway import content, messages, reactions, texts
from segue.gateway.access import Answered, Gate
from segue.gateway.containment import contained
from segue.gateway.context import GatewayContext
from segue.gateway.dispatch import Dispatcher
from segue.handoffs import arrivals
from segue.platforms.base import Adapter, Gap, Inbound, InboundKind
from segue.store import Tx, bindings, deliveries, doors, errors, inbox, outbox, owners
from segue.store.outbox import Draft
from segue.store.values import MESSAGE_LIMIT

_PIECE = 64 * 1024

logger = logging.getLogger(__name__)


class Receiver:
    def __init__(self, context: GatewayContext, gate: Gate, dispatcher: Dispatcher) -> None:
        self.gate = gate
        self._context = context
        self._store = context.store
        self._dispatcher = dispatcher

    async def receive(self, adapter: Adapter, inbound: Inbound) -> None:
        """Record the update or set it aside. The adapter may then confirm it."""
        if not inbound.has_short_ids:
            logger.warning("update set aside platform=%s reason=long ids", adapter.platform)
            return
        item = f"update {inbound.update_id} of {adapter.platform}"
        async with contained(item, partial(self._refuse, adapter, inbound)):
            await self._accept(adapter, inbound)

    async def _refuse(self, adapter: Adapter, inbound: Inbound, reason: str) -> None:
        """Set aside an update that failed, and notify its sender. Strangers get no reply."""
        if await self._owner(inbound) is not None:
            await self._store.write(_refuse, adapter.account, inbound, reason)

    async def _accept(self, adapter: Adapter, inbound: Inbound) -> None:
        if inbound.moved_to is not None:
            await bindings.chat_moved(self._store, inbound.address, inbound.moved_to)
            self._dispatcher.move(inbound.address, inbound.moved_to)
        elif inbound.gap is not None:
            await self._report_gap(adapter, inbound, inbound.gap)
        elif inbound.kind in (InboundKind.DELIVERED, InboundKind.UNDELIVERED):
            await self._record_delivery(inbound)
        elif inbound.kind is InboundKind.DELETED:
            await self._dispatcher.withdraw(inbound)
        elif inbound.forgeable:
            await self._refuse_forgeable(inbound)
        else:
            owner = await self._owner(inbound)
            is_long = len(inbound.text) > MESSAGE_LIMIT
            answered = None if is_long else await self.gate.pair(adapter.account, inbound)
            if answered is not None:
                await self._welcome(adapter, inbound, answered)
            elif owner is not None and (chosen := await self._chosen(inbound)):
                await self._accept_from(owner.id, adapter, chosen)

    async def _refuse_forgeable(self, inbound: Inbound) -> None:
        """Do nothing of what the platform's server could have made up. A reaction that stands for
        a choice is answered, once for each message, with what to type instead."""
        at = inbound.address
        logger.warning("update refused address=%s kind=%s reason=not encrypted", at, inbound.kind)
        if inbound.kind is not InboundKind.REACTION:
            return
        if await self._owner(inbound) is None:
            return
        data = await reactions.chosen(self._store, at, inbound.message_id, inbound.text)
        if data is not None:
            key = f"not encrypted:{at.key}:{inbound.message_id}"
            body = texts.not_encrypted(questions.typed(data))
            await outbox.enqueue(self._store, Draft(key=key, address=at, body=body))

    async def _owner(self, inbound: Inbound) -> Owner | None:
        """The owner that the sender is paired with, or None for a stranger."""
        sender = inbound.sender
        return await owners.who(self._store, sender.platform, sender.user_id)

    async def _welcome(self, adapter: Adapter, inbound: Inbound, answered: Answered) -> None:
        if inbound.press_id:
            adapter.acknowledge(inbound)
        if answered.new_home is not None:
            await self._dispatcher.dispatch(answered.new_home)

    async def _report_gap(self, adapter: Adapter, inbound: Inbound, gap: Gap) -> None:
        """Notify the owner of messages that were not read, in the chat, if they talk there."""
        at = inbound.address
        logger.warning("messages not read address=%s since=%s until=%s", at, gap.since, gap.until)
        if await inbox.knows_chat(self._store, adapter.account, at):
            body = texts.unread(gap.since, gap.until)
            await outbox.enqueue(self._store, Draft(key=inbound.update_id, address=at, body=body))

    async def _accept_from(self, owner: str, adapter: Adapter, inbound: Inbound) -> None:
        """Record what the owner sent, if it is for the agent."""
        before = None
        if inbound.kind is InboundKind.EDIT:
            before = await messages.said(
                self._store, adapter.account, inbound.address, inbound.message_id
            )
        if not (before or await self._is_for_agent(owner, inbound)):
            return
        if len(inbound.text) > MESSAGE_LIMIT:
            # Before it is copied: it is the largest thing in memory.
            error = errors.message_too_long(_bytes_in(inbound.text), MESSAGE_LIMIT)
            logger.warning("message refused address=%s: %s", inbound.address, error)
            await self._store.write(_refuse, adapter.account, inbound, str(error), str(error))
            return
        if inbound.press_id:
            adapter.acknowledge(inbound)
        inbound = msgspec.structs.replace(inbound, text=whole(inbound.text))
        if inbound.kind is InboundKind.EDIT:
            if before is not None and before.text == inbound.text:
                return  # a reaction or a link preview
            was_heard = inbound.address.chat_type is ChatType.DM  # answered, and pruned since
            if before is None and not was_heard:  # not addressed to the agent before the edit
                inbound = msgspec.structs.replace(inbound, kind=InboundKind.MESSAGE)
        pending = await messages.record(self._store, adapter.account, owner, inbound)
        if pending is not None:
            await self._dispatcher.dispatch(pending, is_late=not adapter.is_caught_up)

    async def _chosen(self, inbound: Inbound) -> Inbound | None:
        """Return a reaction as the button that it stands for, or None if it stands for none."""
        if inbound.kind is not InboundKind.REACTION:
            return inbound
        at = inbound.address
        message = inbound.message_id
        data = await reactions.chosen(self._store, at, message, inbound.text)
        if data is None:
            return None
        return msgspec.structs.replace(inbound, kind=InboundKind.BUTTON, text=data)

    async def _record_delivery(self, inbound: Inbound) -> None:
        """Record whether a message of ours was delivered."""
        is_delivered = inbound.kind is InboundKind.DELIVERED
        record = deliveries.delivered if is_delivered else deliveries.undelivered
        await record(self._store, inbound.address, inbound.message_id, inbound.text)

    async def _is_for_agent(self, owner: str, inbound: Inbound) -> bool:
        """Whether the agent answers it: a message to the agent, a command, or a message in a thread
        under a message of the agent, in the thread of a session that is or arrives there, or in a
        group where the agent answers all."""
        address = inbound.address
        if inbound.addressed or self._context.answers_all(address.platform):
            return True
        if commands.is_known(inbound.typed, Where.CHAT):
            return True
        if address.thread_id is None:
            return False
        door = await doors.get(self._store, address)
        if door is not None and door.owner == owner:
            return True
        if await bindings.get(self._store, address) is not None:
            return True
        if await content.find_root(self._store, address, owner) is not None:
            return True
        return await arrivals.is_opened(self._store, address, owner)


def _refuse(tx: Tx, account: str, inbound: Inbound, reason: str, notice: str = texts.FAULT) -> None:
    no = inbox.refuse(tx, account, inbound.update_id, inbound.address, reason)
    if no is not None:
        outbox.enqueue(tx, messages.notice(no, inbound.address, notice))


def _bytes_in(text: str) -> int:
    """The size of `text` in UTF-8, measured in pieces: a copy of it may not fit into memory."""
    starts = range(0, len(text), _PIECE)
    return sum(len(text[at : at + _PIECE].encode("utf-8", "replace")) for at in starts)
