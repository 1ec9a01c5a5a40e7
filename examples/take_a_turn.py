"""Takes one turn in a new session, with whatever model `segue model` shows."""

import asyncio

from segue import config, store
from segue.core import address, events, session
from segue.turns import Turns


async def main(words: str) -> None:
    settings = config.load()
    async with await store.open(settings.store) as kept, Turns(kept, settings) as turns:
        await kept.owners.ensure(session.ME)
        here = await kept.sessions.create(session.ME, address.Platform.LOCAL)
        async for event in turns.take_turn(here.id, words):
            print(event.text if isinstance(event, events.TextDelta) else "", end="", flush=True)


asyncio.run(main(input("> ")))
