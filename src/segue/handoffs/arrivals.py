"""Messages that arrive where a session is being handed off to.

They wait until the handoff ends. Then they are answered in order: in that session if it has
arrived, otherwise like any other message at their address.
"""

from __future__ import annotations

from segue.core.address import Address, ChatType
from segue.handoffs import queries as handoffs
from segue.handoffs.values import Handoff, Step
from segue.store import Store, Topic, Tx, bindings, doors, inbox, sessions
from segue.store.inbox import Incoming

POLL_SECONDS = 1.0


async def wait_for_arrivals(store: Store, address: Address) -> Incoming | None:
    """Return once no handoff to this address is in flight, with the turn that a session has brought
    there, if it is not finished. It asks the store, so that it also covers the handoffs of a
    gateway that died."""
    in_flight, brought = await store.read(_read_arrivals, address)
    if not in_flight:  # as for most messages, which cost one transaction
        return brought
    if await _is_arriving(store, address):
        async with store.listen(Topic.HANDOFFS) as wake:
            while await _is_arriving(store, address):
                await wake.wait(POLL_SECONDS)
    return await inbox.moved_turn(store, address)


def _read_arrivals(tx: Tx, address: Address) -> tuple[tuple[Handoff, ...], Incoming | None]:
    return handoffs.in_flight(tx), inbox.moved_turn(tx, address)


async def is_opened(store: Store, address: Address, owner: str) -> bool:
    """Whether `address` is the thread of a handoff in flight of one of the owner's sessions."""
    for handoff in await handoffs.in_flight(store):
        if handoff.thread == address:
            session = await sessions.get(store, handoff.session_id)
            return session is not None and session.owner == owner
    return False


async def wait_for_departure(store: Store, session_id: str) -> None:
    """Return once no handoff of this session is in flight: it may take the session's turn along."""
    async with store.listen(Topic.HANDOFFS) as wake:
        while (latest := await handoffs.current(store, session_id)) and latest.in_flight:
            await wake.wait(POLL_SECONDS)


async def _is_arriving(store: Store, address: Address) -> bool:
    for handoff in await handoffs.in_flight(store):
        if handoff.platform is not address.platform:
            continue
        if handoff.thread is not None:
            if handoff.thread == address:
                return True
        elif await _may_be_thread(store, handoff, address):
            return True
    return False


async def _is_door(store: Store, handoff: Handoff, address: Address) -> bool:
    """Whether the session returns to `address`, although no gateway has recorded it yet."""
    if handoff.home is None or handoff.new_thread:
        return False
    door = await doors.newest(store, handoff.session_id, handoff.home)
    return door is not None and door.address == address


async def _may_be_thread(store: Store, handoff: Handoff, address: Address) -> bool:
    """Whether the session may be on its way to `address`: to its own thread there, or to the thread
    that is being opened, where a user can write before the platform has returned its id."""
    if await _is_door(store, handoff, address):
        return True
    if handoff.step is not Step.OPENING:
        return False
    if handoff.home is not None and handoff.home.chat_id == address.chat_id:
        return True
    is_thread = address.chat_type is ChatType.THREAD or address.thread_id is not None
    return is_thread and await bindings.get(store, address) is None
