"""Which calls run without approval, and what an approval covers."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.approvals.rules import Permission, Risk, Rules, fingerprint
from segue.core.approval import Policy
from segue.core.transcript import ToolCall

HERE = Path("/home/a")
GIT = Rules(policy=Policy.ALLOW_LIST, allowed_commands=("git status", "ls"))


def shell(command: object) -> ToolCall:
    return ToolCall("1", "shell", msgspec.json.encode({"command": command}).decode())


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        (Policy.ASK, {Risk.READ}),
        (Policy.ALLOW_LIST, {Risk.READ}),
        (Policy.AUTO, {Risk.READ, Risk.WRITE, Risk.RUN, Risk.SEND}),
    ],
)
def test_reading_needs_no_approval_and_the_rest_does_unless_the_policy_is_auto(
    policy: Policy, allowed: set[Risk]
) -> None:
    rules = Rules(policy=policy)
    verdicts = {risk: rules.verdict(risk, shell("ls"), HERE) for risk in Risk}
    assert {risk for risk, verdict in verdicts.items() if verdict is Permission.ALLOWED} == allowed


def test_the_default_policy_is_to_ask() -> None:
    assert Rules().policy is Policy.ASK


@pytest.mark.parametrize("risk", [Risk.WRITE, Risk.RUN, Risk.SEND])
def test_approval_for_the_session_covers_only_that_call(risk: Risk) -> None:
    granted = {fingerprint(shell("make"), HERE)}
    rules = Rules()
    assert rules.verdict(risk, shell("make"), HERE, granted) is Permission.ALLOWED
    assert rules.verdict(risk, shell("make all"), HERE, granted) is Permission.ASK
    assert rules.verdict(risk, shell("make"), HERE / "b", granted) is Permission.ASK


# The allow-list


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git status --short",
        "  git   status  -s ",
        "git status 'a b'",
        'git "status" x',
        "ls",
        "ls -l /etc",
        "ls ä",
    ],
)
def test_a_command_that_starts_with_an_allowed_command_runs(command: str) -> None:
    assert GIT.verdict(Risk.RUN, shell(command), HERE) is Permission.LISTED


@pytest.mark.parametrize(
    "command",
    [
        "",
        " ",
        "git",
        "git statusx",
        "git  stat us",
        "'git status'",
        "git -c alias.x=!sh status",
        "git -C / status",
        "git status --output=x",
        "git status /etc",
        "PAGER=x git status",
        "lsof",
        "/opt/ls",
        "./ls",
        "git status; rm -rf .",
        "git status && x",
        "git status & x",
        "git status | x",
        "git status || x",
        "git status $(x)",
        "git status ${x}",
        "git status $x",
        'git status "$(x)"',
        "git status `x`",
        'git status "`x`"',
        "git status\nx",
        "git status\r\nx",
        "git status\0x",
        "git status\tx",
        "git status \x1b[8m",
        "git status \u202ex",
        "git status >x",
        "git status 2>x",
        "git status <x",
        "git status <<x",
        "git status (x)",
        "git status {a,b}",
        "git status *",
        "git status ?",
        "git status [a]",
        "git status ~root",
        "git status !x",
        "git status #x",
        "git status \\x",
        "git status 'x",
        'git status "x',
        "ls;x",
        "ls'",
    ],
)
def test_any_other_command_needs_approval(command: str) -> None:
    assert GIT.verdict(Risk.RUN, shell(command), HERE) is Permission.ASK


@pytest.mark.parametrize("command", [None, 5, ["git", "status"], {"git": "status"}])
def test_a_command_that_is_not_text_needs_approval(command: object) -> None:
    assert GIT.verdict(Risk.RUN, shell(command), HERE) is Permission.ASK


def test_the_allow_list_applies_only_under_its_policy_and_to_commands() -> None:
    asking = Rules(policy=Policy.ASK, allowed_commands=("git status",))
    assert asking.verdict(Risk.RUN, shell("git status"), HERE) is Permission.ASK
    assert GIT.verdict(Risk.WRITE, shell("git status"), HERE) is Permission.ASK
    assert GIT.verdict(Risk.SEND, shell("git status"), HERE) is Permission.ASK


def test_a_duplicate_argument_is_judged_by_the_value_that_would_run() -> None:
    last = ToolCall("1", "shell", '{"command": "git status", "command": "rm x"}')
    assert GIT.verdict(Risk.RUN, last, HERE) is Permission.ASK


@pytest.mark.parametrize("allowed", ["", "  ", "'", "git status; x", "*"])
def test_an_entry_with_shell_syntax_allows_nothing(allowed: str) -> None:
    rules = Rules(policy=Policy.ALLOW_LIST, allowed_commands=(allowed,))
    for command in ("git status", "x", allowed):
        assert rules.verdict(Risk.RUN, shell(command), HERE) is Permission.ASK


# Fingerprints


def test_the_fingerprint_ignores_the_order_and_spacing_of_arguments() -> None:
    one = ToolCall("1", "write", '{"path": "a", "more": {"x": 1, "y": 2}}')
    other = ToolCall("2", "write", '{ "more":{"y":2,"x":1},\n"path":"\\u0061"}')
    assert fingerprint(one, HERE) == fingerprint(other, HERE)


def test_any_other_difference_changes_the_fingerprint() -> None:
    calls = [
        (ToolCall("1", "shell", '{"command":"ls"}'), HERE),
        (ToolCall("1", "shell", '{"command":"ls "}'), HERE),
        (ToolCall("1", "shell", '{"command":"LS"}'), HERE),
        (ToolCall("1", "shell", '{"command":"ls","seconds":60}'), HERE),
        (ToolCall("1", "shell", '{"command":"ls","seconds":61}'), HERE),
        (ToolCall("1", "shell", '{"command":"ls","seconds":"60"}'), HERE),
        (ToolCall("1", "shell", '{"command":["l","s"]}'), HERE),
        (ToolCall("1", "shell", '{"command":["s","l"]}'), HERE),
        (ToolCall("1", "shell", '{"command":"ls"'), HERE),
        (ToolCall("1", "shell", ""), HERE),
        (ToolCall("1", "shell2", '{"command":"ls"}'), HERE),
        (ToolCall("1", "shell", '{"command":"ls"}'), HERE / "b"),
        (ToolCall("1", "shell", '{"command":"ls"}'), Path("/home")),
    ]
    for one, other in combinations(calls, 2):
        assert fingerprint(*one) != fingerprint(*other)


def test_the_parts_of_a_fingerprint_cannot_be_confused() -> None:
    one = ToolCall("1", "a\0b", "c")
    other = ToolCall("1", "a", "b\0c")
    assert fingerprint(one, HERE) != fingerprint(other, HERE)


@pytest.mark.parametrize(
    "arguments",
    [
        *("", "{", "null", "5", "[]", "\0", '{"command"}', '{"command":1e999}', "1" * 10_000),
        *("\ud800", '{"command":"\ud800"}', "[" * 100_000, '{"command":' * 100_000),
    ],
    ids=lambda arguments: ascii(arguments)[:16],
)
def test_invalid_arguments_need_approval_and_never_raise(arguments: str) -> None:
    call = ToolCall("1", "shell\ud800", arguments)
    assert GIT.verdict(Risk.RUN, call, Path("/bad\udcff")) is Permission.ASK
    assert GIT.verdict(Risk.RUN, call, HERE, {fingerprint(call, HERE)}) is Permission.ALLOWED


@given(st.text(), st.text())
def test_any_text_of_a_model_gets_a_verdict(name: str, arguments: str) -> None:
    call = ToolCall("1", name, arguments)
    assert GIT.verdict(Risk.RUN, call, HERE) is Permission.ASK
    assert fingerprint(call, HERE) == fingerprint(call, HERE)
