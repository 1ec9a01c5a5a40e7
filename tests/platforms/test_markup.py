"""The agent's Markdown as each platform shows it."""

from __future__ import annotations

from types import ModuleType

import pytest

from segue.platforms.base import Capabilities, Dialect, Part
from segue.platforms.markup import parser, parts, size, splitter
from tests.platforms.markup_readers import capabilities, check

ALL = tuple(dialect for dialect in Dialect if dialect is not Dialect.SOURCE)
UNSEEN = "\u200b"


def shown(markdown: str, dialect: Dialect) -> str:
    return only(markdown, dialect).text


def plain(markdown: str) -> str:
    return only(markdown, Dialect.PLAIN).plain


def only(markdown: str, dialect: Dialect) -> Part:
    (part,) = parts(markdown, capabilities(dialect))
    check(part, dialect)
    return part


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (Dialect.PLAIN, "bold, italic, both, gone and x < y"),
        (Dialect.MARKDOWN, "**bold**, _italic_, **_both_**, ~~gone~~ and `x < y`"),
        (
            Dialect.TELEGRAM,
            "<b>bold</b>, <i>italic</i>, <b><i>both</i></b>, <s>gone</s> and <code>x &lt; y</code>",
        ),
        (Dialect.SLACK, "*bold*, _italic_, *_both_*, ~gone~ and `x &lt; y`"),
        (
            Dialect.MATRIX,
            (
                "<p><strong>bold</strong>, <em>italic</em>, <strong><em>both</em></strong>, "
                "<del>gone</del> and <code>x &lt; y</code></p>"
            ),
        ),
        (Dialect.WHATSAPP, "*bold*, _italic_, *_both_*, ~gone~ and `x < y`"),
    ],
)
def test_emphasis_is_written_in_the_dialect_of_the_platform(dialect: Dialect, expected: str):
    assert shown("**bold**, *italic*, **_both_**, ~~gone~~ and `x < y`", dialect) == expected


def test_every_dialect_has_plain_text():
    for dialect in ALL:
        part = only("**bold** and [docs](https://example.com/a)", dialect)
        assert part.plain == "bold and docs (https://example.com/a)"


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (Dialect.PLAIN, "docs (https://example.com/a_(b)?c=1&d=2)"),
        (Dialect.MARKDOWN, "[docs](https://example.com/a_%28b%29?c=1&d=2)"),
        (Dialect.TELEGRAM, '<a href="https://example.com/a_(b)?c=1&amp;d=2">docs</a>'),
        (Dialect.SLACK, "<https://example.com/a_(b)?c=1&amp;d=2|docs>"),
        (Dialect.MATRIX, '<p><a href="https://example.com/a_(b)?c=1&amp;d=2">docs</a></p>'),
        (Dialect.WHATSAPP, "docs (https://example.com/a_(b)?c=1&d=2)"),
    ],
)
def test_a_link_is_written_in_the_dialect_of_the_platform(dialect: Dialect, expected: str):
    assert shown("[docs](https://example.com/a_(b)?c=1&d=2)", dialect) == expected


def test_a_picture_becomes_a_link():
    image = "![a cat](https://example.com/cat.png)"
    assert shown(image, Dialect.MARKDOWN) == "[a cat](https://example.com/cat.png)"
    assert shown("![](https://example.com/cat.png)", Dialect.SLACK) == "https://example.com/cat.png"
    badge = f"[{image}](https://example.com)"
    assert shown(badge, Dialect.SLACK) == "<https://example.com|a cat>"


def test_a_url_that_is_its_own_label_is_written_once():
    for markdown in (
        "<https://example.com/a_b>",
        "[https://example.com/a_b](https://example.com/a_b)",
        "https://example.com/a_b",
    ):
        for dialect in (Dialect.PLAIN, Dialect.MARKDOWN, Dialect.SLACK, Dialect.WHATSAPP):
            assert shown(markdown, dialect) == "https://example.com/a_b"


