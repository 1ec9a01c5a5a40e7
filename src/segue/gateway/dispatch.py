"""Dispatch: pending messages are handled in order per chat: a turn, a command or a button.

Each chat has a queue, and chats do not wait for each other. A queue exists only while it has work,
so memory does not grow with the number of chats. What concerns a running turn, such as /stop, has
separate queues.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from segue import commands
from segue.approvals import questions
from segue.commands.base import Command, Where
from segue.core.address import Address, Platform, Sender
from segue.core.errors import PlatformLost, SessionElsewhere, StoreError, UserError
from segue.core.session import Owner
from segue.gateway import messages, texts
from segue.gateway.chat_commands import ChatCommands
from segue.gateway.containment import cancel, contained, finish
from segue.gateway.context import GatewayContext
from segue.gateway.messages import PendingMessage
from segue.gateway.turns import ChatTurns
from segue.handoffs import arrivals
from segue.platforms.base import Inbound, InboundKind
from segue.store import Tx, inbox, outbox, owners, retries, sessions
from segue.store.inbox import Incoming
from segue.system.backoff import Backoff

MAX_WAITING = 20
"""Limit of waiting items per chat. Beyond it, the user is asked to wait."""
MAX_STARTS = 20
"""A message that was started more often is set aside: it may be what kills the gateways. A harmless
message never gets close to this number."""
ABSENCE_WAIT = 0.5
"""After an absence, messages are answered when no update came for so long: an edit may follow."""
MAX_ABSENCE_WAIT = 10.0
_QUESTION_POLL_SECONDS = 0.1
"""Seconds between two checks for turns that wait for an answer, while the gateway stops."""
_AT_ONCE = frozenset({InboundKind.BUTTON, InboundKind.EDIT, InboundKind.JOINED, InboundKind.PAIRED})
_CHOICES = frozenset({"new", "resume"})
"""The commands that choose the session of a chat."""
Wanted = Callable[[PendingMessage], bool]

logger = logging.getLogger(__name__)


class Dispatcher:
    def __init__(self, context: GatewayContext, chat_turns: ChatTurns) -> None:
        self._context = context
        self._store = context.store
        self._chat_turns = chat_turns
        self._queues = Queues(self._handle)
        self._at_once = Queues(self._handle)
        self._taken_up = chat_turns.taken_up
        self._unknown: set[int] = set()
        """The inbox entries that waited at the last check, and were not taken up."""
        self._last_late: dict[Platform, float] = {}
        """When the last update came that was written while the gateway was away."""

    async def dispatch(self, pending: PendingMessage, *, is_late: bool = False) -> None:
        """Handle the message, or queue it behind the others in its chat. A message that was taken
        up before is ignored. If it `is_late`, it was written while the gateway was away. It is not
        refused because many wait, and an edit that follows it at once replaces it."""
        if not self._taken_up.add(pending.inbox_id, pending.address.platform):
            return
        platform = pending.address.platform
        if is_late:
            self._last_late[platform] = asyncio.get_running_loop().time()
        if pending.inbound.kind is InboundKind.EDIT:
            await self._edit(pending)
            return
        queue = self._queue(pending)
        after = (
            partial(self._wait_for_updates, platform) if is_late and queue is self._queues else None
        )
        # A full queue must not keep out the choice that its messages wait for.
        most = None if is_late or _is_choice(pending) else MAX_WAITING
        if not queue.put(pending.address, pending, most=most, after=after):
            await self._chat_turns.conclude(pending, texts.BUSY)

    async def _wait_for_updates(self, platform: Platform) -> None:
        """Wait until the updates from the time of an absence have come."""
        loop = asyncio.get_running_loop()
        latest = loop.time() + MAX_ABSENCE_WAIT
        while True:
            left = min(self._last_late[platform] + ABSENCE_WAIT, latest) - loop.time()
            if left <= 0:
                return
            await asyncio.sleep(left)

    def _queue(self, pending: PendingMessage) -> Queues:
        """The queue in which it waits. What concerns a running turn does not wait for it."""
        if pending.is_turn or not _is_at_once(pending.inbound):
            return self._queues
        return self._at_once

    async def _edit(self, pending: PendingMessage) -> None:
        """Apply an edit to a message that is still waiting to be answered."""
        changed = pending.inbound
        address = pending.address
        lines = (self._chat_turns.doors, self._queues)
        is_same = partial(_is_same, changed)
        waiting = next(filter(None, (line.find(address, is_same) for line in lines)), None)
        waiting = waiting or await self._not_taken(pending)
        if waiting is None:
            await self._chat_turns.conclude(pending, texts.ANSWERED_ALREADY)
            return
        first = waiting.inbound
        author = changed.forwarded_from
        inbound = replace(
            first,
            text=changed.text,
            quote=changed.quote,
            # Forwarded text stays marked as forwarded.
            forwarded_from=first.forwarded_from if author is None else author,
        )
        # The store comes first: a gateway that is killed here must not answer the old text.
        rewritten = await inbox.rewrite(self._store, waiting.inbox_id, messages.encode(inbound))
        edited = replace(waiting, inbound=inbound)
        if not any(line.replace(address, waiting, edited) for line in lines):
            self._chat_turns.edited[waiting.inbox_id] = edited
        await self._chat_turns.conclude(pending, "" if rewritten else texts.ANSWERED_ALREADY)

    async def _not_taken(self, edit: PendingMessage) -> PendingMessage | None:
        """The edited message, if no session has taken it yet: it is being handled, and waits for
        its session, or it was not taken up."""
        message_id = edit.inbound.message_id
        found = await inbox.not_taken(self._store, edit.address, message_id, exclude=edit.inbox_id)
        if found is None:
            return None
        inbound = messages.decode(found.body)
        if inbound.sender.user_id != edit.inbound.sender.user_id:
            return None
        return PendingMessage(inbox_id=found.no, owner=edit.owner, inbound=inbound)

    async def withdraw(self, deleted: Inbound) -> None:
        """Drop a message that was deleted while it waited: it is not answered. If the agent works
        on it, its turn is stopped as by /stop."""
        is_it = partial(_is_deleted, deleted)
        self._chat_turns.withdraw(is_it)
        for address in self._queues.addresses(deleted.address):
            if (pending := self._queues.take(address, is_it)) is not None:
                logger.info("deleted message not answered inbox_id=%d", pending.inbox_id)
                await self._chat_turns.conclude(pending)
        for address in list(self._chat_turns.doors.addresses()):
            if self._chat_turns.doors.find(address, is_it) is not None:
                self._chat_turns.doors.stop(address)

    def move(self, old: Address, new: Address) -> None:
        """Move the queue of a chat that moved. Its messages are answered before new ones."""

        for queues in (self._queues, self._at_once):
            queues.move(old, new)
        self._chat_turns.move(old, new)

    async def continue_turn(self, session_id: str) -> None:
        """Queue the turn that the session has brought to its address, if it has."""
        session = await sessions.get(self._store, session_id)
        if session is None or session.address is None:
            return
        incoming = await inbox.moved_turn(self._store, session.address)
        if incoming is not None and self._taken_up.add(incoming.no, incoming.platform):
            pending = messages.brought(incoming, session.owner)
            self._queues.put(session.address, pending, most=None)

    # Starting and stopping

    async def resume(self, platforms: Collection[Platform]) -> None:
        """Resume what an earlier gateway recorded and did not finish."""
        await self._recall_all(await inbox.start_all(self._store, platforms))

    async def take_up_overlooked(self, platforms: Collection[Platform]) -> None:
        """Take up messages that were recorded, but never taken up. If the store fails just as it
        records a message, the gateway does not know the entry, and the platform delivers nothing
        that is recorded."""
        waiting = await inbox.waiting_numbers(self._store, platforms)
        self._taken_up.forget(waiting)
        unknown = {no for no in waiting if no not in self._taken_up}
        # One that was just recorded is about to be taken up, so it is checked twice.
        overlooked: list[Incoming] = []
        for no in sorted(unknown & self._unknown):
            if (incoming := await inbox.unfinished(self._store, no)) is not None:
                logger.warning("message taken up late inbox_id=%d", no)
                overlooked.append(incoming)
        self._unknown = unknown
        await self._recall_all(overlooked)

    async def _recall_all(self, entries: Collection[Incoming]) -> None:
        known: list[PendingMessage] = []
        senders: dict[Sender, Owner | None] = {}
        for incoming in entries:
            if incoming.no in self._chat_turns.under_way:
                continue
            if incoming.starts > MAX_STARTS:
                await self._give_up(incoming, texts.NEVER_DONE)
                continue
            async with contained(f"message {incoming.no}", partial(self._give_up, incoming)):
                await self._recall(incoming, known, senders)
        # Queue nothing until all are decoded: if the store fails, the whole step is repeated.
        for pending in await self._without_stopped(known):
            if self._taken_up.add(pending.inbox_id, pending.address.platform):
                self._queue(pending).put(pending.address, pending, most=None)

    async def _without_stopped(self, known: list[PendingMessage]) -> list[PendingMessage]:
        """Stop the interrupted turns that a later /stop is about: they would not be running yet
        when it is handled. Return the rest."""
        over: set[int] = set()
        for stop in filter(_is_stop, known):
            turns = [
                it
                for it in known
                if it.is_turn and it.address == stop.address and it.inbox_id < stop.inbox_id
            ]
            for turn in turns:
                await self._chat_turns.conclude(turn, texts.STOPPED, void=turn.session_id)
            if turns:
                await self._chat_turns.conclude(stop)
                over |= {stop.inbox_id, *(turn.inbox_id for turn in turns)}
        return [it for it in known if it.inbox_id not in over]

    async def _recall(
        self,
        incoming: Incoming,
        known: list[PendingMessage],
        senders: dict[Sender, Owner | None],
    ) -> None:
        """Decode the entry and add it to `known`, unless its sender is no longer paired.
        `senders` are those that were looked up before: thousands of messages have few."""
        if incoming.error is not None:
            raise ValueError(incoming.error)
        if not incoming.body:
            known.append(messages.brought(incoming, await self._owner(incoming)))
            return
        inbound = messages.decode(incoming.body)
        sender = inbound.sender
        if sender not in senders:
            senders[sender] = await owners.who(self._store, sender.platform, sender.user_id)
        owner = senders[sender]
        if owner is None:
            await inbox.finish(self._store, [incoming.no])
            return
        inbound = replace(inbound, address=incoming.address)  # may have moved
        pending = PendingMessage(inbox_id=incoming.no, owner=owner.id, inbound=inbound)
        known.append(replace(pending, session_id=incoming.session_id, is_begun=incoming.is_begun))

    async def _owner(self, brought: Incoming) -> str:
        """The owner of the session that brought a turn, or "" if it was deleted."""
        session = await sessions.get(self._store, brought.session_id or "")
        return session.owner if session else ""

    async def _give_up(self, incoming: Incoming, reason: str) -> None:
        """Set aside a message that no gateway can handle. Only owners' messages are recorded."""
        address = incoming.address if incoming.error is None else None
        logger.error("message given up inbox_id=%d: %s", incoming.no, reason)
        await self._store.write(_set_aside, incoming.no, reason, address, texts.GIVEN_UP)

    async def release(self, platform: Platform) -> None:
        """Leave unfinished work on `platform` to the gateway that now serves it."""
        self._taken_up.release(platform)
        await asyncio.gather(self._queues.drop(platform), self._at_once.drop(platform))

    async def finish(self, seconds: float) -> None:
        """Start nothing new and wait up to `seconds` for running work, but not for turns that ask
        the user: no answer can come. A restarted gateway resumes the rest."""
        asked = asyncio.create_task(self._cancel_questions())
        try:
            await asyncio.gather(self._queues.finish(seconds), self._at_once.finish(seconds))
        finally:
            asked.cancel()
            await asyncio.wait({asked})

    async def _cancel_questions(self) -> None:
        while True:
            for address in self._chat_turns.waiting_for_answer():
                self._queues.cancel(address)
            await asyncio.sleep(_QUESTION_POLL_SECONDS)

    # Handling

    async def _handle(self, pending: PendingMessage) -> None:
        """Handle the message, and retry for as long as the store is down."""
        backoff = Backoff(most=2.0)
        while True:
            try:
                item = f"message {pending.inbox_id}"
                async with contained(item, partial(self._set_aside, pending)):
                    await self._run(pending)
                return
            except PlatformLost as error:
                logger.info("left to another gateway inbox_id=%d: %s", pending.inbox_id, error)
                return
            except StoreError as error:
                if retries.is_being_cancelled():
                    raise
                logger.error("message waits for the store inbox_id=%d: %s", pending.inbox_id, error)  # noqa: TRY400
                await asyncio.sleep(backoff.next())
                again = await self._reload(pending)
                if again is None:
                    return
                pending = again

    async def _reload(self, pending: PendingMessage) -> PendingMessage | None:
        """The same message, with the session that has taken it by now, or its begun command, once
        the store is back. None if it is finished: the store failed only afterwards."""
        known = await retries.until_stored(
            f"state of message {pending.inbox_id}",
            lambda: inbox.unfinished(self._store, pending.inbox_id),
        )
        if known is None:
            return None
        return replace(pending, session_id=known.session_id, is_begun=known.is_begun)

    async def _run(self, pending: PendingMessage) -> None:
        try:
            if pending.is_brought:
                await self._continue(await inbox.moved_turn(self._store, pending.address))
            elif pending.session_id is not None:
                await self._chat_turns.resume(pending, pending.session_id)
            elif pending.inbound.kind is InboundKind.EDIT:
                await self._edit(pending)
            elif pending.inbound.kind is InboundKind.JOINED:
                hint = self._context.how_to_address(pending.address)
                await self._chat_turns.conclude(pending, f"{texts.JOINED} {hint}".rstrip())
            elif pending.inbound.kind is InboundKind.PAIRED:
                await (await ChatCommands.of(self._chat_turns, pending)).confirm_new_home()
                await self._chat_turns.conclude(pending)
            elif pending.inbound.kind is InboundKind.BUTTON:
                await self._run_once(pending, self._press)
            elif commands.is_command(pending.inbound.typed):
                await self._run_once(pending, self._command)
            else:
                await self._answer(pending)
        except StoreError:
            raise
        except UserError as error:
            await self._chat_turns.conclude(pending, str(error))

    async def _continue(self, brought: Incoming | None) -> None:
        """Continue the turn that a session has brought to an address, if there is one. It comes
        before messages that were written there earlier."""
        if brought and brought.session_id:
            pending = messages.brought(brought, await self._owner(brought))
            await self._chat_turns.resume(pending, brought.session_id)

    async def _answer(self, pending: PendingMessage) -> None:
        """Answer the message, once its session is here or the owner has chosen another one."""
        address = pending.address
        waiting = pending
        while True:
            await self._continue(await arrivals.wait_for_arrivals(self._store, address))
            try:
                await self._chat_turns.answer(waiting)
                return
            except SessionElsewhere as elsewhere:
                choose = partial(self._choose, address)
                edited = await self._chat_turns.doors.wait(waiting, elsewhere, choose)
            if edited is None:
                await self._chat_turns.conclude(pending, texts.STOPPED)
                return
            waiting = edited

    async def _choose(self, address: Address) -> bool:
        """Run the choice that is queued behind the message that waits for it."""
        if (choice := self._queues.take(address, _is_choice)) is None:
            return False
        await self._handle(choice)
        return True

    async def _set_aside(self, pending: PendingMessage, reason: str) -> None:
        await self._store.write(_set_aside, pending.inbox_id, reason, pending.address, texts.FAULT)

    async def _run_once(
        self, pending: PendingMessage, work: Callable[[PendingMessage], Awaitable[None]]
    ) -> None:
        """Run a command at most once. If it is interrupted, the user is notified and can type it
        again."""
        if pending.is_begun:
            await self._interrupted(pending)
            return
        await inbox.begin(self._store, pending.inbox_id)
        await work(pending)

    async def _interrupted(self, pending: PendingMessage) -> None:
        """Report a command that was interrupted, unless it has already answered."""
        has_answered = await outbox.get(self._store, messages.answer_key(pending.inbox_id))
        about = texts.interrupted_command(pending.inbound.typed)
        if pending.inbound.kind is InboundKind.BUTTON:
            about = texts.INTERRUPTED_PRESS
        await self._chat_turns.conclude(pending, "" if has_answered else about)

    async def _command(self, pending: PendingMessage) -> None:
        context = await ChatCommands.of(self._chat_turns, pending)
        await commands.run(context, pending.inbound.typed)
        if not context.is_under_way:
            await self._chat_turns.conclude(pending)

    async def _press(self, pending: PendingMessage) -> None:
        pressed = questions.pressed(pending.inbound.typed)
        if pressed is not None:
            await questions.answer_pressed(self._store, pending.owner, pending.address, *pressed)
            await self._chat_turns.conclude(pending)
            return
        context = await ChatCommands.of(self._chat_turns, pending)
        await context.press()
        if not context.is_under_way:
            await self._chat_turns.conclude(pending)


