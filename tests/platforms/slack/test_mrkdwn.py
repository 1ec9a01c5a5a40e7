"""What was typed on Slack, from its markup."""

from __future__ import annotations

import pytest

from segue.platforms.slack import mrkdwn


@pytest.mark.parametrize(
    ("wire", "typed"),
    [
        ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("see <https://example.com/a?b&amp;c>", "see https://example.com/a?b&c"),
        ("see <http://example.com|example.com>", "see example.com"),
        ("see <https://example.com|the docs>", "see the docs (https://example.com)"),
        ("write <mailto:a@example.com|a@example.com>", "write a@example.com"),
        ("ask <@U2|bob> in <#C2|ops>", "ask @bob in #ops"),
        ("ask <@U2> in <#C2> or <#C3|>", "ask <@U2> in <#C2> or <#C3>"),
        ("<!here> <!subteam^S1|@team> <!date^1^{date}|today>", "@here @team today"),
    ],
)
def test_text_is_what_was_typed(wire: str, typed: str):
    assert mrkdwn.typed(wire) == typed


def test_inert_text_mentions_nobody_has_no_links_and_only_grows():
    text = "see https://example.com, www.example.com, <!channel>, <@U1> and <#C1>"
    for end in range(len(text)):
        assert mrkdwn.inert(text[: end + 1]).startswith(mrkdwn.inert(text[:end]))
    shown = mrkdwn.inert(text)
    assert not any(it in shown for it in ("://", "www.", "<!", "<@", "<#"))
    assert shown.replace("\u200b", "") == text


def test_only_users_are_mentioned():
    assert mrkdwn.mention(["U1", "!channel", "W2", "U1> <!here", ""]) == "<@U1> <@W2>"


def test_mentions_show_the_names_that_are_known():
    text = "<@U1> <@U2> <#C1> <@U1> <#U1> <@C1> <@U1"
    assert mrkdwn.mentioned(text) == ["@U1", "@U2", "#C1"]
    shown = mrkdwn.with_names(text, {"@U1": "@Anna", "#C1": "#boats"})
    assert shown == "@Anna <@U2> #boats @Anna <#U1> <@C1> <@U1"
