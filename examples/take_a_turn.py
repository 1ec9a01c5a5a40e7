"""Takes one turn in a new session, with the model that `segue model` shows."""

import asyncio

from segue import config, store
from segue.core import address, events, session
from segue.store import owners, sessions
from segue.turns import Turns, agents


async def main(words: str, conf: config.Settings) -> None:
    async with await store.open(conf.store) as db, Turns(db, agents.Agents(db, conf)) as turns:
        await owners.ensure(db, session.ME)
        here = await sessions.create(db, session.ME, address.Platform.LOCAL)
        async for event in turns.take_turn(here.id, words):
            print(event.text if isinstance(event, events.TextDelta) else "", end="", flush=True)


asyncio.run(main(input("> "), config.load()))
