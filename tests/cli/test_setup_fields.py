"""`segue setup`, `segue config` and `segue doctor` for platforms with several values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from segue.platforms import registry
from tests import program
from tests.cli.test_completion import offered
from tests.config.test_writing import RECORD
from tests.harness.gateways import none_left, segue_says
from tests.harness.pty import CODE
from tests.harness.terminal import Person
from tests.platforms.specs import REGISTERED, SPECS, WRONG
from tests.program import constants


@pytest.fixture
def user(person: Person) -> Person:
    """A user of a version that has Slack, Matrix and WhatsApp."""
    home = Path(person.environment["HOME"])
    person.environment.update(
        constants(REGISTERED),
        SEGUE_CONFIG=str(home / "config.toml"),
        SEGUE_GATEWAY_LOG=str(home / "gateway.log"),
    )
    return person


def settings(user: Person) -> str:
    path = Path(user.environment["SEGUE_CONFIG"])
    return path.read_text() if path.exists() else ""


def write(user: Person, text: str) -> None:
    path = Path(user.environment["SEGUE_CONFIG"])
    path.write_text(text)
    path.chmod(0o600)


# Setup


async def test_each_missing_value_is_asked_for_and_secrets_stay_hidden(user: Person):
    async with none_left(user):
        async with user.opens("setup", "slack", "--no-wait", lines=60) as shown:
            await shown.shows("2. Copy both tokens.")
            await shown.see("Bot token (not shown):")
            shown.say("xoxb-secret")
            await shown.see("App token (not shown):")
            shown.say("xapp-secret")
            await shown.shows("The values are good.")
            await shown.shows("Saved platforms.slack.app_token")
            await shown.shows("send the code there, then /sethome", 40)
            assert await shown.end() == 1, "the pairing is left to do"
            assert "-secret" not in shown.text
        assert settings(user) == (
            '[platforms.slack]\nbot_token = "xoxb-secret"\napp_token = "xapp-secret"\n' + RECORD
        )


async def test_values_that_are_not_secret_are_echoed_and_an_invalid_url_is_asked_for_again(
    user: Person,
):
    async with none_left(user), user.opens("setup", "matrix", "--no-wait", lines=60) as shown:
        await shown.see("Homeserver URL:")
        shown.say("matrix.example.com")
        await shown.shows("URL: expected http://… or https://…")
        shown.say("https://matrix.example.com/")
        await shown.see("User id of the bot:")
        shown.say("@bot:example.com")
        await shown.see("Access token (not shown):")
        shown.say("syt-secret")
        await shown.shows("Saved platforms.matrix.access_token")
        assert "@bot:example.com" in shown.text
        assert "Device id" not in shown.text, "it is not required"
        assert 'url = "https://matrix.example.com"' in settings(user)


async def test_stored_values_that_are_wrong_are_asked_for_again(user: Person):
    write(
        user,
        '[platforms.matrix]\nurl = "http://127.0.0.1:9"\nuser_id = "@bot:h"\n'
        f'access_token = "{WRONG}"\n',
    )
    words = ["setup", "matrix", "--no-wait", "--user-id", "@other:h"]
    async with none_left(user), user.opens(*words, lines=60) as shown:
        await shown.shows("The values are wrong.")
        await shown.see("Homeserver URL [http://127.0.0.1:9]:")
        shown.say("")
        await shown.see("Access token (not shown):")
        shown.say("right")
        await shown.shows("The values are good.")
        await shown.shows("Saved platforms.matrix.access_token")
        assert "User id of the bot" not in shown.text, "a flag has given it"
        assert 'user_id = "@other:h"' in settings(user)


async def test_every_value_has_a_flag_and_secrets_can_come_from_standard_input(user: Person):
    async with none_left(user):
        words = ["--bot-token", "-", "--app-token", "-", "--no-wait"]
        done = program.run(
            *("setup", "slack", *words),
            environment={**CODE, **user.environment},
            cwd=user.cwd,
            given=b"xoxb-1\nxapp-1\n",
        )
        assert "The values are good." in done.stdout, done.stderr
        assert 'bot_token = "xoxb-1"\napp_token = "xapp-1"' in settings(user)


def test_without_a_terminal_every_missing_flag_is_named(user: Person):
    output = segue_says(user, "setup", "whatsapp", "--access-token", "x")
    assert output.returncode == 1
    assert "whatsapp needs Phone number id, App secret, Verify token," in output.stderr
    assert "Add --phone-number-id, --app-secret, --verify-token;" in output.stderr
    assert settings(user) == ""


def test_a_flag_with_an_invalid_url_is_refused(user: Person):
    output = segue_says(user, "setup", "matrix", "--url", "matrix.example.com")
    assert output.returncode == 2
    assert "Invalid value for '--url': URL: expected http://… or https://…" in output.stderr


def test_a_variable_that_overrides_a_value_is_named(user: Person):
    user.environment["SEGUE_SLACK_APP_TOKEN"] = "xapp-other"
    output = segue_says(user, "setup", "slack", "--bot-token", "a", "--app-token", "b")
    assert output.returncode == 1
    assert "SEGUE_SLACK_APP_TOKEN holds another value" in output.stderr


def test_the_help_of_a_platform_lists_its_flags(user: Person):
    output = segue_says(user, "setup", "matrix", "--help").stdout
    assert re.findall(r"^  (--[a-z-]+)", output, re.MULTILINE) == [
        *("--url", "--user-id", "--access-token", "--device-id"),
        *("--owner", "--home", "--yes", "--no-wait", "--help"),
    ]
    assert re.search(
        r"--access-token SECRET +Access token; - reads it from standard input\.", output
    )


def test_only_built_in_platforms_can_be_set_up(user: Person):
    output = segue_says(user, "setup", "irc")
    assert output.returncode == 2
    assert "irc" in output.stderr
    assert "The web page needs no setup." in segue_says(user, "setup", "web").stderr


# Settings


async def test_a_secret_is_set_without_being_shown_and_other_values_are(user: Person):
    async with user.opens("config", "set", "platforms.whatsapp.app_secret") as shown:
        await shown.see("platforms.whatsapp.app_secret:")
        shown.say("very-secret")
        assert await shown.end() == 0
        assert "very-secret" not in shown.text
    segue_says(user, "config", "set", "platforms.whatsapp.phone_number_id", "4711")
    output = segue_says(user, "config", "show").stdout.splitlines()
    assert "platforms.whatsapp.app_secret\t(hidden)\tfile" in output
    assert "platforms.whatsapp.phone_number_id\t4711\tfile" in output


def test_platforms_flags_and_settings_are_completed(user: Person, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "SPECS", SPECS)
    built_in = ["telegram", "discord", "slack", "matrix", "whatsapp"]
    assert offered(user.environment, "segue setup ") == built_in
    assert offered(user.environment, "segue setup slack --b") == ["--bot-token"]
    settings = offered(user.environment, "segue config set platforms.matrix.")
    assert [name.removeprefix("platforms.matrix.") for name in settings] == [
        *("enabled", "adapter", "groups", "url", "user_id", "access_token", "device_id")
    ]


# Doctor


def test_the_doctor_names_the_values_that_are_missing(user: Person):
    write(user, '[platforms.slack]\nbot_token = "xoxb"\n')
    output = segue_says(user, "doctor").stdout
    assert re.search(
        r"problem +slack +slack has no value for platforms\.slack\.app_token\.", output
    )
    user.environment["SEGUE_SLACK_APP_TOKEN"] = "xapp"
    assert re.search(r"ok +slack +The values are good\.", segue_says(user, "doctor").stdout)
