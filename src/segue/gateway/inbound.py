"""Inbound updates: checked by the gate, recorded once, then handled in order per chat."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from segue import commands
from segue.commands.base import Where
from segue.core.address import Address, Platform
from segue.core.errors import PlatformLost, StoreError, UserError
from segue.core.text import whole
from segue.gateway import approvals, texts
from segue.gateway.access import Gate
from segue.gateway.chat_commands import Chat
from segue.gateway.containment import contained
from segue.gateway.pace import pause
from segue.gateway.queues import Lanes
from segue.gateway.turns import Conversations, Heard
from segue.handoff import arrivals
from segue.platforms.base import Adapter, Inbound, InboundKind
from segue.store import Store, inbox, outbox
from segue.store.base import Tx
from segue.store.inbox import Incoming
from segue.store.outbox import Draft

_QUESTION_POLL_SECONDS = 0.1
"""Seconds between two checks for turns that wait for an answer while the gateway stops."""
MAX_STARTS = 20
"""How many gateways in a row may be killed while they handle a message. The next one sets the
message aside, because it may be the cause. A harmless message never gets close to this number."""

_decoder = msgspec.json.Decoder(Inbound)

logger = logging.getLogger(__name__)


class Inbounds:
    def __init__(self, store: Store, gate: Gate, conversations: Conversations) -> None:
        self._store = store
        self._gate = gate
        self._conversations = conversations
        self._lanes = Lanes[Heard](self._do)
        self._at_once = Lanes[Heard](self._do)

    # Receiving

    async def hear(self, adapter: Adapter, inbound: Inbound) -> None:
        """Handle one update. On return it is recorded or set aside, so the adapter may confirm
        it."""
        await contained(
            f"update {inbound.update_id} of {adapter.platform}",
            partial(self._take_up, adapter, inbound),
            partial(self._refuse, adapter, inbound),
        )

    async def _refuse(self, adapter: Adapter, inbound: Inbound, reason: str) -> None:
        """Set aside an update that failed, and notify its sender. Strangers get no reply."""
        if await self._gate.owner(inbound.sender) is not None:
            await self._store.write(_refuse, adapter.account, inbound, reason)

    async def _take_up(self, adapter: Adapter, inbound: Inbound) -> None:
        if inbound.moved_to is not None:
            await self._chat_moved(inbound.address, inbound.moved_to)
            return
        owner = await self._gate.owner(inbound.sender)
        if await self._gate.pair(adapter.account, inbound) or owner is None:
            return
        before = await self._before(adapter.account, inbound)
        if not (before or await self._is_for_agent(inbound)):
            return
        if inbound.kind is InboundKind.BUTTON:
            adapter.acknowledge(inbound)
        inbound = msgspec.structs.replace(inbound, text=whole(inbound.text))
        if inbound.kind is InboundKind.EDIT:
            if before is not None and before.text == inbound.text:
                return  # a reaction or a link preview
            if before is None:  # not addressed to the agent before the edit
                inbound = msgspec.structs.replace(inbound, kind=InboundKind.MESSAGE)
        body = msgspec.json.encode(inbound).decode()
        no = await self._store.inbox.record(
            adapter.account, inbound.update_id, inbound.address, body, inbound.message_id
        )
        if no is not None:
            await self._route(Heard(no=no, owner=owner.id, inbound=inbound))

    async def _before(self, account: str, changed: Inbound) -> Inbound | None:
        """The message before it was edited. None if it is not an edit, or was never recorded."""
        if changed.kind is not InboundKind.EDIT:
            return None
        body = await self._store.inbox.said(account, changed.address, changed.message_id)
        try:
            return None if body is None else _decoder.decode(body)
        except msgspec.DecodeError:  # written by an older version
            return None

    async def _is_for_agent(self, inbound: Inbound) -> bool:
        """Whether the agent answers it: it is addressed to the agent, the settings say that it
        answers all messages, or the address is a thread with a session."""
        address = inbound.address
        if inbound.addressed or self._conversations.answers_all(address.platform):
            return True
        return address.thread_id is not None and await self._store.bindings.get(address) is not None

    async def _chat_moved(self, old: Address, new: Address) -> None:
        """Rebind a chat that moved. Its queued messages are answered before new ones."""
        await self._store.bindings.chat_moved(old, new)

        def moved(heard: Heard) -> Heard:
            return replace(heard, inbound=msgspec.structs.replace(heard.inbound, address=new))

        for lanes in (self._lanes, self._at_once):
            lanes.move(old, new, moved)

    async def go_on(self, platforms: Collection[Platform]) -> None:
        """Resume what an earlier gateway recorded and did not finish."""
        known: list[Heard] = []
        for incoming in await self._store.inbox.take_over(platforms):
            if incoming.starts > MAX_STARTS:
                await self._give_up(incoming, texts.NEVER_DONE)
                continue
            await contained(
                f"message {incoming.no}",
                partial(self._recall, incoming, known),
                partial(self._give_up, incoming),
            )
        # Queue nothing until all are decoded: if the store fails, the whole step is repeated.
        for heard in known:
            lanes = self._at_once if heard.inbound.kind is InboundKind.EDIT else self._lanes
            lanes.put(heard.address, heard, most=None)

    async def give_up(self, platform: Platform) -> None:
        """Leave unfinished work on `platform` to the gateway that now serves it."""
        await asyncio.gather(self._lanes.drop(platform), self._at_once.drop(platform))

    async def _recall(self, incoming: Incoming, known: list[Heard]) -> None:
        """Decode the entry and add it to `known`, unless its sender is no longer paired."""
        if incoming.error is not None:
            raise ValueError(incoming.error)
        inbound = _decoder.decode(incoming.body)
        owner = await self._gate.owner(inbound.sender)
        if owner is None:
            await self._store.inbox.finish([incoming.no])
            return
        inbound = msgspec.structs.replace(inbound, address=incoming.address)  # may have moved
        known.append(
            Heard(no=incoming.no, owner=owner.id, inbound=inbound, session_id=incoming.session_id)
        )

    async def _give_up(self, incoming: Incoming, reason: str) -> None:
        """Set aside a message that no gateway can handle. Only owners' messages are recorded."""
        address = incoming.address if incoming.error is None else None
        logger.error("message %d is given up: %s", incoming.no, reason)
        await self._store.write(_set_aside, incoming.no, reason, address, texts.GIVEN_UP)

    async def _route(self, heard: Heard) -> None:
        inbound = heard.inbound
        match inbound.kind:
            case InboundKind.BUTTON:
                lanes = self._at_once
            case InboundKind.EDIT:
                await self._change(heard)
                return
            case InboundKind.JOINED:
                hint = self._conversations.how_to_address(heard.address)
                await self._conversations.conclude(heard, f"{texts.JOINED} {hint}".rstrip())
                return
            case InboundKind.MOVED:
                raise AssertionError("it is not recorded")
            case InboundKind.MESSAGE | InboundKind.COMMAND:
                lanes = self._at_once if _is_at_once(inbound) else self._lanes
        if not lanes.put(heard.address, heard):
            await self._conversations.conclude(heard, texts.BUSY)

    async def _change(self, heard: Heard) -> None:
        """Apply an edit to a message that is still waiting to be answered."""
        changed = heard.inbound
        waiting = self._lanes.find(heard.address, lambda other: _is_same(other.inbound, changed))
        if waiting is None:
            await self._conversations.conclude(heard, texts.ANSWERED_ALREADY)
            return
        inbound = _rewritten(waiting.inbound, changed)
        # The store comes first: a gateway that is killed here must not answer the old text.
        await self._store.inbox.rewrite(waiting.no, msgspec.json.encode(inbound).decode())
        replaced = self._lanes.replace(heard.address, waiting, replace(waiting, inbound=inbound))
        await self._conversations.conclude(heard, "" if replaced else texts.ANSWERED_ALREADY)

    # Handling

    async def finish(self, seconds: float) -> None:
        """Start nothing new and wait up to `seconds` for running work. A restarted gateway resumes
        the rest. Turns that wait for the user's answer are cancelled at once, since no answer can
        come."""
        asked = asyncio.create_task(self._leave_questions())
        try:
            await asyncio.gather(self._lanes.finish(seconds), self._at_once.finish(seconds))
        finally:
            asked.cancel()
            await asyncio.wait({asked})

    async def _leave_questions(self) -> None:
        while True:
            for address in self._conversations.asking():
                self._lanes.cancel(address)
            await asyncio.sleep(_QUESTION_POLL_SECONDS)

    async def _do(self, heard: Heard) -> None:
        """Handle the message, and retry for as long as the store is down."""
        attempt = 0
        while True:
            try:
                await contained(
                    f"message {heard.no}",
                    partial(self._try, heard),
                    partial(self._set_aside, heard),
                )
                return
            except PlatformLost as error:
                logger.info("message left to another gateway no=%d: %s", heard.no, error)
                return
            except StoreError as error:
                attempt += 1
                logger.error("Message %d waits for the store: %s", heard.no, error)  # noqa: TRY400
                await asyncio.sleep(pause(attempt, 0.5, 2.0))
                heard = await self._again(heard)

    async def _again(self, heard: Heard) -> Heard:
        """The same message, with the session that has taken it by now."""
        try:
            waiting = await self._store.inbox.waiting([heard.address.platform], limit=inbox.ALL)
        except StoreError:
            return heard
        taken = {incoming.no: incoming.session_id for incoming in waiting}
        return replace(heard, session_id=taken.get(heard.no, heard.session_id))

    async def _try(self, heard: Heard) -> None:
        try:
            if heard.session_id is not None:
                await self._conversations.go_on(heard, heard.session_id)
            elif heard.inbound.kind is InboundKind.EDIT:
                await self._change(heard)
            elif heard.inbound.kind is InboundKind.BUTTON:
                await self._once(heard, self._press(heard))
            elif commands.is_command(heard.inbound.typed):
                await self._once(heard, self._command(heard))
            else:
                await arrivals.nothing_arrives(self._store, heard.address)
                await self._conversations.answer(heard)
        except StoreError:
            raise
        except UserError as error:
            await self._conversations.conclude(heard, str(error))

    async def _set_aside(self, heard: Heard, reason: str) -> None:
        await self._store.write(_set_aside, heard.no, reason, heard.address, texts.FAULT)

    async def _once(self, heard: Heard, work: Coroutine[Any, Any, None]) -> None:
        """Run a command at most once. If it fails, the user can type it again."""
        try:
            await self._store.inbox.finish([heard.no])
            await work
        finally:
            work.close()

    async def _command(self, heard: Heard) -> None:
        await commands.run(await Chat.of(self._conversations, heard), heard.inbound.typed)

    async def _press(self, heard: Heard) -> None:
        pressed = approvals.pressed(heard.inbound.typed)
        if pressed is None:
            chat = await Chat.of(self._conversations, heard)
            await chat.press()
            return
        number, answered = pressed
        await approvals.answer(self._store, heard.owner, heard.address, number, answered)


