"""`segue setup telegram`: from a token to the first message in a new thread."""

from __future__ import annotations

import asyncio
import contextlib
import re
import stat
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

import segue.store
from segue.core.address import Platform
from segue.core.session import ME
from segue.store import gateways, owners
from tests.fakes.telegram import TOKEN, Driver, Kind, Peer, Settings, Shown, Trouble
from tests.fakes.telegram.server import serving
from tests.harness.gateways import alive, none_left, piped, segue_says
from tests.harness.pty import Terminal
from tests.harness.terminal import Person

WRONG = "123456789:AAwrongwrongwrongwrongwrongwrongwro"


@contextlib.asynccontextmanager
async def telegram(person: Person, *, topics: bool = True) -> AsyncGenerator[tuple[Peer, Driver]]:
    home = Path(person.environment["HOME"])
    person.environment.update(
        SEGUE_CONFIG=str(home / "config.toml"), SEGUE_GATEWAY_LOG=str(home / "gateway.log")
    )
    async with serving(Settings(topics=topics)) as peer, peer.driver() as driver, none_left(person):
        yield peer, driver
        assert await driver.errors() == ()


def kept(person: Person) -> str:
    """The settings file, which must be private, or an empty string."""
    path = Path(person.environment["SEGUE_CONFIG"])
    if not path.exists():
        return ""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return path.read_text()


def keep(person: Person, settings: str) -> None:
    Path(person.environment["SEGUE_CONFIG"]).write_text(settings)


def code_of(text: str) -> str:
    (code,) = re.findall(r"\?start=(\S+)", text)
    return code


async def arrived(driver: Driver, chat: int) -> Shown:
    return await driver.until(
        lambda shown: any("It works." in text for text in shown.texts), chat=chat
    )


async def pair(shown: Terminal, driver: Driver) -> int:
    """Follow the instructions of the terminal on the phone, and return the chat."""
    await shown.shows("press Start:", 40)
    await shown.shows("To use a group, send the code there")
    anna = await driver.user("Anna")
    chat = await driver.private(anna)
    await driver.say(anna, chat, f"/start {code_of(shown.text)}")
    return chat


async def test_setup_leads_a_new_user_to_a_message_in_a_new_topic(person: Person):
    async with telegram(person) as (peer, driver):
        async with person.opens("setup", "telegram", "--url", peer.url, lines=60) as shown:
            await shown.shows("@BotFather and send /newbot")
            await shown.see("Bot token (not shown):")
            shown.say(peer.token)
            await shown.shows("The token is good: the bot is @segue_test_bot.")
            chat = await pair(shown, driver)
            await shown.shows("You are paired.", 20)
            await shown.shows("Direct messages with the bot can have topics.")
            await shown.shows("Done. To hand off a conversation, type /handoff telegram", 20)
            assert await shown.end() == 0
            assert peer.token not in shown.text
        seen = await arrived(driver, chat)
        (topic,) = seen.threads
        assert topic.title == "Segue is set up"
        (message,) = [m for m in seen.messages if "It works." in m.text]
        assert message.thread == topic.id
        assert peer.token in kept(person)
        assert "telegram" in segue_says(person, "gateway", "status").stdout


async def test_flags_answer_every_question(person: Person):
    async with telegram(person) as (peer, driver):
        anna = await driver.user("Anna")
        chat = await driver.chat(Kind.FORUM, [anna], title="Home", admin=True, manage_topics=True)
        words = ["--url", peer.url, "--token", TOKEN, "--owner", str(anna), "--home", str(chat)]
        output = await asyncio.to_thread(segue_says, person, "setup", "telegram", *words)
        assert output.returncode == 0, output.stderr
        assert "The bot may manage topics there." in output.stdout
        assert (await arrived(driver, chat)).threads
        async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
            (home,) = [h for h in await owners.homes(store, ME) if h.platform == "telegram"]
        assert (home.address.chat_id, home.name) == (str(chat), "Home")


