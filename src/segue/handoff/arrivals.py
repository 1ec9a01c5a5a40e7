"""Messages that arrive where a session is being handed off to.

They wait until the handoff ends. Then they are answered in order: in that session if it has
arrived, otherwise like any other message at their address.
"""

from __future__ import annotations

from segue.core.address import Address, ChatType
from segue.core.handoff import Handoff, Step
from segue.store import Store, Topic

POLL_SECONDS = 1.0


async def wait_for_arrivals(store: Store, address: Address) -> None:
    """Return once no handoff to this address is in flight. It asks the store, so that it also
    covers the handoffs of a gateway that died."""
    if not await _is_arriving(store, address):
        return
    async with store.listen(Topic.HANDOFFS) as wake:
        while await _is_arriving(store, address):
            await wake.wait(POLL_SECONDS)


async def _is_arriving(store: Store, address: Address) -> bool:
    for handoff in await store.in_flight():
        if handoff.platform is not address.platform:
            continue
        if handoff.thread is not None:
            if handoff.thread == address:
                return True
        elif handoff.step is Step.OPENING and await _may_be_thread(store, handoff, address):
            return True
    return False


async def _may_be_thread(store: Store, handoff: Handoff, address: Address) -> bool:
    """Whether `address` may be the thread that is being opened: a user can write in it before the
    platform has returned its id."""
    if handoff.home is not None and handoff.home.chat_id == address.chat_id:
        return True
    is_thread = address.chat_type is ChatType.THREAD or address.thread_id is not None
    return is_thread and await store.bindings.get(address) is None