def _refuse(tx: Tx, account: str, inbound: Inbound, reason: str) -> None:
    no = inbox.refuse(tx, account, inbound.update_id, inbound.address, reason)
    if no is not None:
        outbox.enqueue(tx, _notice(no, inbound.address, texts.FAULT))


def _set_aside(tx: Tx, no: int, reason: str, address: Address | None, told: str) -> None:
    """Set the message aside. If `address` is known, queue a notice there."""
    inbox.set_aside(tx, no, reason)
    if address is not None:  # also for commands, which are finished before they run
        outbox.enqueue(tx, _notice(no, address, told))


def _notice(no: int, address: Address, told: str) -> Draft:
    return Draft(key=f"notice:{no}:end", address=address, body=told)


def _is_same(first: Inbound, changed: Inbound) -> bool:
    """Whether both are the same message from the same sender."""
    return (first.message_id, first.sender.user_id) == (changed.message_id, changed.sender.user_id)


def _rewritten(first: Inbound, changed: Inbound) -> Inbound:
    """`first` with the content of the edit. Forwarded text stays marked as forwarded."""
    author = changed.forwarded_from
    return msgspec.structs.replace(
        first,
        text=changed.text,
        quote=changed.quote,
        forwarded_from=first.forwarded_from if author is None else author,
    )


def _is_at_once(inbound: Inbound) -> bool:
    if not commands.is_command(inbound.typed):
        return False
    try:
        command, _ = commands.find(inbound.typed, Where.CHAT)
    except UserError:
        return True  # running it replies with the error
    return command.at_once