async def test_a_wrong_token_changes_nothing_and_says_where_to_get_one(person: Person):
    async with telegram(person) as (peer, _):
        words = ["--url", peer.url, "--token", WRONG]
        output = await asyncio.to_thread(segue_says, person, "setup", "telegram", *words)
        assert output.returncode == 1
        assert "Telegram does not accept the token." in output.stdout
        assert "@BotFather" in output.stdout
        assert "Nothing was changed." in output.stderr
        assert WRONG not in output.stdout + output.stderr
        assert kept(person) == ""


async def test_what_cannot_be_a_token_is_refused_before_the_network(person: Person):
    words = ["--url", "http://127.0.0.1:9", "--token", "nonsense"]
    output = await asyncio.to_thread(segue_says, person, "setup", "telegram", *words)
    assert output.returncode == 1
    assert "Telegram does not accept the token." in output.stdout
    assert "cannot be asked" not in output.stdout
    assert "Nothing was changed." in output.stderr


async def test_a_token_that_is_no_longer_valid_is_asked_for_again(person: Person):
    async with telegram(person) as (peer, driver):
        anna = await driver.user("Anna")
        await driver.private(anna)
        keep(person, f'[platforms.telegram]\ntoken = "{WRONG}"\nurl = "{peer.url}"\n')
        words = ["setup", "telegram", "--owner", str(anna)]
        async with person.opens(*words, lines=60) as shown:
            await shown.shows("Telegram does not accept the token.")
            await shown.see("Bot token (not shown):")
            shown.say(peer.token)
            await shown.shows("Done. To hand off a conversation", 40)
            assert await shown.end() == 0
        assert peer.token in kept(person)


async def test_a_wrong_token_is_asked_for_again_until_it_is_right(person: Person):
    async with telegram(person) as (peer, _):
        words = ["setup", "telegram", "--no-wait", "--url", peer.url]
        async with person.opens(*words, lines=80) as shown:
            await shown.see("Bot token (not shown):")
            for times in (1, 2):
                shown.say(WRONG)
                await shown.until(
                    lambda times=times: shown.text.count("Ctrl-C to leave") == times, "another try"
                )
                await shown.until(
                    lambda times=times: shown.text.count("(not shown)") == times + 1, "the question"
                )
            shown.say(peer.token)
            await shown.shows("The token is good")
            assert shown.text.count("@BotFather and send /newbot") == 1
            await shown.end()
        assert peer.token in kept(person)


async def test_one_ctrl_c_ends_a_question_and_changes_nothing(person: Person):
    async with telegram(person) as (peer, _):
        async with person.opens("setup", "telegram", "--url", peer.url, lines=80) as shown:
            await shown.see("Bot token (not shown):")
            shown.press("c-c")
            assert await shown.end() == 130
            assert "Aborted!" in shown.text
            assert "Traceback" not in shown.text
        assert await alive(person) == ()


async def test_without_a_terminal_the_missing_flag_is_named(person: Person):
    async with telegram(person):
        output = await asyncio.to_thread(segue_says, person, "setup", "telegram")
        assert output.returncode == 1
        assert "Add --token" in output.stderr


async def test_a_variable_that_overrides_the_token_is_named(person: Person):
    async with telegram(person) as (peer, _):
        person.environment["SEGUE_TELEGRAM_TOKEN"] = WRONG
        words = ["--url", peer.url, "--token", TOKEN]
        output = await asyncio.to_thread(segue_says, person, "setup", "telegram", *words)
        assert output.returncode == 1
        assert "SEGUE_TELEGRAM_TOKEN holds another value" in output.stderr
        assert WRONG not in output.stdout + output.stderr


async def test_a_missing_right_is_named_with_the_place_to_enable_it(person: Person):
    async with telegram(person, topics=False) as (peer, driver):
        words = ["setup", "telegram", "--url", peer.url, "--token", TOKEN, "--yes"]
        with piped(person, *words) as command:
            output = ""
            while "To use a group" not in output:
                output += await command.line(command.stdout)
            anna = await driver.user("Anna")
            chat = await driver.private(anna)
            await driver.say(anna, chat, f"/start {code_of(output)}")
            code, rest, errors = await command.ends()
        assert code == 0, errors
        assert "turn Threaded Mode on" in " ".join(output.split())
        assert "Done." in rest
        assert (await arrived(driver, chat)).threads == ()


