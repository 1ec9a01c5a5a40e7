"""A long answer in several messages: where it is split, and that each is valid by itself."""

from __future__ import annotations

import pytest

from segue.platforms.base import Dialect, Part, Unit
from segue.platforms.markup import parts, size
from tests.harness.line_counts import growth
from tests.platforms.markup_readers import capabilities, check

ALL = tuple(dialect for dialect in Dialect if dialect is not Dialect.SOURCE)


def cut(markdown: str, dialect: Dialect, length: int, unit: Unit = Unit.CHARACTERS) -> list[str]:
    return [part.text for part in whole_parts(markdown, dialect, length, unit)]


def whole_parts(markdown: str, dialect: Dialect, length: int, unit: Unit) -> list[Part]:
    found = parts(markdown, capabilities(dialect, length, unit))
    for part in found:
        check(part, dialect)
        assert max(size(part.text, unit), size(part.plain, unit)) <= length
    return found


def test_length_is_counted_in_the_unit_of_the_platform():
    assert [size("aé😀", unit) for unit in (Unit.CHARACTERS, Unit.UTF16, Unit.BYTES)] == [3, 4, 7]
    for unit, count in ((Unit.CHARACTERS, 1), (Unit.UTF16, 2), (Unit.BYTES, 4)):
        assert len(whole_parts("😀" * 50, Dialect.PLAIN, 50, unit)) == count + (unit is Unit.BYTES)


def test_a_long_answer_is_split_between_blocks():
    answer = f"{'a' * 40}\n\n{'b' * 30}\n\n{'c' * 40}"
    assert cut(answer, Dialect.PLAIN, 100) == [f"{'a' * 40}\n\n{'b' * 30}", "c" * 40]


def test_a_heading_stays_with_the_block_after_it():
    answer = f"{'intro ' * 10}\n\n# Title\n\n{'text ' * 10}"
    assert cut(answer, Dialect.MARKDOWN, 80) == [
        ("intro " * 10).strip(),
        f"# Title\n\n{'text ' * 10}".strip(),
    ]


def test_a_list_is_split_between_items_and_keeps_its_numbers():
    answer = "\n".join(f"{n}. item number {n}" for n in range(8, 14))
    first, second = cut(answer, Dialect.PLAIN, 75)
    assert first.splitlines()[-1] == "11. item number 11"
    assert second == "12. item number 12\n13. item number 13"
    html = cut(answer, Dialect.MATRIX, 150)
    assert html[1].startswith('<ol start="13"><li>item number 13</li>')


def test_an_item_that_continues_in_the_next_part_has_no_second_marker():
    first, second = cut(f"- {'word ' * 15}\n- next", Dialect.PLAIN, 60)
    assert first.startswith("• word")
    assert second.startswith("  word")
    assert second.endswith("\n• next")


def test_the_marker_of_an_item_stays_with_its_text():
    answer = f"- {'a' * 20}\n- [x] {'b' * 50}"
    assert cut(answer, Dialect.PLAIN, 60) == [f"• {'a' * 20}", f"• ☑ {'b' * 50}"]


def test_code_is_split_between_lines_and_keeps_its_language():
    code = "\n".join(f"line_{n} = {n}" for n in range(10))
    first, *rest = cut(f"```python\n{code}\n```", Dialect.MARKDOWN, 80)
    assert first.startswith("```python\nline_0 = 0\n")
    assert all(part.startswith("```python\nline_") and part.endswith("\n```") for part in rest)
    inside = "\n".join(part[len("```python\n") : -len("\n```")] for part in (first, *rest))
    assert inside == code
    html = cut(f"```python\n{code}\n```", Dialect.TELEGRAM, 150)
    assert len(html) > 1
    assert all(part.startswith('<pre><code class="language-python">line_') for part in html)


def test_a_code_block_that_fits_is_not_split():
    code = "```\n" + "x = 1\n" * 6 + "```"
    assert cut(f"{'word ' * 10}\n\n{code}", Dialect.MARKDOWN, 80)[1] == code


def test_a_split_quote_stays_a_quote():
    first, second = cut(f"> {'word ' * 20}", Dialect.MARKDOWN, 80)
    assert first.startswith("> word")
    assert second.startswith("> word")
    first, second = cut(f"> {'word ' * 20}", Dialect.TELEGRAM, 80)
    assert first.endswith("word</blockquote>")
    assert second.startswith("<blockquote>word")


def test_text_is_split_after_a_sentence_if_possible():
    answer = "This is the first one. This is the second one, and it is longer."
    assert cut(answer, Dialect.PLAIN, 50) == [
        "This is the first one.",
        "This is the second one, and it is longer.",
    ]
    assert cut("これは最初の文です。" * 8, Dialect.PLAIN, 45) == ["これは最初の文です。" * 4] * 2


