"""Owners, their platform users, and their home channels."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from segue.core.address import HomeChannel, Platform, Sender
from segue.core.errors import IdentityTaken, OwnerNotFound
from segue.core.session import Owner
from segue.store import Store, owners
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import CHANNEL, DM, ODD, TOPIC

SENDER = Sender(platform=Platform.TELEGRAM, user_id="42", name="Me on Telegram")


async def test_an_owner_is_created_once_and_keeps_the_first_name(
    store: Store, open_store: OpenStore
):
    assert await owners.ensure(store, "you", "You") == Owner(id="you", name="You")
    other = await open_store()
    assert await owners.ensure(other, "you", "Somebody") == Owner(id="you", name="You")
    assert await owners.get(other, "you") == Owner(id="you", name="You")
    assert await owners.get(other, "nobody") is None


async def test_an_owner_created_concurrently_is_one_owner(store: Store, open_store: OpenStore):
    openings = [store, await open_store()]
    await asyncio.gather(*(owners.ensure(o, "you") for o in openings for _ in range(5)))
    assert [owner.id for owner in await owners.all_owners(store)] == ["me", "you"]


async def test_owners_are_listed_in_order_of_creation(store: Store, clock: FakeClock):
    for owner in ("zoe", "adam"):
        clock.advance(1)
        await owners.ensure(store, owner)
    assert [owner.id for owner in await owners.all_owners(store)] == ["me", "zoe", "adam"]


async def test_an_owner_is_introduced_exactly_once(store: Store, open_store: OpenStore):
    await owners.ensure(store, "you")
    openings = [store, await open_store()]
    said = await asyncio.gather(*(owners.introduced(o, "me") for o in openings for _ in range(3)))
    assert sorted(said) == [False, *[True] * 5]
    assert not await owners.introduced(store, "you")
    assert await owners.introduced(store, "you")
    with pytest.raises(OwnerNotFound):
        await owners.introduced(store, "nobody")


async def test_a_linked_user_belongs_to_the_owner_and_other_users_to_none(
    store: Store, clock: FakeClock
):
    await owners.link(store, SENDER, "me")
    who = partial(owners.who, store)
    assert await who(Platform.TELEGRAM, "42") == Owner(id="me", name="Me")
    assert await who(Platform.TELEGRAM, "43") is None
    assert await who(Platform.TELEGRAM, "4") is None
    assert await who(Platform.DISCORD, "42") is None
    (identity,) = await owners.identities(store, "me")
    assert (identity.sender, identity.owner, identity.linked) == (SENDER, "me", clock.now())


async def test_a_user_with_an_invalid_id_does_not_match_a_similar_id(store: Store):
    for user_id in ("\ufffd", "?", "a\ufffdb\ufffdc"):
        await owners.link(store, Sender(platform=Platform.TELEGRAM, user_id=user_id), "me")
    for user_id in (ODD, "\0", "\ud800", "", "'; --"):
        assert await owners.who(store, Platform.TELEGRAM, user_id) is None, user_id


async def test_a_user_cannot_belong_to_two_owners(store: Store, open_store: OpenStore):
    await owners.ensure(store, "you")
    await owners.link(store, SENDER, "me")
    with pytest.raises(IdentityTaken, match="telegram user 42"):
        await owners.link(await open_store(), SENDER, "you")
    assert await owners.who(store, Platform.TELEGRAM, "42") == Owner(id="me", name="Me")


async def test_linking_again_changes_only_the_users_name(store: Store, clock: FakeClock):
    await owners.link(store, SENDER, "me")
    linked = clock.now()
    clock.advance(1)
    renamed = Sender(platform=Platform.TELEGRAM, user_id="42", name="New name")
    await owners.link(store, renamed, "me")
    (identity,) = await owners.identities(store, "me")
    assert (identity.sender, identity.linked) == (renamed, linked)


async def test_an_owner_can_have_many_users(store: Store, clock: FakeClock):
    for platform in (Platform.SLACK, Platform.DISCORD):
        await owners.link(store, Sender(platform=platform, user_id="7"), "me")
        clock.advance(1)
    linked = [i.sender.platform for i in await owners.identities(store, "me")]
    assert linked == [Platform.SLACK, Platform.DISCORD]


async def test_an_unlinked_user_can_be_linked_to_another_owner(store: Store):
    await owners.ensure(store, "you")
    await owners.link(store, SENDER, "me")
    assert await owners.unlink(store, Platform.TELEGRAM, "42")
    assert not await owners.unlink(store, Platform.TELEGRAM, "42")
    assert await owners.who(store, Platform.TELEGRAM, "42") is None
    await owners.link(store, SENDER, "you")
    assert await owners.identities(store, "me") == ()


async def test_a_user_cannot_be_linked_to_an_owner_who_does_not_exist(store: Store):
    with pytest.raises(OwnerNotFound):
        await owners.link(store, SENDER, "nobody")
    with pytest.raises(OwnerNotFound):
        await owners.set_home(store, "nobody", HomeChannel(address=DM))
    assert await owners.who(store, Platform.TELEGRAM, "42") is None


async def test_an_owner_has_one_home_channel_per_platform_the_last_one_set(store: Store):
    await owners.set_home(store, "me", HomeChannel(address=DM, name="first"))
    await owners.set_home(store, "me", HomeChannel(address=CHANNEL, name="work"))
    await owners.set_home(store, "me", HomeChannel(address=TOPIC, name="second"))
    assert await owners.homes(store, "me") == (
        HomeChannel(address=CHANNEL, name="work"),
        HomeChannel(address=TOPIC, name="second"),
    )


async def test_a_home_channel_belongs_to_one_owner(store: Store):
    await owners.ensure(store, "you")
    await owners.set_home(store, "me", HomeChannel(address=DM))
    assert await owners.homes(store, "you") == ()
    assert not await owners.clear_home(store, "you", Platform.TELEGRAM)
    assert await owners.clear_home(store, "me", Platform.TELEGRAM)
    assert not await owners.clear_home(store, "me", Platform.TELEGRAM)
    assert await owners.homes(store, "me") == ()


async def test_unstorable_characters_in_names_are_replaced(store: Store):
    assert (await owners.ensure(store, "you", ODD)).name == "a\ufffdb\ufffdc"
    await owners.link(store, Sender(platform=Platform.SLACK, user_id="1", name=ODD), "me")
    await owners.set_home(store, "me", HomeChannel(address=DM, name=ODD))
    (identity,) = await owners.identities(store, "me")
    (home,) = await owners.homes(store, "me")
    assert identity.sender.name == home.name == "a\ufffdb\ufffdc"