async def test_a_chat_without_the_bot_cannot_be_the_home_channel(person: Person):
    async with telegram(person) as (peer, _):
        words = ["--url", peer.url, "--token", TOKEN, "--owner", "7", "--home", "-100777"]
        output = await asyncio.to_thread(segue_says, person, "setup", "telegram", *words)
        assert output.returncode == 1
        assert "the bot is not in a chat with the id -100777" in output.stderr
        async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
            assert await owners.identities(store, ME) == ()


@pytest.mark.parametrize(
    ("platform", "name"),
    [
        ("telegram", "@anna"),
        ("discord", "anna#1234"),
        ("slack", "@anna"),
        ("matrix", "anna"),
        ("whatsapp", "+491510000000001"),
        ("signal", "+4915100000001"),
    ],
)
def test_a_name_is_not_taken_for_the_id_of_the_owner(person: Person, platform: str, name: str):
    output = segue_says(person, "setup", platform, "--owner", name)
    assert output.returncode == 2
    assert f"'{name}' is not a user id: it looks like" in " ".join(output.stderr.split())


@pytest.mark.parametrize("trouble", [Trouble.FORBIDDEN, Trouble.DROP_BEFORE])
async def test_a_first_message_that_does_not_arrive_is_reported(person: Person, trouble: Trouble):
    async with telegram(person) as (peer, driver):
        anna = await driver.user("Anna")
        await driver.private(anna)
        await driver.fail("sendMessage", trouble)
        words = ["--url", peer.url, "--token", TOKEN, "--owner", str(anna)]
        output = await asyncio.to_thread(segue_says, person, "setup", "telegram", *words)
        assert output.returncode == 1
        assert "telegram is not set up yet" in output.stderr


# Later runs


async def test_a_second_run_only_checks_the_platform_and_so_does_doctor(person: Person):
    async with telegram(person, topics=False) as (peer, driver):
        anna = await driver.user("Anna")
        await driver.private(anna)
        words = ["--url", peer.url, "--token", TOKEN, "--owner", str(anna)]
        done = await asyncio.to_thread(segue_says, person, "setup", "telegram", *words)
        assert done.returncode == 0, done.stderr
        again = await asyncio.to_thread(segue_says, person, "setup", "telegram", "--yes")
        assert again.returncode == 0, again.stderr
        assert "Saved" not in again.stdout
        assert "gateway" not in again.stdout
        output = await asyncio.to_thread(segue_says, person, "doctor")
        assert "The token is good" in output.stdout
        assert re.search(r"warning +telegram +Direct messages .* Threaded Mode", output.stdout)
        person.environment["SEGUE_TELEGRAM_TOKEN"] = WRONG
        output = await asyncio.to_thread(segue_says, person, "doctor")
        assert output.returncode == 1
        assert re.search(r"problem +telegram +Telegram does not accept the token", output.stdout)
        assert WRONG not in output.stdout


async def test_a_running_gateway_serves_the_platform_without_a_restart(person: Person):
    async with telegram(person, topics=False) as (peer, driver):
        anna = await driver.user("Anna")
        await driver.private(anna)
        assert (await asyncio.to_thread(segue_says, person, "gateway", "start")).returncode == 0
        async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
            (before,) = await gateways.alive(store)
            words = ["--url", peer.url, "--token", TOKEN, "--owner", str(anna)]
            output = await asyncio.to_thread(segue_says, person, "setup", "telegram", *words)
            assert output.returncode == 0, output.stderr
            (gateway,) = await gateways.alive(store)
        assert gateway.process == before.process
        assert Platform.TELEGRAM in gateway.platforms - before.platforms


async def test_a_running_gateway_uses_the_new_token(person: Person):
    async with telegram(person, topics=False) as (peer, driver):
        anna = await driver.user("Anna")
        await driver.private(anna)
        keep(
            person, f'[platforms.telegram]\nenabled = true\ntoken = "{WRONG}"\nurl = "{peer.url}"\n'
        )
        await asyncio.to_thread(segue_says, person, "gateway", "start")
        words = ["--token", TOKEN, "--owner", str(anna)]
        output = await asyncio.to_thread(segue_says, person, "setup", "telegram", *words)
        assert output.returncode == 0, output.stdout + output.stderr