def test_a_label_that_is_another_url_does_not_hide_the_real_one():
    lie = "[https://bank.example](https://evil.example)"
    for dialect in ALL:
        assert "https://bank.example (https://evil.example)" in shown(lie, dialect)


def test_a_url_within_a_label_is_part_of_the_label():
    nested = "[see **<https://a.example>** there](https://b.example)"
    text = "see **https://a.example** there (https://b.example)"
    assert shown(nested, Dialect.MARKDOWN) == text


def test_only_web_and_mail_urls_become_links():
    assert shown("[me](mailto:a@b.c)", Dialect.TELEGRAM) == '<a href="mailto:a@b.c">me</a>'
    for href in ("tg://user?id=1", "docs/readme.md", "slack://open"):
        for dialect in ALL:
            text = shown(f"[you]({href})", dialect)
            assert "href" not in text
            assert f"you ({href})" in text


def test_a_heading_is_bold_in_dialects_without_headings():
    heading = "## Next *steps*"
    assert shown(heading, Dialect.PLAIN) == "Next steps"
    assert shown(heading, Dialect.MARKDOWN) == "## Next _steps_"
    assert shown(heading, Dialect.TELEGRAM) == "<b>Next <i>steps</i></b>"
    assert shown(heading, Dialect.SLACK) == "*Next _steps_*"
    assert shown(heading, Dialect.MATRIX) == "<h2>Next <em>steps</em></h2>"
    assert shown(heading, Dialect.WHATSAPP) == "*Next _steps_*"
    assert shown("#### **deep**", Dialect.MARKDOWN) == "**deep**"


def test_code_keeps_its_language_and_every_space():
    code = '```python\nif a < b:\n    print("*x*")\n```'
    inside = 'if a < b:\n    print("*x*")'
    escaped = inside.replace("<", "&lt;")
    assert shown(code, Dialect.PLAIN) == inside
    assert shown(code, Dialect.MARKDOWN) == f"```python\n{inside}\n```"
    html = f'<pre><code class="language-python">{escaped}</code></pre>'
    assert shown(code, Dialect.TELEGRAM) == html
    assert shown(code, Dialect.MATRIX) == html
    assert shown(code, Dialect.SLACK) == f"```\n{escaped}\n```"
    assert shown(code, Dialect.WHATSAPP) == f"```\n{inside}\n```"


def test_a_fence_inside_code_does_not_end_it():
    for dialect in (Dialect.MARKDOWN, Dialect.SLACK, Dialect.WHATSAPP):
        text = shown("~~~\na ``` b\n~~~", dialect)
        assert text.replace(UNSEEN, "") == "```\na ``` b\n```"
        assert text.count("```") == 2


def test_inline_code_can_have_backticks():
    assert shown("``a`b``", Dialect.MARKDOWN) == "`` a`b ``"
    assert shown("```` a``b ````", Dialect.MARKDOWN) == "a\\`\\`b"
    assert shown("``a`b``", Dialect.SLACK).replace(UNSEEN, "") == "a`b"
    assert shown("``a`b``", Dialect.TELEGRAM) == "<code>a`b</code>"


def test_lists_are_nested_and_keep_their_numbers():
    markdown = (
        "3. three\n4. four\n   - in *it*\n     more\n   - [x] done\n   - [ ] not yet\n5. five"
    )
    assert shown(markdown, Dialect.PLAIN) == (
        "3. three\n4. four\n   ◦ in it\n     more\n   ◦ ☑ done\n   ◦ ☐ not yet\n5. five"
    )
    assert shown(markdown, Dialect.MARKDOWN) == (
        "3. three\n4. four\n   - in _it_\n     more\n   - ☑ done\n   - ☐ not yet\n5. five"
    )
    assert shown(markdown, Dialect.MATRIX) == (
        '<ol start="3"><li>three</li><li>four<ul><li>in <em>it</em><br>more</li><li>☑ done</li>'
        "<li>☐ not yet</li></ul></li><li>five</li></ol>"
    )


