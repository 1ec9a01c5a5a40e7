"""Collect the evidence about a conversation from the store, the platform and the model."""

from __future__ import annotations

from segue.core.session import ME
from segue.handoffs import queries as handoff_queries
from segue.store import bindings, bubbles, inbox, transcripts
from tests.crash.oracle import Evidence
from tests.crash.world import Life, World, outgoing, title
from tests.rigs import Thread


async def gather(world: World, life: Life, told: str | None) -> Evidence:
    store = world.store
    view = await world.rig.look(life.chat)
    # A thread may hang on a message with its title, which is posted first.
    heads = [m for m in view.messages if m.thread is None and m.text == title(life.chat)]
    bound = await bindings.list_bindings(store, ME, limit=10_000)
    addresses = tuple(b.address for b in bound if b.session_id == life.session_id)
    handoffs = await handoff_queries.history(store, life.session_id)
    shown = await bubbles.shown(store, [world.rig.platform])
    return Evidence(
        session_id=life.session_id,
        words=tuple(life.words),
        in_chat=frozenset(life.in_chat),
        handoffs=tuple(reversed(handoffs)),
        addresses=addresses,
        is_taken_back=life.taken_back,
        resumes=life.resumes,
        transcript=(await transcripts.load(store, life.session_id)).messages,
        outgoing=await outgoing(store, life.chat),
        waiting=sum(i.address.chat_id == life.chat for i in await inbox.waiting(store)),
        bubbles=sum(address.chat_id == life.chat for address in shown),
        messages=tuple(m for m in view.messages if m.author != life.user and m not in heads),
        threads=(*view.threads, *(Thread(head.id, head.text) for head in heads)),
        keys=world.rig.keys,
        edits_later=world.rig.edits_later,
        mistakes=view.faults,
        asked=world.model.asked,
        tasks=frozenset(life.tasks),
        moving=frozenset(life.moving),
        cut_off=frozenset(life.cut_off),
        kills=life.kills,
        runs=world.runs(),
        told=told,
        waited=life.waited,
        log=world.log.read_text(),
    )
