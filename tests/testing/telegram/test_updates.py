"""What the bot is told, and how it gets to know it."""

from __future__ import annotations

import asyncio

from segue.testing.telegram import Kind, Settings
from tests.testing.telegram.stage import Stage, refusal, stage


async def texts(at: Stage, **more: int) -> list[str | None]:
    return [it.effective_message and it.effective_message.text for it in await at.updates(**more)]


# Polling


async def test_an_update_comes_until_it_is_confirmed() -> None:
    async with stage() as at:
        for text in ("one", "two", "three"):
            await at.hands.say(at.anna, at.forum, text)
        first = (await at.updates())[0].update_id
        assert await texts(at) == ["one", "two", "three"]
        assert await texts(at, limit=2) == ["one", "two"]
        assert await texts(at, offset=first + 1) == ["two", "three"]
        assert await texts(at) == ["two", "three"]
        assert await texts(at, offset=-1) == ["three"]
        assert (await at.hands.look()).unconfirmed == 1


async def test_one_bot_polls_at_a_time_and_none_beside_a_webhook() -> None:
    async with stage() as at:
        polling = asyncio.ensure_future(at.bot.get_updates(timeout=10))
        await at.hands.until(lambda shown: shown.calls.get("getUpdates") == 1)
        assert (await at.http.get("getUpdates")).json() == {"ok": True, "result": []}
        assert (await refusal(polling)).startswith("Conflict: terminated by other getUpdates")
        await at.hands.bot(Settings(webhook="https://example.org"))
        assert (await refusal(at.updates())).startswith("Conflict: can't use getUpdates method")
        assert (await at.bot.get_webhook_info()).url == "https://example.org"
        await at.bot.delete_webhook()
        assert await texts(at) == []


async def test_only_what_is_asked_for_comes() -> None:
    async with stage() as at:
        await at.updates(allowed_updates=["edited_message"])
        said = await at.hands.say(at.anna, at.forum, "one")
        await at.hands.edit(at.forum, said, "two")
        [update] = await at.updates()
        assert update.edited_message is not None
        assert update.edited_message.text == "two"
        await at.updates(allowed_updates=[])
        await at.hands.say(at.anna, at.forum, "three")
        assert await texts(at) == ["two", "three"]


# What is told


async def test_in_privacy_mode_a_bot_hears_what_is_meant_for_it() -> None:
    async with stage(Settings(reads_all=False)) as at:
        for kind in (Kind.GROUP, Kind.SUPERGROUP):
            group = await at.hands.chat(kind, [at.anna])
            sent = await at.bot.send_message(group, "hi")
            hers = await at.hands.say(at.anna, group, "to nobody")
            await at.hands.say(at.anna, group, "to herself", reply_to=hers)
            for text in ("/help@other_bot", "so, @other_bot?"):
                await at.hands.say(at.anna, group, text)
            for text in ("/help", "/help@segue_test_bot", "so, @Segue_Test_Bot?"):
                await at.hands.say(at.anna, group, text)
            await at.hands.say(at.anna, group, "to it", reply_to=sent.message_id)
            updates = await at.updates()
            assert [it.message and it.message.text for it in updates] == [
                "/help",
                "/help@segue_test_bot",
                "so, @Segue_Test_Bot?",
                "to it",
            ]
            await at.updates(offset=updates[-1].update_id + 1)
        await at.hands.say(at.anna, at.forum, "where it is an administrator")
        await at.hands.say(at.anna, await at.hands.private(at.anna), "in private")
        assert await texts(at) == ["where it is an administrator", "in private"]
