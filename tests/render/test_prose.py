"""Markdown of tools and servers on a page: nothing in it runs, loads or leads anywhere but to the
web."""

from __future__ import annotations

import pytest

from onetool_ipy.render.prose import to_html


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("plain", "plain"),
        ("*a* `b<`", "<em>a</em> <code"),
        ("<b onclick=x>hi</b>", "&lt;b onclick=x&gt;hi&lt;/b&gt;"),
        ("[a](https://a.test/?x=1&y=2)", '<a href="https://a.test/?x=1&amp;y=2" target="_blank"'),
        ("[a](mailto:b@c.test)", '<a href="mailto:b@c.test"'),
        ("![a](https://a.test/i.png)", '<a href="https://a.test/i.png"'),
        ("# Head\n\ntext", "font-weight:600"),
        ("```\n<i>\n```", "&lt;i&gt;</pre>"),
        ("one\n\ntwo", "</p><p"),
    ],
)
def test_text_becomes_safe_html(text: str, page: str) -> None:
    assert page in to_html(text).replace("</p>\n<p", "</p><p")


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//a.test"]
)
@pytest.mark.parametrize("mark", ["", "!"])
def test_an_address_that_is_not_of_the_web_is_no_link(address: str, mark: str) -> None:
    page = to_html(f"{mark}[a]({address})")

    assert "href" not in page
    assert "<img" not in page


def test_one_line_has_no_paragraph_and_two_have() -> None:
    assert to_html("one") == "one"
    assert to_html("one\n\ntwo").count("<p ") == 2