def test_code_in_a_list_is_not_indented():
    markdown = "- do:\n\n  ```sh\n  ls\n  ```\n\n  then\n- next"
    assert shown(markdown, Dialect.MARKDOWN) == "- do:\n```sh\nls\n```\n\n  then\n- next"
    assert shown(markdown, Dialect.MATRIX) == (
        '<ul><li>do:<pre><code class="language-sh">ls</code></pre>then</li><li>next</li></ul>'
    )


def test_every_line_of_a_quote_is_marked():
    quote = "> a\n> b\n>\n> > inner"
    assert shown(quote, Dialect.PLAIN) == "> a\n> b\n> \n> > inner"
    assert shown(quote, Dialect.MARKDOWN) == "> a\n> b\n> \n> > inner"
    assert shown(quote, Dialect.TELEGRAM) == "<blockquote>a\nb\n\n&gt; inner</blockquote>"
    assert shown(quote, Dialect.MATRIX) == (
        "<blockquote><p>a<br>b</p><blockquote><p>inner</p></blockquote></blockquote>"
    )


TABLE = "| Name | Size |\n|:--|--:|\n| `a` | 1 |\n| 中文 | 22 |"


def test_a_table_is_a_code_block_with_columns():
    columns = "Name  Size\n────  ────\na        1\n中文    22"
    assert shown(TABLE, Dialect.MARKDOWN) == f"```\n{columns}\n```"
    assert shown(TABLE, Dialect.TELEGRAM) == f"<pre><code>{columns}</code></pre>"
    assert shown(TABLE, Dialect.PLAIN) == "Name | Size\na | 1\n中文 | 22"


def test_a_table_that_is_too_wide_is_written_row_by_row():
    wide = f"| Name | Text |\n|-|-|\n| a | {'long ' * 20}|\n| b | |"
    assert shown(wide, Dialect.MARKDOWN) == (
        f"**Name:** a\n**Text:** {'long ' * 19}long\n\n**Name:** b"
    )


def test_a_rule_becomes_a_line():
    assert plain("a\n\n---\n\nb") == "a\n\n———\n\nb"
    assert shown("a\n\n---\n\nb", Dialect.MATRIX) == "<p>a</p><hr><p>b</p>"


def test_a_line_break_is_kept():
    for dialect in (Dialect.PLAIN, Dialect.MARKDOWN, Dialect.TELEGRAM, Dialect.SLACK):
        assert shown("a\nb  \nc", dialect) == "a\nb\nc"
    assert shown("a\nb", Dialect.MATRIX) == "<p>a<br>b</p>"
    assert shown("**a\nb**", Dialect.SLACK) == "*a*\n*b*"


def test_html_is_shown_as_text():
    raw = '<b onclick="x">hi</b> <script>alert(1)</script> &amp; <!-- c -->'
    seen = '<b onclick="x">hi</b> <script>alert(1)</script> & <!-- c -->'
    assert plain(raw) == seen
    escaped = seen.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert shown(raw, Dialect.TELEGRAM) == escaped
    assert shown(raw, Dialect.MATRIX) == f"<p>{escaped}</p>"
    assert shown(raw, Dialect.SLACK) == escaped


def test_text_that_looks_like_markup_is_unchanged():
    literal = r"\*no\* \_no\_ \# no \[a\](b) 2 * 3 snake_case_name"
    meant = "*no* _no_ # no [a](b) 2 * 3 snake_case_name"
    assert plain(literal) == meant
    assert shown(literal, Dialect.MARKDOWN).replace("\\", "") == meant
    assert shown(literal, Dialect.MARKDOWN).startswith(r"\*no\* \_no\_ # no \[a\](b) 2 \* 3")
    slack = shown(literal, Dialect.SLACK)
    assert slack.replace(UNSEEN, "") == meant
    assert slack.startswith(f"*{UNSEEN}no*{UNSEEN}")
    assert "2 * 3 snake_case_name" in slack


