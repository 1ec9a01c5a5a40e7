"""The sender of a one-time code, and no other user, is linked to the owner who was shown it."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from segue.core.address import Platform, Sender
from segue.core.errors import IdentityTaken, OwnerNotFound, PairingRefused
from segue.core.session import Owner
from segue.store import Store, Tx, owners, pairings
from segue.store.pairings import CODE_SECONDS, MAX_OPEN, looks_like_code, normal
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import ODD, on_sqlite

SENDER = Sender(platform=Platform.TELEGRAM, user_id="42", name="Me on Telegram")
OTHER = Sender(platform=Platform.TELEGRAM, user_id="43")


async def refused(store: Store, code: str, sender: Sender = SENDER) -> bool:
    with pytest.raises(PairingRefused):
        await pairings.redeem(store, code, sender)
    return True


async def test_the_sender_of_the_code_is_linked_to_the_owner(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    code = await pairings.begin(store, "me")
    assert looks_like_code(code)
    assert await owners.who(store, Platform.TELEGRAM, "42") is None
    gateway = await open_store()
    assert await pairings.redeem(gateway, code, SENDER) == Owner(id="me", name="Me")
    (identity,) = await owners.identities(store, "me")
    assert (identity.sender, identity.linked) == (SENDER, clock.now())


async def test_a_code_is_used_once(store: Store):
    code = await pairings.begin(store, "me")
    await pairings.redeem(store, code, SENDER)
    assert await refused(store, code, OTHER)
    assert await refused(store, code, SENDER)
    assert await owners.who(store, Platform.TELEGRAM, "43") is None


async def test_of_many_concurrent_senders_of_a_code_one_is_linked(
    store: Store, open_store: OpenStore
):
    openings = [store, await open_store()]
    code = await pairings.begin(store, "me")
    senders = [Sender(platform=Platform.TELEGRAM, user_id=f"{n}") for n in range(6)]
    outcomes = await asyncio.gather(
        *(pairings.redeem(openings[n % 2], code, sender) for n, sender in enumerate(senders)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, Owner) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, PairingRefused) for outcome in outcomes) == 5
    assert len(await owners.identities(store, "me")) == 1


async def test_case_and_separators_of_a_code_do_not_matter(store: Store):
    for n, spell in enumerate((str.lower, normal, lambda code: f" {' '.join(code)}\n")):
        code = await pairings.begin(store, "me")
        sender = Sender(platform=Platform.SLACK, user_id=f"{n}")
        assert await pairings.redeem(store, spell(code), sender)


async def test_an_expired_code_links_no_account(store: Store, clock: FakeClock):
    code, late = await pairings.begin(store, "me"), await pairings.begin(store, "me", seconds=5)
    clock.advance(5)
    assert await refused(store, late)
    clock.advance(CODE_SECONDS - 5.001)
    assert await pairings.open_codes(store) == 1
    clock.advance(0.001)
    assert await pairings.open_codes(store) == 0
    assert await refused(store, code)
    assert await owners.identities(store, "me") == ()


@pytest.mark.parametrize("text", ["", "hello", "2345-CDFG", ODD, "' OR 1=1 --", "2345-CDFG" * 99])
async def test_a_wrong_code_links_no_account_and_leaves_the_right_one(store: Store, text: str):
    code = await pairings.begin(store, "me")
    assert await refused(store, text)
    assert await owners.identities(store, "me") == ()
    assert await pairings.redeem(store, code, SENDER)


async def test_only_a_digest_of_a_code_is_stored(store: Store):
    code = await pairings.begin(store, "me")
    digest = hashlib.sha256(normal(code).encode()).hexdigest()
    assert await store.write(digests) == [digest]


async def test_the_oldest_codes_of_an_owner_are_void_when_there_are_too_many(
    store: Store, open_store: OpenStore
):
    await owners.ensure(store, "you")
    theirs = await pairings.begin(store, "you")
    codes = [await pairings.begin(store, "me") for _ in range(MAX_OPEN + 2)]
    assert await pairings.open_codes(store) == MAX_OPEN + 1
    for code in codes[:2]:
        assert await refused(store, code)
    for n, code in enumerate(codes[2:]):
        await pairings.redeem(store, code, Sender(platform=Platform.SLACK, user_id=f"{n}"))
    assert (await pairings.redeem(store, theirs, SENDER)).id == "you"
    openings = [store, await open_store()]
    await asyncio.gather(*(pairings.begin(o, "me") for o in openings for _ in range(MAX_OPEN)))
    assert await pairings.open_codes(store) == MAX_OPEN


async def test_expired_codes_are_deleted(store: Store, clock: FakeClock):
    await owners.ensure(store, "you")
    for owner in ("me", "you"):
        await pairings.begin(store, owner)
    clock.advance(CODE_SECONDS)
    await pairings.begin(store, "me")
    assert len(await store.write(digests)) == 1


async def test_a_user_of_another_owner_is_not_relinked_and_the_code_stays_valid(store: Store):
    await owners.ensure(store, "you")
    await owners.link(store, SENDER, "you")
    code = await pairings.begin(store, "me")
    with pytest.raises(IdentityTaken):
        await pairings.redeem(store, code, SENDER)
    assert await owners.who(store, Platform.TELEGRAM, "42") == Owner(id="you", name="")
    assert (await pairings.redeem(store, code, OTHER)).id == "me"


async def test_a_user_with_an_invalid_id_is_not_linked_and_the_code_stays_valid(store: Store):
    code = await pairings.begin(store, "me")
    assert await refused(store, code, Sender(platform=Platform.TELEGRAM, user_id=ODD))
    assert await pairings.redeem(store, code, SENDER)


async def test_an_unknown_owner_gets_no_code(store: Store):
    with pytest.raises(OwnerNotFound):
        await pairings.begin(store, "nobody")
    assert await pairings.open_codes(store) == 0


async def test_no_two_codes_are_the_same(store: Store):
    codes = [await pairings.begin(store, "me") for _ in range(20)]
    assert len(set(codes)) == 20


@on_sqlite
async def test_a_restart_of_the_machine_expires_all_codes(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    code = await pairings.begin(store, "me")
    clock.restart()
    assert await refused(await open_store(), code)


def digests(tx: Tx) -> list[str]:
    return [row[0] for row in tx.rows("SELECT digest FROM pairings")]
