"""A one-time code or link links only the user who has it, only to the owner who was shown it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.core.address import Platform, Sender
from segue.core.errors import IdentityTaken, OwnerNotFound, PairingRefused
from segue.core.session import Owner
from segue.store import Store, Tx, owners, pairings
from segue.store.pairings import (
    ALPHABET,
    CODE_SECONDS,
    LENGTH,
    MAX_OPEN,
    ProofExchange,
    looks_like_code,
    new_code,
    normal,
)
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


entropy = st.binary(min_size=16, max_size=32)


@given(entropy)
def test_a_code_has_two_groups_of_four_and_is_recognised(random: bytes):
    code = new_code(random)
    assert re.fullmatch(f"[{ALPHABET}]{{4}}-[{ALPHABET}]{{4}}", code)
    assert looks_like_code(code)


def test_every_letter_of_a_code_is_random():
    codes = [new_code(hashlib.sha256(str(n).encode()).digest()) for n in range(1000)]
    for place in (0, 1, 2, 3, 5, 6, 7, 8):
        assert {code[place] for code in codes} == set(ALPHABET), place
    assert len(set(codes)) == len(codes)


def test_too_few_random_bytes_are_refused():
    with pytest.raises(ValueError, match="sixteen"):
        new_code(b"x" * 15)


def test_the_alphabet_of_codes_has_no_similar_letters_and_no_vowels():
    assert len(set(ALPHABET)) == len(ALPHABET)
    for lookalikes in ("0OD", "1IL", "2Z", "5S", "8B", "UV"):
        assert len(set(lookalikes) & set(ALPHABET)) <= 1, lookalikes
    assert not set(ALPHABET) & set("AEIOUY")


@pytest.mark.parametrize(
    "typed",
    ["2345-CDFG", "2345cdfg", " 2345 cdfg\n", "23-45-CD-FG", "2345–cdfg", "2345\u00a0—\u2011CDFG"],
)
def test_case_spaces_and_dashes_of_a_code_do_not_matter(typed: str):
    assert normal(typed) == normal("2345-CDFG") == "2345CDFG"
    assert looks_like_code(typed)


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "hello",
        "2345-CDF",
        "2345-CDFG2",
        "2345-CDFA",
        "2345_CDFG",
        "\uff12\uff13\uff14\uff15CDFG",
        "/start 2345-CDFG",
        "2345-CDFG" + " " * 40,
        "ß" * 4,
    ],
)
def test_text_in_another_form_is_not_a_code(typed: str):
    assert not looks_like_code(typed)


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_is_a_code_or_not(text: str):
    if looks_like_code(text):
        assert len(normal(text)) == LENGTH
        assert set(normal(text)) <= set(ALPHABET)


SECRET = "0f" * 32
EXCHANGE = ProofExchange(
    origin="http://127.0.0.1:8790", browser_nonce="aa" * 32, server_nonce="bb" * 32
)


def expected(purpose: str) -> str:
    text = f"segue {purpose}\nhttp://127.0.0.1:8790\n{'aa' * 32}\n{'bb' * 32}"
    return hmac.digest(b"\x0f" * 32, text.encode(), hashlib.sha256).hex()


def test_each_side_signs_the_origin_and_both_nonces_for_its_own_purpose():
    assert EXCHANGE.server_proof(SECRET) == expected("server")
    assert EXCHANGE.browser_proof(SECRET) == expected("browser")
    browser, secret = EXCHANGE.new_browser(SECRET)
    assert browser == expected("browser id")[:16]
    assert secret == expected("browser secret")


def test_a_proof_is_valid_for_one_origin_one_pair_of_nonces_and_one_secret():
    others = [
        replace(EXCHANGE, origin="http://127.0.0.1:8791").browser_proof(SECRET),
        replace(EXCHANGE, browser_nonce="ab" * 32).browser_proof(SECRET),
        replace(EXCHANGE, server_nonce="ab" * 32).browser_proof(SECRET),
        EXCHANGE.browser_proof("0e" * 32),
        EXCHANGE.server_proof(SECRET),
        EXCHANGE.browser_proof(SECRET),
    ]
    assert len(set(others)) == len(others)


def test_the_id_of_a_link_does_not_reveal_its_secret():
    key, secret = pairings.link_keys("nvkrgBTiLnHp0HebhKDkyg")
    token = b"nvkrgBTiLnHp0HebhKDkyg"
    assert key == hmac.digest(token, b"segue link id", hashlib.sha256).hex()[:32]
    assert secret == hmac.digest(token, b"segue link secret", hashlib.sha256).hex()