def test_a_line_that_only_looks_like_a_list_or_a_heading_is_text():
    for line, expected in (
        (r"\- a", r"\- a"),
        (r"\# a", r"\# a"),
        (r"1\. a", r"1\. a"),
        (r"\> a", r"\> a"),
        (r"\-# a", r"\-# a"),
    ):
        assert shown(line, Dialect.MARKDOWN) == expected


def test_italics_directly_after_bold_are_separate():
    assert shown("**one**_`two`_", Dialect.MARKDOWN) == "**one**_`two`_"


def test_emphasis_within_a_word_leaves_no_asterisks():
    assert shown("un**believ**able", Dialect.MARKDOWN) == "un**believ**able"
    assert shown("un*believ*able", Dialect.MARKDOWN) == "un*believ*able"
    assert shown("un**believ**able", Dialect.SLACK) == "unbelievable"
    assert shown("un**believ**able", Dialect.TELEGRAM) == "un<b>believ</b>able"


@pytest.mark.parametrize(
    ("dialect", "call"),
    [
        (Dialect.MARKDOWN, "@everyone"),
        (Dialect.MARKDOWN, "@here"),
        (Dialect.MARKDOWN, "<@123>"),
        (Dialect.MARKDOWN, "<@&123>"),
        (Dialect.SLACK, "<!channel>"),
        (Dialect.SLACK, "<!here|here>"),
        (Dialect.SLACK, "<@U012AB3CD>"),
        (Dialect.SLACK, "`<!everyone>`"),
        (Dialect.TELEGRAM, "@somebody"),
        (Dialect.MATRIX, "@room"),
    ],
)
def test_mentions_are_neutralised(dialect: Dialect, call: str):
    part = only(f"ask {call} now", dialect)
    for text in (part.text, part.plain):
        assert call.strip("`") not in text
    assert part.plain.replace(UNSEEN, "") == f"ask {call.strip('`')} now"


def test_a_mail_address_and_a_decorator_are_not_mentions():
    code = "```\n@property\n```\n\nsomebody@example.com"
    assert UNSEEN not in shown(code, Dialect.TELEGRAM)


@pytest.mark.parametrize("blank", ["", " \n\t ", "\u200b", "\u2800\n", "\x00\x1b"])
def test_invisible_text_gives_no_part(blank: str):
    for dialect in ALL:
        assert parts(blank, capabilities(dialect)) == []


@pytest.mark.parametrize("empty", ["#", "```", "> ", "![]()", "[](  )", "~~~py\n"])
def test_markup_around_nothing_is_unchanged(empty: str):
    for dialect in ALL:
        (part,) = parts(empty, capabilities(dialect))
        assert part.plain.replace(UNSEEN, "") == empty.strip()


def test_an_unfinished_answer_is_rendered_as_far_as_it_goes():
    answer = (
        "## Plan\n\n1. **First** [docs](https://e.com)\n\n```py\nx = 1\n```\n\n|a|b|\n|-|-|\n|c|"
    )
    for end in range(1, len(answer)):
        for dialect in ALL:
            for part in parts(answer[:end], capabilities(dialect)):
                check(part, dialect)
    assert shown("so:\n```py\nx = 1", Dialect.MARKDOWN) == "so:\n\n```py\nx = 1\n```"
    assert shown("a **bold", Dialect.TELEGRAM) == "a **bold"


def test_excessive_nesting_is_unchanged():
    deep = "> " * 30 + "here"
    assert plain(f"{deep}\n\n**b**") == f"{deep}\n\nb"


def test_control_characters_and_lone_surrogates_are_removed():
    assert plain("a\x1b[2Jb\x07 c\x0bd \ud83d e") == "a[2Jb c d \ufffd e"
    assert plain("&#27;x&#xd83d;") == "\ufffdx\ufffd"