def _set_aside(tx: Tx, no: int, reason: str, address: Address | None, notice: str) -> None:
    """Set the message aside. If `address` is known, queue a notice there."""
    inbox.set_aside(tx, no, reason)
    if address is not None:  # also for commands, which are finished before they run
        outbox.enqueue(tx, messages.notice(no, address, notice))


def _is_same(changed: Inbound, waiting: PendingMessage) -> bool:
    """Whether both are the same message from the same sender."""
    first = waiting.inbound
    return (first.message_id, first.sender.user_id) == (changed.message_id, changed.sender.user_id)


def _is_deleted(deleted: Inbound, waiting: PendingMessage) -> bool:
    """Whether it is the message that was deleted. Its author is not always known."""
    it = waiting.inbound
    if not deleted.message_id or it.address.chat_id != deleted.address.chat_id:
        return False
    by = deleted.sender.user_id
    return it.message_id == deleted.message_id and by in ("", it.sender.user_id)


def _is_choice(pending: PendingMessage) -> bool:
    """Whether it may choose the session of its chat. After a restart, buttons are queued too."""
    inbound = pending.inbound
    if inbound.kind is InboundKind.BUTTON:
        return True
    command = _command(inbound)
    return command is not None and command.name in _CHOICES


def _is_stop(pending: PendingMessage) -> bool:
    command = _command(pending.inbound)
    return command is not None and command.name == "stop" and not pending.is_turn


