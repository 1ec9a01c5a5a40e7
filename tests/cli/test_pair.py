"""`segue pair`: codes, and the list of paired accounts."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncGenerator

import pytest
import segno

import segue.store
from segue.core.address import HomeChannel, Platform, Sender
from segue.core.session import ME
from segue.gateway.access import Gate
from segue.platforms.base import Inbound, InboundKind
from segue.store import Store, deliveries, gateways, owners, pairings
from segue.store.gateways import LinkState
from segue.store.pairings import looks_like_code
from segue.terminal import web_page
from tests.harness.gateways import segue_says
from tests.harness.pty import Terminal
from tests.harness.terminal import Person
from tests.store.samples import DM

ANNA = Sender(platform=Platform.TELEGRAM, user_id="42", name="Anna\x1b[2J")
LINK = "https://t.me/segue_bot?start={code}"


@contextlib.asynccontextmanager
async def opened(person: Person, *platforms: Platform) -> AsyncGenerator[Store]:
    """The store, with a gateway if there are `platforms`."""
    async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
        await owners.ensure(store, ME)
        if platforms:
            await gateways.announce(store, "gateway", platforms, seconds=600)
        yield store


def code_on(shown: Terminal) -> str:
    (code,) = re.findall(r"Your code: (\S+)", shown.text)
    assert looks_like_code(code)
    return code


# The code


async def test_a_code_is_shown_with_its_link_and_then_with_the_account_that_used_it(person: Person):
    async with opened(person, Platform.TELEGRAM, Platform.MATRIX) as store:
        await gateways.report(store, Platform.TELEGRAM, LinkState.CONNECTED, link=LINK)
        await gateways.report(
            store, Platform.MATRIX, LinkState.CONNECTED, account="@segue:example.org"
        )
        async with person.opens("pair", lines=60) as shown:
            await shown.see("Waiting until it is sent")
            code = code_on(shown)
            await shown.shows("within 10 minutes")
            await shown.shows(f"telegram: open {LINK.format(code=code)}")
            await shown.shows("matrix: send the code to the bot @segue:example.org")
            drawing = web_page.draw_qr(LINK.format(code=code), colours=False)
            seen = "\n".join(shown.screen)
            assert drawing[5].translate(_INVERTED).strip() in seen, "the code for a camera"
            assert await pairings.redeem(store, code.lower(), ANNA)
            await shown.shows("Paired with Anna[2J, telegram user 42.")
            await shown.shows("Send /sethome in the chat that should receive handoffs.")
            assert await shown.end() == 0
            assert b"\x1b[2J" not in shown.raw


async def test_a_code_in_a_chat_in_which_the_bot_cannot_write_is_reported(person: Person):
    async with (
        opened(person, Platform.TELEGRAM) as store,
        person.opens("pair", lines=60) as shown,
    ):
        await shown.see("Waiting until it is sent")
        code = code_on(shown)
        inbound = Inbound(
            kind=InboundKind.MESSAGE, update_id="1", address=DM, sender=ANNA, text=code
        )
        assert await Gate(store).pair("bot", inbound)
        [reply] = await deliveries.claim(store, [Platform.TELEGRAM])
        await shown.shows("Paired with Anna[2J, telegram user 42.")
        await deliveries.failed(store, reply, "the bot is blocked there")
        await shown.shows("I cannot write in the telegram chat where you sent the code, so it")
        await shown.shows("the bot is blocked there")
        assert await shown.end() == 0


_INVERTED = str.maketrans("█▀▄ ", " ▄▀█")


async def test_ctrl_c_ends_the_wait_and_the_code_stays_valid(person: Person):
    async with opened(person) as store:
        async with person.opens("pair") as shown:
            await shown.see("Waiting until it is sent")
            await shown.shows("No gateway is running, so the bot cannot receive it.")
            shown.press("c-c")
            await shown.see("The code stays valid until")
            assert await shown.end() == 130
            assert "Abort" not in shown.text
        owner = await pairings.redeem(store, code_on(shown), ANNA)
        assert owner.id == ME


async def test_it_does_not_wait_without_a_terminal_or_with_no_wait(person: Person):
    async with opened(person) as store:
        output = segue_says(person, "pair")
        assert output.returncode == 0
        assert "Waiting" not in output.stderr
        async with person.opens("pair", "--no-wait") as shown:
            assert await shown.end() == 0
            assert "Waiting" not in shown.text
        assert await pairings.open_codes(store) == 2


async def test_the_json_output_has_the_code_its_expiry_and_the_links(person: Person):
    async with opened(person, Platform.TELEGRAM, Platform.MATRIX) as store:
        await gateways.report(store, Platform.TELEGRAM, LinkState.CONNECTED, link=LINK)
        output = json.loads(segue_says(person, "pair", "--json").stdout)
        assert output["links"] == {"telegram": LINK.format(code=output["code"])}
        assert output["expires"].endswith("Z")
        assert (await pairings.redeem(store, output["code"], ANNA)).id == ME


@pytest.mark.parametrize("colours", [True, False])
def test_the_qr_code_is_drawn_with_two_rows_per_line(colours: bool):
    text = "https://t.me/segue_bot?start=ABCD-EFGH"
    lines = web_page.draw_qr(text, colours=colours)
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    assert {len(line) for line in plain} == {web_page.qr_width(lines)}
    halves = {" ": (0, 0), "▀": (1, 0), "▄": (0, 1), "█": (1, 1)}
    dark = 1 if colours else 0
    rows = [[halves[c][half] == dark for c in line] for line in plain for half in (0, 1)]
    code = [[bool(module) for module in row] for row in segno.make(text).matrix_iter(border=2)]
    assert rows[: len(code)] == code
    assert not any(map(any, rows[len(code) :]))


async def test_a_terminal_that_is_too_narrow_shows_no_qr_code(person: Person):
    async with opened(person, Platform.TELEGRAM) as store:
        await gateways.report(store, Platform.TELEGRAM, LinkState.CONNECTED, link=LINK)
        async with person.opens("pair", "--no-wait", columns=30) as shown:
            assert await shown.end() == 0
            assert "█" not in shown.text


# Paired accounts


async def test_paired_accounts_are_listed_and_revoked(person: Person):
    async with opened(person) as store:
        await owners.link(store, ANNA, ME)
        await owners.link(store, Sender(platform=Platform.MATRIX, user_id="@a:b"), ME)
        await owners.set_home(store, ME, HomeChannel(address=DM))
        assert segue_says(person, "pair", "list").stdout == (
            "telegram\t42\tAnna[2J\nmatrix\t@a:b\t\n"
        )
        listed = json.loads(segue_says(person, "pair", "list", "--json").stdout)
        assert [(one["platform"], one["user_id"]) for one in listed] == [
            ("telegram", "42"),
            ("matrix", "@a:b"),
        ]
        revoked = segue_says(person, "pair", "revoke", "telegram", "42", "--yes")
        assert revoked.returncode == 0, revoked.stderr
        assert "Anna[2J (telegram user 42) is no longer paired with you." in revoked.stdout
        assert "its home channel was removed" in revoked.stdout
        assert await owners.who(store, Platform.TELEGRAM, "42") is None
        assert await owners.homes(store, ME) == ()
        assert await owners.who(store, Platform.MATRIX, "@a:b") is not None


async def test_the_home_channel_stays_while_an_account_of_its_platform_is_paired(person: Person):
    async with opened(person) as store:
        await owners.link(store, ANNA, ME)
        await owners.link(store, Sender(platform=Platform.TELEGRAM, user_id="43"), ME)
        await owners.set_home(store, ME, HomeChannel(address=DM))
        output = segue_says(person, "pair", "revoke", "telegram", "42", "--yes", "--json")
        assert json.loads(output.stdout) == {
            "platform": "telegram",
            "user_id": "42",
            "home_forgotten": False,
        }
        assert len(await owners.homes(store, ME)) == 1


async def test_revoking_an_account_asks_for_confirmation(person: Person):
    async with opened(person) as store:
        await owners.link(store, ANNA, ME)
        for answer, gone in (("n", False), ("y", True)):
            async with person.opens("pair", "revoke", "telegram", "42") as shown:
                await shown.see("Unpair Anna[2J (telegram user 42)? [y/N]:")
                shown.say(answer)
                assert await shown.end() == int(not gone)
            assert (await owners.who(store, Platform.TELEGRAM, "42") is None) is gone


async def test_an_account_is_not_revoked_by_mistake(person: Person):
    async with opened(person) as store:
        await owners.ensure(store, "you")
        await owners.link(store, ANNA, "you")
        for words, code, output in (
            (["telegram", "42", "--yes"], 1, "telegram user '42' is not paired with you."),
            (["telegram", "43", "--yes"], 1, "telegram user '43' is not paired with you."),
            (["icq", "42", "--yes"], 2, "'icq' is not one of"),
        ):
            refused = segue_says(person, "pair", "revoke", *words)
            assert refused.returncode == code
            assert output in refused.stderr
        await owners.link(store, Sender(platform=Platform.MATRIX, user_id="@a:b"), ME)
        assert segue_says(person, "pair", "revoke", "matrix", "@a:b").returncode == 2
        assert await owners.who(store, Platform.TELEGRAM, "42") is not None
        assert await owners.who(store, Platform.MATRIX, "@a:b") is not None


async def test_no_account_is_paired_at_first(person: Person):
    assert segue_says(person, "pair", "list").stdout.strip() == ""
    assert json.loads(segue_says(person, "pair", "list", "--json").stdout) == []
    async with person.opens("pair", "list") as shown:
        assert await shown.end() == 0
        await shown.see("No account is paired with you yet.")