def test_an_encoded_line_break_does_not_start_a_heading():
    for smuggled in ("a&#10;# b", "a&NewLine;# b", "a&#x2028;# b"):
        assert shown(smuggled, Dialect.MARKDOWN) == "a # b"
    assert plain("a\u2028b\x85c") == "a\nb\nc"


def test_a_platform_with_markdown_gets_it_unchanged():
    able = Capabilities(dialect=Dialect.SOURCE, length=100)
    table = "| a |\n| - |\n| **1** |"
    assert parts(table, able) == [Part(table, table)]
    assert len(parts("word " * 40, able)) > 1


@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.parametrize(
    "answer", ["- \\\nfirst line", "1. \\\n line", "- []()\nline", "> \\\n> line", "\\\nline"]
)
def test_a_block_can_start_with_a_line_break(answer: str, dialect: Dialect):
    text = only(answer, dialect)
    assert text.plain.split()[-1] == "line"
    assert "\n" not in text.plain


@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.parametrize(("module", "name"), [(parser, "read"), (splitter, "split")])
def test_text_that_cannot_be_rendered_is_sent_unchanged(
    module: ModuleType,
    name: str,
    dialect: Dialect,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    def broken(*_: object) -> None:
        raise ValueError

    monkeypatch.setattr(module, name, broken)
    answer = "# Title\n\n- *a* & <b>`c`</b> @everyone\n" * 9
    able = capabilities(dialect, 200)
    found = parts(answer, able)
    for part in found:
        check(part, dialect)
        assert size(part.text, able.unit) <= 200
    arrived = "".join(part.plain for part in found).replace(UNSEEN, "")
    assert "".join(arrived.split()) == "".join(answer.split())
    assert "markdown not rendered" in caplog.text
    assert "ValueError" in caplog.text


def test_only_the_last_message_of_a_long_question_is_short_enough_for_buttons():
    able = Capabilities(dialect=Dialect.WHATSAPP, length=400, button_length=100)
    code = "\n".join(f"echo line number {n}" for n in range(50))
    found = parts(f"All 50 lines:\n\n```\n{code}\n```\n\nMay I?", able, buttons=True)
    sizes = [len(part.text) for part in found]
    assert max(sizes) <= 400
    assert sizes[-1] <= 100
    assert len(found) <= sum(sizes) // 400 + 2, "all others are as full as possible"
    for part in found:
        check(part, Dialect.WHATSAPP)
    shown = "\n".join(part.plain for part in found)
    assert [line for line in shown.splitlines() if line.startswith("echo")] == code.splitlines()


@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.parametrize(
    "question",
    [
        "word " * 90,
        "x" * 500,
        "<&>*_" * 99,
        "> " * 40 + "deep " * 60,
        "- a **bold and long " + "text " * 60 + "**",
        "a" + "\u0301" * 500,
        "word " * 40 + "\n\n" + " \u200b\n" * 50,
    ],
)
def test_the_last_message_has_room_for_buttons_whatever_it_shows(question: str, dialect: Dialect):
    able = Capabilities(dialect=dialect, length=300, button_length=80)
    found = parts(question, able, buttons=True)
    assert max(len(it) for part in found for it in (part.text, part.plain)) <= 300
    assert max(len(found[-1].text), len(found[-1].plain)) <= 80
    without = parts(question, able)
    assert dense(found) == dense(without), "nothing is lost"


def dense(found: list[Part]) -> str:
    shown = "".join(part.plain for part in found).replace(UNSEEN, "")
    return "".join(shown.replace(">", "").split())


@pytest.mark.parametrize("text", ["2*3*4", "2*x + 3*y", "a*b*c", "2**3**2", "width*2*height"])
@pytest.mark.parametrize("dialect", ALL)
def test_a_product_keeps_its_stars(text: str, dialect: Dialect):
    part = only(text, dialect)
    assert part.plain.replace("\u200b", "") == text
    seen = part.text.replace("\u200b", "").replace("\\", "")
    assert text in seen