def _is_at_once(inbound: Inbound) -> bool:
    if inbound.kind in _AT_ONCE:
        return True
    if not commands.is_command(inbound.typed):
        return False
    command = _command(inbound)
    return command is None or command.at_once  # an unknown one is answered with the error


def _command(inbound: Inbound) -> Command | None:
    if not commands.is_command(inbound.typed):
        return None
    try:
        command, _ = commands.find(inbound.typed, Where.CHAT)
    except UserError:
        return None
    return command


@dataclass(slots=True, eq=False)
class _Queue:
    """The queue of one chat."""

    address: Address
    waiting: deque[PendingMessage] = field(default_factory=deque)
    driver: asyncio.Task[None] | None = None


class Queues:
    """Calls `work` for each item, one at a time per address."""

    def __init__(self, work: Callable[[PendingMessage], Awaitable[None]]) -> None:
        self._work = work
        self._queues: dict[Address, _Queue] = {}
        self._open = True

    def put(
        self,
        address: Address,
        item: PendingMessage,
        *,
        most: int | None = MAX_WAITING,
        after: Callable[[], Awaitable[None]] | None = None,
    ) -> bool:
        """Queue an item for that address. Return False if `most` items are already waiting. If
        nothing is being handled there, the item is, once `after` returns."""
        queue = self._queues.setdefault(address, _Queue(address))
        if most is not None and len(queue.waiting) >= most:
            return False
        queue.waiting.append(item)
        if queue.driver is None and self._open:
            queue.driver = asyncio.create_task(self._drive(queue, after), name=f"{address}")
        return True

    def addresses(self, chat: Address) -> list[Address]:
        """The chat and its threads, as far as they have a queue."""
        of_chat = (chat.platform, chat.chat_id)
        return [it for it in self._queues if (it.platform, it.chat_id) == of_chat]

    def find(self, address: Address, wanted: Wanted) -> PendingMessage | None:
        """The first waiting item that matches, or None."""
        return next(filter(wanted, self._waiting(address)), None)

    def take(self, address: Address, wanted: Wanted) -> PendingMessage | None:
        """Remove the first waiting item that matches, and return it, or None."""
        if (found := self.find(address, wanted)) is not None:
            self._waiting(address).remove(found)
        return found

    def replace(self, address: Address, item: PendingMessage, other: PendingMessage) -> bool:
        """Replace a waiting item. Return False if it is no longer waiting."""
        waiting = self._waiting(address)
        if item not in waiting:
            return False
        waiting[waiting.index(item)] = other
        return True

    def move(self, old: Address, new: Address) -> None:
        """Move the queue from `old` to `new`, so that its items come before later ones at `new`."""
        if old not in self._queues:
            return
        waiting = self._queues[old].waiting
        moved = [replace(item, inbound=replace(item.inbound, address=new)) for item in waiting]
        waiting.clear()
        if new in self._queues:
            self._queues[new].waiting.extendleft(reversed(moved))
            return
        queue = self._queues[new] = self._queues.pop(old)
        queue.address = new
        queue.waiting.extend(moved)

    def cancel(self, address: Address) -> None:
        """Cancel the running work at that address."""
        queue = self._queues.get(address)
        if queue is not None and queue.driver is not None:
            queue.driver.cancel()

    async def drop(self, platform: Platform) -> None:
        """Discard waiting items on that platform, and cancel running work there."""
        queues = [queue for queue in self._queues.values() if queue.address.platform is platform]
        for queue in queues:
            queue.waiting.clear()
        await cancel(*(queue.driver for queue in queues if queue.driver is not None))

    async def finish(self, seconds: float) -> None:
        """Start nothing new, wait up to `seconds` for running work, then cancel it."""
        self._open = False
        await finish([q.driver for q in self._queues.values() if q.driver is not None], seconds)

    def _waiting(self, address: Address) -> deque[PendingMessage]:
        return self._queues[address].waiting if address in self._queues else deque()

    async def _drive(self, queue: _Queue, after: Callable[[], Awaitable[None]] | None) -> None:
        try:
            if after is not None:
                await after()
            while queue.waiting and self._open:
                await self._work(queue.waiting.popleft())
        finally:
            queue.driver = None
            if not queue.waiting:
                del self._queues[queue.address]
