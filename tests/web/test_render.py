"""How the page shows answers that are hard to render. test_injection covers their safety."""

from __future__ import annotations

import pytest

from segue.web import render
from tests.web.strict_html import read


@pytest.mark.parametrize("answer", ["- \\\nfirst line", "1. \\\n foo", f"{'> ' * 40}deep"])
def test_every_word_is_shown(answer: str):
    assert answer.rsplit(maxsplit=1)[-1] in read(render.html(answer)).text


def test_single_line_breaks_are_kept():
    assert render.html("one\n*two*\n\nthree") == "<p>one<br />\n<em>two</em></p>\n<p>three</p>\n"


def test_text_that_cannot_be_rendered_is_shown_unchanged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def broken(text: str) -> str:
        raise ValueError(text)

    monkeypatch.setattr(render, "_rendered", broken)
    assert read(render.html("- *a* <b>\nc")).text == "- *a* <b>c"
    assert "markdown not rendered" in caplog.text
    assert "ValueError" in caplog.text
