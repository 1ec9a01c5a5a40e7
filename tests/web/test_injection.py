"""Text of models, users, tools and files is shown as text, even if it is markup."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.core.address import Platform
from segue.core.markdown import LANGUAGES
from segue.core.session import Origin
from segue.core.transcript import Message, Role, ToolCall, spoken
from segue.store import bindings, leases, pages, sessions, transcripts
from segue.web import render
from segue.web.open_page import address_of
from segue.web.render import LONGEST, SECONDS, Colours
from tests.harness.line_counts import growth, steps
from tests.web.bare_server import Door
from tests.web.strict_html import Unsafe, read

SCRIPTS = (
    "<script>alert(1)</script>",
    "<SCRIPT SRC=//evil.test/x.js></SCRIPT>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<script\x0c>alert(1)</script>",
    "<script/x>alert(1)</script",
    "<img src=x onerror=alert(1)>",
    "<img src=x onerror=alert(1)//",
    "<svg onload=alert(1)>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<math><mi xlink:href='data:x,<script>alert(1)</script>'>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<object data=data:text/html;base64,PHNjcmlwdD4=></object>",
    "<embed src=javascript:alert(1)>",
    "<base href=//evil.test/>",
    "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
    "<link rel=stylesheet href=//evil.test/x.css>",
    "<style>@import '//evil.test/x.css';</style>",
    "<p style='background:url(//evil.test/)'>x</p>",
    "<form action=//evil.test/><input name=x><button>go</button></form>",
    "<details open ontoggle=alert(1)>",
    "<a href=javascript:alert(1)>x</a>",
    "<a href='java\tscript:alert(1)'>x</a>",
    "<template><script>alert(1)</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<textarea></textarea><script>alert(1)</script>",
    "<title><img title='</title><img src=x onerror=alert(1)>'>",
    "<!--><script>alert(1)</script>-->",
    "<!-- x --!><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?xml version='1.0'?><script>alert(1)</script>",
    "<!DOCTYPE html><script>alert(1)</script>",
    "</p></div></body><script>alert(1)</script>",
    "'><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "&LT;script&GT;alert(1)",
    "\uff1cscript\uff1ealert(1)\uff1c/script\uff1e",
    "<\0script>alert(1)</script>",
    "<\u200bscript>alert(1)</script>",
    "\u202e>tpircs<\u202c",
    "<a\x0bhref=x>",
    "<",
    "</",
    "<a",
    "<a href='",
    "&",
    "&#0;",
    "&#x110000;",
)
TARGETS = (
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    " javascript:alert(1)",
    "\x01javascript:alert(1)",
    "java\tscript:alert(1)",
    "java&#9;script:alert(1)",
    "java&Tab;script:alert(1)",
    "java&NewLine;script:alert(1)",
    "&#106;avascript:alert(1)",
    "&#x6A;avascript&colon;alert(1)",
    "javascript&#58;alert(1)",
    "javascript%3Aalert(1)",
    "%6aavascript:alert(1)",
    "\\javascript:alert(1)",
    "javascript\\:alert(1)",
    "j\u0430vascript:alert(1)",
    "javascript\uff1aalert(1)",
    "javascript://evil.test/%0aalert(1)",
    "data:text/html,<script>alert(1)</script>",
    "data:text/html;base64,PHNjcmlwdD4=",
    "data:image/svg+xml,<svg onload=alert(1)>",
    "data:image/png;base64,AAAA",
    "vbscript:msgbox(1)",
    "file:///etc/passwd",
    "blob:http://127.0.0.1/x",
    "ftp://evil.test/",
    "ws://evil.test/",
    "//evil.test/",
    "\\\\evil.test\\",
    "/\\evil.test/",
    "/live",
    "exchange",
    "?x",
    "#x",
    "http:evil.test",
    "http:/evil.test",
    "http:\\\\evil.test",
    "https:javascript:alert(1)",
    "view-source:http://evil.test/",
    "intent://evil.test/",
    "",
)
GOOD = ("http://a.test/", "https://a.test/?b=c&d=e#f", "HTTPS://A.TEST/", "mailto:a@b.test")

WAYS_TO_LINK = (
    "[x]({})",
    "[x](<{}>)",
    '[x]({} "title")',
    "[x]({} 'title\" onclick=alert(1) x=\"')",
    "[x]\n\n[x]: {}",
    "[x]\n\n[x]: <{}> 'title'",
    "<{}>",
    "![x]({})",
    "![x](<{}>)",
    "[![x]({0})]({0})",
    "{}",
)
PLACES = (
    "{}",
    "# {}",
    "> {}",
    "- {}\n  - {}",
    "7. {}",
    "**{}** _{}_ ~~{}~~",
    "`{}`",
    "    {}",
    "```{}\n{}\n```",
    "``` {} {}\n{}\n```",
    "~~~python\n{}\n~~~",
    "~~~html {}\n{}",
    "| {} | b |\n|:--|--:|\n| {} | `{}` |",
    "[{}](http://a.test/{})",
    '[x](http://a.test/ "{}")',
    "![{}](http://a.test/{})",
    "![{}](data:{})",
    "<http://a.test/{}>",
    "[{0}][{0}]\n\n[{0}]: http://a.test/{0}",
    "{}\n===",
    "a\\\n{}",
    "\\{}",
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_markup_is_shown_as_text_everywhere(script: str):
    for place in PLACES:
        text = place.format(*(script,) * 3)
        read(render.html(text))
    # \0 is not allowed in HTML, and shown as a replacement character.
    assert read(render.plain(script)).text == script
    assert "alert" not in script or "alert" in read(render.html(script)).text


@pytest.mark.parametrize("way", WAYS_TO_LINK)
def test_only_web_urls_become_links(way: str):
    for target in TARGETS:
        assert read(render.html(way.format(target))).links == [], target
    for target in GOOD:
        if way != "{}":
            found = read(render.html(way.format(target))).links
            assert found, target
            assert {link.lower() for link in found} == {target.lower()}


def test_a_url_in_plain_text_is_not_linked():
    for target in (*TARGETS, *GOOD):
        assert read(render.plain(target)).links == []


def test_a_picture_is_not_fetched():
    read_html = read(render.html("![a cat](https://a.test/cat.png)"))
    assert (read_html.text.strip(), read_html.links) == ("a cat", ["https://a.test/cat.png"])


@pytest.mark.parametrize("markdown", ["[a]: http://x", "&#8203;", "[](http://x)", "# ", "> "])
def test_markdown_that_would_be_invisible_is_shown_unchanged(markdown: str):
    assert render.html(markdown) == render.plain(markdown)
    assert "<hr" in render.html("***")


def test_the_html_checker_of_these_tests_refuses_unsafe_markup():
    rel = 'target="_blank" rel="noopener noreferrer nofollow"'
    for unsafe in (
        *(script for script in SCRIPTS if script.startswith(("<s", "<i", "<S", "<!", "<?", "</"))),
        "<p onclick=x>a</p>",
        '<p class="hl">a</p>',
        "<p>a",
        "a</p>",
        "<b>a</b>",
        '<a href="http://a.test/">a</a>',
        '<pre class="x">a</pre>',
        '<td style="text-align:left">a</td>',
        '<span class="a" class="b">a</span>',
        "<p>a < b</p>",
        *(f'<a href="{target}" {rel}>a</a>' for target in TARGETS if '"' not in target),
    ):
        with pytest.raises(Unsafe):
            read(unsafe)
    for good in GOOD:
        read(f'<a href="{good}" {rel}>a</a>')


PIECES = st.sampled_from(
    (
        *SCRIPTS, *TARGETS, *GOOD, *WAYS_TO_LINK, *PLACES,
        *"`~*_[]()<>!|#\\&;:\"'=-+/ \n\t\0\r\x85\u2028", "```", "~~~", "\n\n", "    ", "> ", "- ",
        "1. ", "|-|-|\n", "<!--", "-->", "]]>", "python", "html", "php", "&#34;", "&#x3c;",
    )
)  # fmt: skip
WRITTEN = st.lists(PIECES | st.text(max_size=8), max_size=30).map("".join)


@settings(max_examples=100)
@given(WRITTEN)
def test_any_text_is_rendered_safely(text: str):
    read(render.html(text))
    assert read(render.plain(text)).links == []


@given(st.text())
def test_a_message_of_the_user_is_shown_as_typed(text: str):
    html = render.plain(text)
    assert read(html.replace("<br>", "\n")).text.replace("\r\n", "\n") == text.replace("\r\n", "\n")


# Code


@pytest.mark.parametrize("language", sorted(LANGUAGES)[::4])
def test_code_is_coloured_by_classes_only(language: str):
    code = "\n".join(SCRIPTS)
    html = render.html(f"````{language}\n{code}\n````")
    assert f'<code class="language-{language}">' in html
    assert "alert(1)" in read(html).text
    assert "<span" in render.html(f"```{language}\n# a\n% a\n+ b: 1\n<a> = 1; 'c'\n```")


def test_a_language_is_recognised_by_its_aliases():
    assert '<span class="k">' in render.html("```py\nreturn x\n```")


@pytest.mark.parametrize("language", ["mcschema", "console", "no-such", '"', "x" * 99])
def test_code_in_other_languages_is_shown_without_colours(language: str):
    code = "\n".join(SCRIPTS)
    html = render.html(f"````{language}\n{code}\n````")
    assert "<span" not in html
    assert "alert(1)" in read(html).text


@pytest.mark.parametrize("language", ["python", "html", "no-such"])
def test_code_that_is_too_long_for_colours_is_shown_without(language: str):
    """The page's benchmark measures how long code up to that length takes."""
    code = ("a\n" * LONGEST)[: LONGEST + 1]
    assert "<span" not in render.html(f"```{language}\n{code}\n```")


