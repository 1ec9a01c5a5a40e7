"""Printed text from any source can neither control the terminal nor hide anything."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from segue.cli import setup, single_turn
from segue.cli.main import main
from segue.core.address import Platform
from segue.core.events import TextDelta
from segue.core.secret import HIDDEN, Secret
from segue.platforms.telegram.spec import TELEGRAM
from segue.store.gateways import GatewayRecord, LinkState, PlatformHealth
from segue.terminal import output
from tests.cli.test_sessions import NOW, sample

HOSTILE = "bot\x1b[2J\x1b]0;owned\x07\x9b31m\u202eevil\r"
KEY = "sk-a-key-that-nobody-may-see"


def test_printed_text_is_cleaned(capsys: pytest.CaptureFixture[str]):
    Secret(KEY, "a test")
    output.say(f"one\t{HOSTILE} {KEY}")
    output.print_lines([HOSTILE])
    output.notice(HOSTILE)
    shown = capsys.readouterr()
    for text in shown:
        assert not set(text) & set("\x1b\x07\x9b\u202e\r")
        assert "bot" in text
    assert shown.out.startswith("one\tbot")
    assert HIDDEN in shown.out


@pytest.mark.parametrize(
    "words", [["sessions", "import", HOSTILE], [HOSTILE], ["--color", HOSTILE], ["model", HOSTILE]]
)
def test_an_error_has_no_control_characters(words: list[str]):
    result = CliRunner().invoke(main, words, color=True)
    assert result.exit_code != 0
    assert not set(result.output) & set("\x1b\x07\x9b\u202e\r")


def test_json_has_no_control_characters(capsys: pytest.CaptureFixture[str]):
    output.print_json({"said": HOSTILE})
    single_turn._JsonOutput(sample(None)).show(TextDelta(HOSTILE))
    lines = capsys.readouterr().out.splitlines()
    assert all(line.isprintable() for line in lines)
    assert [json.loads(line).get("said") or json.loads(line).get("text") for line in lines] == [
        HOSTILE,
        None,
        HOSTILE,
    ]


def test_the_name_of_a_bot_is_cleaned_during_setup(capsys: pytest.CaptureFixture[str]):
    health = PlatformHealth(
        platform=Platform.TELEGRAM,
        state=LinkState.CONNECTED,
        detail="",
        account="7",
        link=f"https://t.me/{HOSTILE}?start={{code}}",
        since=NOW,
    )
    gateway = GatewayRecord(
        process="p",
        name="g",
        platforms=frozenset({Platform.TELEGRAM}),
        started=NOW,
        links={Platform.TELEGRAM: health},
    )
    setup._invite("2345-CDFG", gateway, setup.SetupOptions(spec=TELEGRAM, values={}))
    shown = capsys.readouterr().out
    assert "https://t.me/bot" in shown
    assert not set(shown) & set("\x1b\x07\x9b\u202e\r")
