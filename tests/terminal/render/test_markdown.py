"""Rendering of Markdown: nothing in it is hidden or controls the terminal."""

from __future__ import annotations

import pytest

from segue.terminal.render.markdown import render
from segue.terminal.render.screen import Screen
from tests.terminal.render.samples import plain

SCREEN = Screen(width=80)


def shown(source: str, width: int = 80) -> list[str]:
    return plain(render(source, Screen(width=width)))


def test_markup_becomes_styles():
    assert render("**b** *i* `c` ~~s~~", SCREEN) == [
        "\x1b[1mb\x1b[0m \x1b[3mi\x1b[0m \x1b[36mc\x1b[0m \x1b[9ms\x1b[0m"
    ]
    assert render("# One", SCREEN) == ["\x1b[1;4mOne\x1b[0m"]


def test_without_colours_markup_becomes_bold_and_dim():
    assert render("**b** *i* `c` ~~s~~", Screen(coloured=False)) == [
        "\x1b[1mb\x1b[0m \x1b[3mi\x1b[0m c \x1b[9ms\x1b[0m"
    ]


def test_urls_are_written_out_and_not_linked():
    lines = render(
        "[here](https://a.example/x) ![picture](p.png) <https://b.example/> <me@c.example>", SCREEN
    )
    assert " ".join(plain(lines)) == (
        "here (https://a.example/x) picture (p.png) https://b.example/ me@c.example"
    )
    assert "\x1b]" not in "".join(lines)


def test_a_link_shows_its_url_even_if_it_is_defined_elsewhere_or_its_label_is_a_url():
    assert shown("[x]\n\n[x]: https://a.example") == ["[x]", "", "[x]: https://a.example"]
    assert shown("[https://good.example](https://evil.example)") == [
        "https://good.example (https://evil.example)"
    ]


def test_html_is_shown_as_it_is_written():
    assert shown("List<String> <!-- hidden --> <b>x</b>") == [
        "List<String> <!-- hidden --> <b>x</b>"
    ]
    assert shown("<div>\nx\n</div>") == ["<div>", "x", "</div>"]


@pytest.mark.parametrize(
    "source",
    [
        "a&#x202e;b", "a&rlm;b", "a&#x200b;b", "a&shy;b", "`a`b&zwj;", "[a](x&#x202e;y)", "a&#13;b",
        "<http://a/%E2%80%AE>", "![a&#x2066;](b)", "| a&#x202e; |\n|---|\n| b |", "# a&#8237;",
    ],
)  # fmt: skip
def test_entities_are_cleaned_after_they_are_decoded(source: str):
    hidden = {"\u202e", "\u200f", "\u200b", "\xad", "\u200d", "\r", "\u2066", "\u202d"}
    assert not hidden & set("".join(shown(source)))


def test_line_breaks_are_kept():
    assert shown("- \\\nfirst line") == ["•", "  first line"]
    assert shown("roses\nare  \nred\\\n!") == ["roses", "are", "red", "!"]


def test_lists_are_numbered_nested_and_tight():
    assert shown("3. a\n3. b\n   - c\n   - d\n\n   e\n   ```\n   code\n   ```\n4. f") == [
        "3. a", "4. b", "   • c", "   • d", "", "   e", "     code", "5. f",
    ]  # fmt: skip


def test_quotations_have_a_bar():
    assert shown("> a\n> - b\n>\n> c") == ["│ a", "│", "│ • b", "│", "│ c"]


def test_code_wraps_at_the_line_width_and_keeps_its_spaces():
    source = f"```\na  b{'x' * 20}\n    c\n```"
    assert shown(source, 20) == ["  a  b" + "x" * 14, "  " + "x" * 6, "      c"]


def test_a_table_has_columns():
    lines = shown("| name | size |\n|---|--:|\n| a | 1 |\n| 漢字 | 200 |")
    assert lines[0].startswith("name")
    assert [line.split() for line in lines[2:]] == [["a", "1"], ["漢字", "200"]]
    assert lines[2].index("1") == lines[3].index("200") + len("漢字") + 2


def test_a_table_that_is_too_wide_is_shown_row_by_row():
    source = "| name | size | note |\n|---|---|---|\n| a | 1 | x |\n| b | 2 | y |"
    assert shown(source, 20) == [
        "name: a", "size: 1", "note: x", "", "name: b", "size: 2", "note: y",
    ]  # fmt: skip
    assert shown("| name | size | note |\n|---|---|---|", 20) == ["name:", "size:", "note:"]


def test_in_a_table_nothing_is_cut_off():
    source = f"| name | note |\n|---|---|\n| {'x' * 40} | {'漢字' * 5} |"
    text = "".join(shown(source, 24)).replace(" ", "")
    assert text.count("x") == 40
    assert text.count("漢") == 5


@pytest.mark.parametrize("width", [20, 80])
@pytest.mark.parametrize("depth", [5, 15, 25, 29, 30, 31, 40, 200])
def test_deep_nesting_loses_nothing(depth: int, width: int):
    lists = "".join(shown("".join(f"{'  ' * n}- level{n}\n" for n in range(depth)), width))
    assert all(f"level{n}" in lists.replace(" ", "") for n in range(depth))
    assert "".join(shown(f"{'> ' * depth}deep", width)).endswith("deep")


def test_wide_characters_are_wrapped_by_their_width_in_columns():
    assert shown("漢" * 25, 20) == ["漢" * 10, "漢" * 10, "漢" * 5]


def test_prose_has_a_maximum_width_and_code_has_none():
    assert max(map(len, shown("word " * 60, 200))) <= 100
    assert shown(f"```\n{'x' * 180}\n```", 200) == ["  " + "x" * 180]


def test_without_unicode_our_own_symbols_are_ascii():
    source = "- a\n\n> b\n\n---\n\n| c |\n|---|\n| d |"
    assert "".join(render(source, Screen(width=40, unicode=False))).isascii()
