"""Pages: the same parts as HTML and as text; nothing in them is ever code."""

from __future__ import annotations

import copy
import json
import pickle
import re
from html.parser import HTMLParser

import pytest

from onetool_ipy.render.pages import (
    Code,
    Folded,
    Heading,
    Note,
    PageText,
    Part,
    Prose,
    Row,
    Rows,
    masked,
    to_html,
    to_text,
)
from tests.render.test_views import EVIL

PARTS: tuple[Part, ...] = (
    Heading("geo", "local, 2 tools", link="tool"),
    Prose("Places of **addresses**: `lat`, $5 or $6."),
    Rows((Row("geo.locate", "Find the *places*.", link="tool"), Row("geo.x", "y")), is_prose=True),
    Heading("Servers", level=2),
    Rows((Row("maps", "It ended.", "failed", "bad"), Row("time", "", "connected", "good"))),
    Heading("Next", level=2),
    Rows((Row("%tool info NAME", "what it does", link="line"),)),
    Heading("Example", level=2),
    Code('geo.locate("Ring")'),
    Folded("ot: 1 tool", (Rows((Row("ot.help", "Help."),)),)),
    Note("Look one up."),
)
TAGS = {
    "div",
    "span",
    "strong",
    "em",
    "code",
    "pre",
    "table",
    "tbody",
    "tr",
    "td",
    "details",
    "summary",
    "button",
}
TEXT = """\
geo (local, 2 tools)

Places of **addresses**: `lat`, $5 or $6.

  geo.locate  Find the *places*.
  geo.x       y

Servers:
  maps  failed     It ended.
  time  connected

Next:
  %tool info NAME  what it does

Example:
  geo.locate("Ring")

ot: 1 tool:
  ot.help  Help.

Look one up."""


class Reader(HTMLParser):
    """Collects the tags with their attributes, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.said += data


def test_a_page_is_good_text_in_a_terminal() -> None:
    page = PageText(to_text(PARTS), PARTS)

    assert page == TEXT
    assert repr(page) == TEXT


def test_the_html_says_the_same_and_needs_nothing_from_elsewhere() -> None:
    shown = PageText(TEXT, PARTS)._repr_html_()
    read = Reader(shown)

    for words in (
        "geo",
        "local, 2 tools",
        "addresses",
        "Find the places.",
        "It ended.",
        "connected",
        "what it does",
    ):
        assert words in read.said
    assert "mathjax_ignore tex2jax_ignore" in str(read.tags[0][1]["class"])
    assert {tag for tag, _ in read.tags} <= TAGS
    assert not re.search(r"https?:|src=|href=|@import|url\(|<script|<h\d", shown)
    assert "--jp-" in shown


def test_a_name_is_one_plain_text_with_a_hidden_empty_button() -> None:
    """Without our JupyterLab extension there is no dead link: the button is hidden, and the name
    stands there once."""
    read = Reader(to_html(PARTS))
    buttons = [attrs for tag, attrs in read.tags if tag == "button"]

    assert read.said.count("geo.locate") == 2  # the name, and the example
    assert all(each["style"] == "display:none" and each["type"] == "button" for each in buttons)
    does = [
        (b["data-commandlinker-command"], json.loads(str(b["data-commandlinker-args"])))
        for b in buttons
    ]
    assert does == [
        ("onetool:show", {"name": "geo"}),
        ("onetool:show", {"name": "geo.locate"}),
        ("onetool:insert", {"line": "%tool info "}),
    ]
    assert buttons[1]["aria-label"] == "Open geo.locate"


def test_a_state_has_a_dot_and_a_word() -> None:
    shown = to_html(PARTS)

    assert shown.count('<span aria-hidden="true"') == 2
    assert re.search(r"error-color1[^>]*>●</span> <span[^>]*>failed<", shown)
    assert re.search(r"success-color1[^>]*>●</span> <span[^>]*>connected<", shown)


@pytest.mark.parametrize(
    "evil",
    [*EVIL, "[x](javascript:alert(1))", "![x](https://e.example/x.png)", "<h1>x</h1>"],
    ids=ascii,
)
def test_nothing_from_outside_becomes_html(evil: str) -> None:
    row = Row(evil, evil, evil, "bad", "tool")
    parts = (
        Heading(evil, evil),
        Prose(evil),
        Note(evil),
        Code(evil),
        Rows((row,)),
        Rows((row,), is_prose=True),
        Folded(evil, ()),
    )
    read = Reader(to_html(parts))

    assert not {tag for tag, _ in read.tags} & {"script", "img", "b", "x", "h1"}
    assert not [key for _, attrs in read.tags for key in attrs if key.startswith("on")]
    links = [attrs["href"] for tag, attrs in read.tags if tag == "a"]
    assert all(str(link).startswith("https://e.example/") for link in links)
    assert not re.search(r"[\x00\u202e]", to_html(parts) + to_text(parts))


def test_long_names_and_texts_wrap_at_the_width_of_the_terminal() -> None:
    rows = Rows((Row("pack." + "n" * 40, "word " * 30, "str"), Row("pack.b", "word " * 30, "int")))
    lines = to_text((rows,), 60).splitlines()

    assert max(map(len, lines)) <= 60
    assert lines[0].split() == ["pack." + "n" * 40, "str"]
    assert lines[1].startswith(" " * 13 + "word")
    assert sum(line.count("word") for line in lines) == 60


def test_secrets_are_masked_in_every_part() -> None:
    hidden = masked(PARTS, lambda text: text.replace("Ring", "***").replace("places", "***"))

    assert "Ring" not in to_html(hidden) + to_text(hidden)
    assert "places" not in to_html(hidden) + to_text(hidden)
    assert [type(part) for part in hidden] == [type(part) for part in PARTS]


def test_a_page_survives_copies_and_pickles() -> None:
    page = PageText(TEXT, PARTS)
    for made in (copy.copy(page), copy.deepcopy(page), pickle.loads(pickle.dumps(page))):
        assert (made, made.parts) == (page, page.parts)


def test_prose_that_is_too_long_to_render_is_shown_as_written() -> None:
    shown = to_html((Prose("*a* " * 6_000),))
    assert "*a* *a*" in shown
    assert "<em>" not in shown


@pytest.mark.parametrize("begin", ["> ", "[", "*", "<", "- ", "![", "[a](", "`a", "<!--", "**a "])
def test_no_markdown_hangs_or_breaks_a_page(begin: str) -> None:
    assert to_html((Prose(begin * (20_000 // len(begin))),)).endswith("</div></div>")
