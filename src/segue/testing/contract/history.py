"""Messages of an absence: they are received in order, or reported as a gap."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from segue.core.address import Sender
from segue.core.errors import ConnectFailed
from segue.platforms import backlog
from segue.platforms.base import Adapter, Inbound, InboundKind, Wanted
from segue.testing.contract.rig import (
    CHATTER,
    HOME,
    Act,
    Contract,
    Feature,
    Place,
    RemoteRig,
    home_of,
    part,
    reading,
    require,
)
from segue.testing.peers import Trouble

CROWD = 130
"""Messages of others: more than a page of any platform has."""
LAST = "the last that was recorded"


class HistoryContract(Contract):
    async def test_everything_that_was_written_meanwhile_is_heard_in_order(
        self, rig: RemoteRig
    ) -> None:
        require(rig, Feature.BACKLOG)
        at, last = await leave(rig)
        texts = [f"message {number}" for number in range(rig.flood)]
        for text in texts:
            await rig.say(at, text)
        adapter = await come_back(rig, last)
        assert [it.text for it in await missed(adapter, rig.flood)] == texts

    async def test_a_message_that_was_edited_meanwhile_is_heard_in_its_newest_text(
        self, rig: RemoteRig
    ) -> None:
        """Or its edit follows before the adapter has caught up: the gateway waits for it."""
        require(rig, Feature.EDITS, Feature.BACKLOG, Feature.EDIT_BACKLOG)
        at, last = await leave(rig)
        message = await rig.say(at, "remove A")
        await rig.edit(message, "remove B")
        adapter = await come_back(rig, last)
        async with reading(adapter) as reader:
            found = await reader.next()
            while found.text in (HOME, LAST):
                found = await reader.next()
            if found.text == "remove A":
                assert not adapter.is_caught_up
                found = await reader.next()
            assert found.text == "remove B"

    async def test_messages_of_others_do_not_hide_what_the_owner_wrote(
        self, rig: RemoteRig
    ) -> None:
        require(rig, Feature.BACKLOG, Feature.OTHERS)
        at, last = await leave(rig)
        await rig.say(at, "first")
        await rig.others(at, CROWD)
        await rig.say(at, "last")
        adapter = await come_back(rig, last)
        assert [it.text for it in await missed(adapter, 2)] == ["first", "last"]

    async def test_what_lies_beyond_the_limit_is_reported_before_the_rest_is_heard(
        self, rig: RemoteRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        require(rig, Feature.BACKLOG, Feature.HISTORY, Feature.OTHERS)
        monkeypatch.setattr(backlog, "MESSAGES", 20)
        at, last = await leave(rig)
        await rig.say(at, "too old")
        await rig.others(at, 2 * CROWD)
        await rig.say(at, "recent")
        adapter = await come_back(rig, last)
        [gap, recent] = await missed(adapter, 2)
        assert (gap.kind, gap.address) == (InboundKind.GAP, last.address)
        assert gap.gap is not None
        assert gap.gap.since <= gap.gap.until
        assert recent.text == "recent"

    async def test_a_history_that_takes_too_long_is_reported(
        self, rig: RemoteRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        require(rig, Feature.BACKLOG, Feature.HISTORY)
        monkeypatch.setattr(backlog, "SECONDS", 0.0)
        at, last = await leave(rig)
        for number in range(rig.many):
            await rig.say(at, str(number))
        adapter = await come_back(rig, last)
        [gap] = await missed(adapter, 1)
        assert (gap.kind, gap.address) == (InboundKind.GAP, last.address)

    async def test_a_busy_platform_is_asked_again_when_it_says(
        self, rig: RemoteRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waited: list[float] = []

        async def pause(seconds: float) -> None:
            waited.append(seconds)

        monkeypatch.setattr(backlog, "pause", pause)
        require(rig, Feature.BACKLOG, Feature.HISTORY)
        at, last = await leave(rig)
        texts = [str(number) for number in range(rig.many)]
        for text in texts:
            await rig.say(at, text)
        adapter = await come_back(rig, last)
        await rig.fail(Act.HISTORY, Trouble.BUSY, seconds=7.0)
        assert [it.text for it in await missed(adapter, len(texts))] == texts
        assert set(waited) == {7.0}

    @pytest.mark.parametrize("trouble", [Trouble.BROKEN, Trouble.DROP_BEFORE])
    async def test_a_history_that_fails_is_read_over_the_next_connection(
        self, rig: RemoteRig, trouble: Trouble
    ) -> None:
        require(rig, Feature.BACKLOG, Feature.HISTORY)
        at, last = await leave(rig)
        texts = [str(number) for number in range(rig.many)]
        for text in texts:
            await rig.say(at, text)
        adapter = await come_back(rig, last)
        await rig.fail(Act.HISTORY, trouble, seconds=0.0)
        with pytest.raises(ConnectFailed):
            await missed(adapter, 1)
        await rig.calm()
        await adapter.connect()
        assert [it.text for it in await missed(adapter, len(texts))] == texts

    async def test_a_history_that_always_fails_does_not_stop_what_comes_next(
        self, rig: RemoteRig
    ) -> None:
        require(rig, Feature.BACKLOG, Feature.HISTORY)
        at, last = await leave(rig)
        for number in range(rig.many):
            await rig.say(at, str(number))
        adapter = await come_back(rig, last)
        for _ in range(backlog.ATTEMPTS - 1):
            await rig.fail(Act.HISTORY, Trouble.BROKEN, seconds=0.0)
            with pytest.raises(ConnectFailed):
                await missed(adapter, 1)
            await rig.calm()
            await adapter.connect()
        await rig.fail(Act.HISTORY, Trouble.BROKEN, seconds=0.0)
        async with reading(adapter) as reader:
            found = [await reader.next()]
            assert found[0].kind is InboundKind.GAP
            await rig.calm()
            await rig.say(at, "next")
            while found[-1].text != "next":
                found.append(await reader.next())

    async def test_an_adapter_has_caught_up_when_everything_was_recorded(
        self, rig: RemoteRig
    ) -> None:
        require(rig, Feature.BACKLOG, Feature.HISTORY)
        at, last = await leave(rig)
        for number in range(rig.many):
            await rig.say(at, str(number))
        adapter = await come_back(rig, last)
        async with reading(adapter) as reader:
            found = await reader.next()
            assert not adapter.is_caught_up, "the gateway has not recorded it"
            while found.text != str(rig.many - 1):
                found = await reader.next()
            await rig.say(at, "next")
            while found.text != "next":
                found = await reader.next()
            assert adapter.is_caught_up

    async def test_after_a_restart_in_the_middle_the_rest_is_heard_and_the_ids_are_the_same(
        self, rig: RemoteRig
    ) -> None:
        require(rig, Feature.BACKLOG, Feature.HISTORY)
        at, last = await leave(rig)
        texts = [str(number) for number in range(rig.many)]
        for text in texts:
            await rig.say(at, text)
        adapter = await come_back(rig, last)
        first, second = await missed(adapter, 2)
        assert [first.text, second.text] == texts[:2]
        await adapter.close()
        restarted = await come_back(rig, first)
        rest = await missed(restarted, len(texts) - 1, known=[first])
        assert [it.text for it in rest] == texts[1:]
        assert rest[0].update_id == second.update_id

    async def test_a_message_that_is_sent_at_once_after_a_restart_hides_nothing(
        self, rig: RemoteRig
    ) -> None:
        """The gateway sends what waits as soon as the adapter is connected."""
        require(rig, Feature.BACKLOG)
        at, last = await leave(rig)
        await rig.say(at, "missed")
        adapter = await rig.restarted()
        await adapter.send(last.address, part("an answer from before"), key="answer")
        adapter.remember({last.address: last.update_id}, wanted=only(rig.anna))
        [found] = await missed(adapter, 1)
        assert found.text == "missed"

    async def test_after_a_restart_in_the_middle_a_thread_that_began_meanwhile_is_heard(
        self, rig: RemoteRig
    ) -> None:
        """The messages of the chat, by which its threads are found, are recorded already."""
        require(rig, Feature.BACKLOG, Feature.HISTORY, Feature.USER_THREADS)
        at, last = await leave(rig)
        contact = datetime.now(UTC)
        root = await rig.say(at, "root")
        thread = await rig.begin_thread(at, root)
        await rig.say(thread, "in the thread")
        await rig.say(at, "later")
        adapter = await rig.restarted()
        recorded = {last.address: last.update_id}
        adapter.remember(recorded, contact=contact, wanted=only(rig.anna))
        found: list[Inbound] = []
        async with reading(adapter) as reader:
            while not found or found[-1].text != "later":
                found.append(await reader.next())
        recorded |= {it.address: it.update_id for it in found}
        restarted = await rig.restarted()
        restarted.remember(recorded, contact=contact, wanted=only(rig.anna))
        new = [it for it in found if it.text not in (HOME, LAST)]
        new += await missed(restarted, 3 - len(new), known=[last, *found])
        assert sorted(it.text for it in new) == ["in the thread", "later", "root"]


async def leave(rig: RemoteRig) -> tuple[Place, Inbound]:
    """A chat, and the last update in it that is recorded. The adapter is away."""
    at = await rig.place(rig.usual)
    async with reading(rig.adapter) as reader:
        await home_of(rig, reader, at)
        await rig.say(at, LAST)
        last = await reader.next()
    await rig.adapter.close()
    await rig.noticed()
    return at, last


async def come_back(rig: RemoteRig, recorded: Inbound) -> Adapter:
    """The adapter of a new process, which wants only what the owner writes."""
    adapter = await rig.restarted()
    adapter.remember({recorded.address: recorded.update_id}, wanted=only(rig.anna))
    return adapter


def only(user: str) -> Wanted:
    async def wanted(sender: Sender, text: str) -> bool:
        return sender.user_id == user

    return wanted


async def missed(adapter: Adapter, count: int, known: Sequence[Inbound] = ()) -> list[Inbound]:
    """The first updates that the gateway does not know. A platform that keeps updates may deliver
    older ones again, and those of others."""
    ids = {it.update_id for it in known}
    found: list[Inbound] = []
    async with reading(adapter) as reader:
        while len(found) < count:
            inbound = await reader.next()
            is_known = inbound.update_id in ids or inbound.text in (HOME, LAST, CHATTER)
            ids.add(inbound.update_id)
            if not is_known:
                found.append(inbound)
    return found