def test_text_is_split_between_words_if_possible():
    for part in cut("several words in a row " * 20, Dialect.PLAIN, 40):
        assert set(part.split()) <= {"several", "words", "in", "a", "row"}


def test_split_emphasis_is_closed_and_reopened():
    first, second = cut(f"**{'bold ' * 15}end**", Dialect.MARKDOWN, 60)
    assert first.startswith("**bold bold")
    assert first.endswith("bold**")
    assert second.startswith("**bold")
    assert second.endswith("end**")


def test_a_link_is_not_split():
    link = "[the documentation of it](https://example.com/docs)"
    answer = f"{'word ' * 9}{link} and more"
    for part in cut(answer, Dialect.MARKDOWN, 130):
        assert part.count("](https://example.com/docs)") == part.count("[")
    assert link in "\n".join(cut(answer, Dialect.MARKDOWN, 130))
    bare = "https://example.com/a/very/long/path"
    assert any(bare in part for part in cut(f"{'word ' * 11}{bare}", Dialect.PLAIN, 60))


def test_a_url_that_is_longer_than_a_message_is_written_as_text():
    href = "https://example.com/" + "x" * 3000
    for dialect in ALL:
        found = whole_parts(f"see [this]({href}) now", dialect, 2000, Unit.CHARACTERS)
        assert "".join(part.plain for part in found).replace(" ", "") == f"seethis({href})now"


CLUSTERS = [
    "e\u0301\u0323",
    "👨‍👩‍👧‍👦",
    "👍🏽",
    "🇩🇪",
    "❤️",
    "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "क्षि",
    "\u1112\u1161\u11ab",
    "กำ",
]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("unit", Unit)
def test_a_grapheme_cluster_is_not_split(cluster: str, unit: Unit):
    length = max(40, 2 * size(cluster, unit) + 20)
    for dialect in ALL:
        found = whole_parts(cluster * 60, dialect, length, unit)
        assert len(found) > 1
        assert all(part.plain == cluster * (len(part.plain) // len(cluster)) for part in found)
        assert sum(len(part.plain) for part in found) == 60 * len(cluster)


def test_an_endless_run_of_accents_is_split():
    pile = "a" + "\u0301" * 5000
    for dialect in ALL:
        found = whole_parts(pile, dialect, 100, Unit.BYTES)
        assert "".join(part.plain for part in found) == pile


def test_an_escape_is_not_split():
    for dialect in ALL:
        found = whole_parts(r"\<\&\>\*\_\`\\" * 100, dialect, 41, Unit.CHARACTERS)
        seen = "".join(part.plain for part in found).replace("\u200b", "")
        assert seen == "<&>*_`\\" * 100
        backslashes = [len(part.text) - len(part.text.rstrip("\\")) for part in found]
        assert dialect is not Dialect.MARKDOWN or all(n % 2 == 0 for n in backslashes)
        assert not any(
            part.text.endswith("\\") and dialect is Dialect.MARKDOWN for part in found[:0]
        )


def test_a_part_that_starts_within_a_line_does_not_become_a_list():
    for sign in ("-", "#", ">", "1."):
        for part in cut(f"word {sign} " * 60, Dialect.MARKDOWN, 50):
            assert not part.startswith((f"{sign} ", f"{sign}\n"))


HOSTILE = {
    "backticks": "`",
    "brackets": "[",
    "pictures": "![",
    "asterisks": "*a",
    "tildes": "~~a ",
    "ampersands": "&",
    "backslashes": "\\",
    "links": "[a](b ",
    "quotes": "> ",
    "items": "- a\n",
    "bars": "|a",
    "ticks": "``` a\n",
    "letters": "a",
    "calls": "@abcd<@U1",
    "accents": "e\u0301",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("dialect", [Dialect.MARKDOWN, Dialect.MATRIX])
def test_adversarial_text_is_split_in_linear_time(name: str, dialect: Dialect):
    able = capabilities(dialect, 120)
    assert growth(lambda length: parts((HOSTILE[name] * length)[:length], able), 150) < 1.6


def test_deep_nesting_is_split_in_linear_time():
    able = capabilities(Dialect.TELEGRAM)
    for opening, closing in (("*a ", "b*"), ("[", "](b)"), ("**", "**"), ("![", "](b)")):

        def nested(depth: int, opening: str = opening, closing: str = closing) -> object:
            return parts(opening * depth + "x" + closing * depth, able)

        assert growth(nested, 50) < 1.5


def test_thousands_of_any_element_can_be_split():
    """The growth of the work is tested above."""
    for sign in ("`", "[", "*", "_", "(", "<", "> ", "- ", "|", "~"):
        assert whole_parts(sign * 5_000, Dialect.MARKDOWN, 2000, Unit.CHARACTERS)
