"""Who can read a chat: the owner, and who comes and goes."""

from __future__ import annotations

from segue.core.address import ChatType, audience_growth
from segue.testing.contract.base import Contract
from segue.testing.contract.rig import Feature, Rig, home_of, listening, require


class ReadersContract(Contract):
    async def test_a_newcomer_and_an_absent_owner_are_noticed(self, rig: Rig, shape: str) -> None:
        require(rig, Feature.READERS)
        at = await rig.place(shape)
        async with listening(rig.adapter) as ear:
            home = await home_of(rig, ear, at)
            before = await rig.adapter.audience(home, [rig.anna])
            if before is None:
                assert home.chat_type is ChatType.DM
                return
            assert before.has_owner
            assert audience_growth(before, before) == ""
            await rig.inhabit(at, with_anna=True)
            after = await rig.adapter.audience(home, [rig.anna])
            assert after is not None
            assert after.has_owner
            assert bool(audience_growth(before, after)) is not before.is_public
            await rig.inhabit(at, with_anna=False)
            without = await rig.adapter.audience(home, [rig.anna])
            assert without is not None
            assert not without.has_owner