def test_code_that_is_too_slow_to_colour_and_all_code_after_it_is_plain():
    clock = itertools.count(0.0, SECONDS / 10)
    colours = Colours(clock.__next__)
    assert "<span" in colours.of("a = 1", "python")
    assert colours.of("a = 1\n" * 100, "python") == "a = 1\n" * 100
    assert colours.of("a = 1", "python") == "a = 1"


# Texts


@pytest.mark.parametrize(
    "unit",
    [
        "[", "![", "]", "[a](", "*a ", "**a", "_*", "`", "<", "<a", "<!--", "> ", "- ", "1. ", "#",
        "|", "&", "\\", "\n", " ", "[x]: a\n", "[x](<", "[a]: (", "~~", "x@", "<http://", "\0",
        "a|a\n-|-\n",
    ],
)  # fmt: skip
def test_adversarial_text_is_rendered_in_linear_time(unit: str):
    assert growth(lambda size: render.html(unit * (size // len(unit))), 180) < 1.5
    read(render.html(unit * (2_000 // len(unit))))


def test_runs_of_backticks_are_rendered_in_linear_time():
    def text(runs: int) -> str:
        return "".join("`" * n for n in range(1, runs))

    few, many = (steps(lambda n=n: render.html(text(n))) / len(text(n)) for n in (40, 160))
    assert many < 1.5 * few


# In frames


async def test_titles_labels_and_tool_output_reach_the_page_as_text(door: Door):
    """Fields that are not HTML are unchanged, for the page to show as text; HTML is safe."""
    store, evil = door.store, SCRIPTS[0] + SCRIPTS[33]
    session = await sessions.create(store, "me", Platform.LOCAL, title=evil)
    lease = await leases.acquire(store, session.id, "a terminal")
    calls = (ToolCall("1", evil, f'{{"path": "{evil}"}}'),)
    await transcripts.append(
        store,
        lease,
        [
            spoken(f"{evil} from a person", session.started),
            Message(Role.ASSISTANT, f"{evil} from a model", session.started, tool_calls=calls),
            Message(Role.TOOL, f"{evil} from a tool", session.started, tool_call_id="1"),
            Message(Role.ASSISTANT, f"```{evil}\nx\n```\n![{evil}](x)", session.started),
        ],
    )
    page = await pages.begin(store, "me", evil, key="1")
    await bindings.rebind(store, session.id, address_of("me", page.id), Origin.RESUME)
    await pages.show(store, page.id, "2", evil, ((evil, "data"),))
    async with door.browser(await door.key()) as browser:
        chats = (await browser.until("hello"))["chats"]
        assert [chat["title"] for chat in chats] == [session.title]
        await browser.ask("open", chat=page.id)
        shown = await browser.until("shown", chat=session.id)
        await browser.ask("say", chat=page.id, text=evil)
        said = (await browser.until("message"))["message"]
    [message] = shown["messages"]
    assert message["buttons"] == [{"label": evil, "data": "data"}]
    lines = shown["lines"]
    assert [line["role"] for line in lines] == ["user", "assistant", "tool", "assistant"]
    assert [tool["name"] for tool in lines[1]["tools"]] == [evil]
    for html in (message["html"], said["html"], *(line["html"] for line in lines)):
        assert read(html).links == []
    for html in (message["html"], said["html"], *(line["html"] for line in lines[:3])):
        assert evil in read(html).text


async def test_text_that_cannot_be_encoded_does_not_close_the_connection(door: Door):
    page = await pages.begin(door.store, "me", "a\ud800b\0", key="1")
    await pages.show(door.store, page.id, "2", "a\ud800b\0", (("\udfff", "\udfff"),))
    async with door.browser(await door.key()) as browser:
        await browser.until("hello")
        await browser.ask("open", chat=page.id)
        await browser.until("shown", lambda t: "a\ufffdb\ufffd" in t["messages"][0]["html"])
        half = f'{{"do":"say","chat":"{page.id}","key":"12345678","text":"a\\ud800b"}}'
        await browser.wire.send(half)
        await browser.until("refused")
        await browser.ask("say", chat=page.id, text="a\0b")
        await browser.until("message", lambda t: t["message"]["html"] == "<p>a\ufffdb</p>")
