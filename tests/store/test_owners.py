"""Owners, their platform users, and their home channels."""

from __future__ import annotations

import asyncio

import pytest

from segue.core.address import HomeChannel, Platform, Sender
from segue.core.errors import IdentityTaken, OwnerNotFound
from segue.core.session import Owner
from segue.store import Store
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import CHANNEL, DM, ODD, TOPIC

SENDER = Sender(platform=Platform.TELEGRAM, user_id="42", name="Me on Telegram")


async def test_an_owner_is_created_once_and_keeps_the_first_name(
    store: Store, open_store: OpenStore
):
    assert await store.owners.ensure("you", "You") == Owner(id="you", name="You")
    other = await open_store()
    assert await other.owners.ensure("you", "Somebody") == Owner(id="you", name="You")
    assert await other.owners.get("you") == Owner(id="you", name="You")
    assert await other.owners.get("nobody") is None


async def test_an_owner_created_concurrently_is_one_owner(store: Store, open_store: OpenStore):
    openings = [store, await open_store()]
    await asyncio.gather(*(o.owners.ensure("you") for o in openings for _ in range(5)))
    assert [owner.id for owner in await store.owners.all()] == ["me", "you"]


async def test_owners_are_listed_in_order_of_creation(store: Store, clock: FakeClock):
    for owner in ("zoe", "adam"):
        clock.advance(1)
        await store.owners.ensure(owner)
    assert [owner.id for owner in await store.owners.all()] == ["me", "zoe", "adam"]


async def test_an_owner_is_introduced_exactly_once(store: Store, open_store: OpenStore):
    await store.owners.ensure("you")
    openings = [store, await open_store()]
    said = await asyncio.gather(*(o.owners.introduced("me") for o in openings for _ in range(3)))
    assert sorted(said) == [False, *[True] * 5]
    assert not await store.owners.introduced("you")
    assert await store.owners.introduced("you")
    with pytest.raises(OwnerNotFound):
        await store.owners.introduced("nobody")


async def test_a_linked_user_belongs_to_the_owner_and_other_users_to_none(
    store: Store, clock: FakeClock
):
    await store.owners.link(SENDER, "me")
    who = store.owners.who
    assert await who(Platform.TELEGRAM, "42") == Owner(id="me", name="Me")
    assert await who(Platform.TELEGRAM, "43") is None
    assert await who(Platform.TELEGRAM, "4") is None
    assert await who(Platform.DISCORD, "42") is None
    (identity,) = await store.owners.identities("me")
    assert (identity.sender, identity.owner, identity.linked) == (SENDER, "me", clock.now())


async def test_a_user_with_an_invalid_id_does_not_match_a_similar_id(store: Store):
    for user_id in ("\ufffd", "?", "a\ufffdb\ufffdc"):
        await store.owners.link(Sender(platform=Platform.TELEGRAM, user_id=user_id), "me")
    for user_id in (ODD, "\0", "\ud800", "", "'; --"):
        assert await store.owners.who(Platform.TELEGRAM, user_id) is None, user_id


async def test_a_user_cannot_belong_to_two_owners(store: Store, open_store: OpenStore):
    await store.owners.ensure("you")
    await store.owners.link(SENDER, "me")
    with pytest.raises(IdentityTaken, match="telegram user 42"):
        await (await open_store()).owners.link(SENDER, "you")
    assert await store.owners.who(Platform.TELEGRAM, "42") == Owner(id="me", name="Me")


async def test_linking_again_changes_only_the_users_name(store: Store, clock: FakeClock):
    await store.owners.link(SENDER, "me")
    linked = clock.now()
    clock.advance(1)
    renamed = Sender(platform=Platform.TELEGRAM, user_id="42", name="New name")
    await store.owners.link(renamed, "me")
    (identity,) = await store.owners.identities("me")
    assert (identity.sender, identity.linked) == (renamed, linked)


async def test_an_owner_can_have_many_users(store: Store, clock: FakeClock):
    for platform in (Platform.SLACK, Platform.DISCORD):
        await store.owners.link(Sender(platform=platform, user_id="7"), "me")
        clock.advance(1)
    linked = [i.sender.platform for i in await store.owners.identities("me")]
    assert linked == [Platform.SLACK, Platform.DISCORD]


async def test_an_unlinked_user_can_be_linked_to_another_owner(store: Store):
    await store.owners.ensure("you")
    await store.owners.link(SENDER, "me")
    assert await store.owners.unlink(Platform.TELEGRAM, "42")
    assert not await store.owners.unlink(Platform.TELEGRAM, "42")
    assert await store.owners.who(Platform.TELEGRAM, "42") is None
    await store.owners.link(SENDER, "you")
    assert await store.owners.identities("me") == ()


async def test_a_user_cannot_be_linked_to_an_owner_who_does_not_exist(store: Store):
    with pytest.raises(OwnerNotFound):
        await store.owners.link(SENDER, "nobody")
    with pytest.raises(OwnerNotFound):
        await store.owners.set_home("nobody", HomeChannel(address=DM))
    assert await store.owners.who(Platform.TELEGRAM, "42") is None


async def test_an_owner_has_one_home_channel_per_platform_the_last_one_set(store: Store):
    await store.owners.set_home("me", HomeChannel(address=DM, name="first"))
    await store.owners.set_home("me", HomeChannel(address=CHANNEL, name="work"))
    await store.owners.set_home("me", HomeChannel(address=TOPIC, name="second"))
    assert await store.owners.homes("me") == (
        HomeChannel(address=CHANNEL, name="work"),
        HomeChannel(address=TOPIC, name="second"),
    )


async def test_a_home_channel_belongs_to_one_owner(store: Store):
    await store.owners.ensure("you")
    await store.owners.set_home("me", HomeChannel(address=DM))
    assert await store.owners.homes("you") == ()
    assert not await store.owners.clear_home("you", Platform.TELEGRAM)
    assert await store.owners.clear_home("me", Platform.TELEGRAM)
    assert not await store.owners.clear_home("me", Platform.TELEGRAM)
    assert await store.owners.homes("me") == ()


async def test_unstorable_characters_in_names_are_replaced(store: Store):
    assert (await store.owners.ensure("you", ODD)).name == "a\ufffdb\ufffdc"
    await store.owners.link(Sender(platform=Platform.SLACK, user_id="1", name=ODD), "me")
    await store.owners.set_home("me", HomeChannel(address=DM, name=ODD))
    (identity,) = await store.owners.identities("me")
    (home,) = await store.owners.homes("me")
    assert identity.sender.name == home.name == "a\ufffdb\ufffdc"
