"""Words, options, the cell's body, and the line that a call is written as."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.line.grammar import OptionKind, read_body, read_options
from onetool_ipy.faces.line.tokenizer import closed_words, words

LIST_OPTIONS: dict[str, OptionKind] = {"--json": "switch", "--limit": "number", "--pack": "text"}
SEND: dict[str, Any] = {
    "properties": {
        "to": {"type": "string"},
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "meta": {"type": "object", "additionalProperties": {"type": "string"}},
        "when": {"type": "string"},
        "any": {},
    },
    "required": ["to", "text", "count"],
}


def refused(body: str, args: dict[str, Any] | None = None, **options: Any) -> list[str]:
    with pytest.raises(UsageProblem) as caught:
        read_body(body, args or {}, SEND, **options)
    return caught.value.lines()


@given(st.text(st.sampled_from("ab= \t\u00a0\x1c\u2028\n;-$,:.\\é"), max_size=12))
def test_a_line_without_quotes_is_read_as_any_other(line: str) -> None:
    """A quote at its end makes the reader look at each character."""
    *long_way, last = words(f"{line} '")
    assert words(line) == long_way
    assert last.text == ""


def test_words_know_where_they_stand() -> None:
    """Completion needs offsets, keys and values."""
    text = '  a  q="b c" v=[1, 2] don\'t'
    found = words(text)
    assert [text[word.start : word.end] for word in found] == ["a", 'q="b c"', "v=[1, 2]", "don't"]
    assert [(word.key, word.value) for word in found] == [
        ("", "a"),
        ("q", "b c"),
        ("v", "[1, 2]"),
        ("", "don't"),
    ]
    assert [word.quoted for word in found] == [False, True, False, False]
    assert [word.group for word in found] == [False, False, True, False]
    assert text[found[2].value_start] == "["


@pytest.mark.parametrize(
    ("text", "value", "unclosed"),
    [
        pytest.param('q="a b', "a b", 2, id="double quote"),
        pytest.param("q='a b", "a b", 2, id="single quote"),
        pytest.param(r'q="a\"', 'a"', 2, id="escaped quote"),
        pytest.param('q="a\\', "a\\", 2, id="backslash at the end"),
        pytest.param("q=(a", "(a", 2, id="bracket"),
        pytest.param("q=", "", -1, id="nothing"),
    ],
)
def test_words_of_a_broken_line_are_given(text: str, value: str, unclosed: int) -> None:
    """Completion works in the middle of a broken line."""
    (word,) = words(text)
    assert (word.key, word.value, word.unclosed) == ("q", value, unclosed)


def test_closed_words_take_quotes_off() -> None:
    """A sub-command's own words come from the same tokenizer."""
    assert [word.text for word in closed_words("a 'b c' d=\"e f\" [1, 2] ")] == [
        "a",
        "b c",
        "d=e f",
        "[1, 2]",
    ]
    with pytest.raises(UsageProblem, match="quote at character 3"):
        closed_words("a 'b")


@pytest.mark.parametrize(
    ("text", "found", "given"),
    [
        pytest.param("", [], {}, id="empty"),
        pytest.param("--json PAT", ["PAT"], {"--json": True}, id="before"),
        pytest.param("PAT --json", ["PAT"], {"--json": True}, id="after"),
        pytest.param("--limit 5 a", ["a"], {"--limit": 5}, id="value"),
        pytest.param("--limit=5 a", ["a"], {"--limit": 5}, id="value with ="),
        pytest.param("--pack 'a b'", [], {"--pack": "a b"}, id="quoted value"),
        pytest.param("-- --json", ["--json"], {}, id="behind --"),
        pytest.param("'--json'", ["--json"], {}, id="quoted"),
        pytest.param("-5 -", ["-5", "-"], {}, id="not options"),
    ],
)
def test_read_options_of_a_sub_command(text: str, found: list[str], given: dict[str, Any]) -> None:
    """`%tool list --json PATTERN`."""
    options = read_options(text, LIST_OPTIONS)
    assert (options.words, options.values) == (found, given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("--jsno", "No flag '--jsno'. Did you mean '--json'?", id="typo"),
        pytest.param("--limit x", "'--limit' needs a whole number, not 'x'.", id="no number"),
        pytest.param("--limit", "'--limit' needs a whole number.", id="no value"),
        pytest.param("--limit -1", "'--limit' needs a whole number, not '-1'.", id="negative"),
        pytest.param("--limit ²", "'--limit' needs a whole number, not '²'.", id="odd digit"),
        pytest.param("--pack=", "'--pack' needs a value.", id="empty"),
        pytest.param("--pack a --pack b", "'--pack' is given twice.", id="twice"),
        pytest.param("--json=1", "'--json' takes no value: '--json=1'.", id="switch with value"),
    ],
)
def test_a_bad_option_is_refused(text: str, message: str) -> None:
    """Short errors that name the nearest option."""
    with pytest.raises(UsageProblem) as caught:
        read_options(text, LIST_OPTIONS)
    assert caught.value.message == message
    assert caught.value.hint


def test_the_body_is_the_one_required_text_still_missing() -> None:
    """`%%tool NAME to=x`: the body is `text`; the line break that ends the cell is not part of
    it."""
    args = {"to": "x"}
    assert read_body("a\n\nb\n", args, SEND) == {"to": "x", "text": "a\n\nb"}
    assert read_body("a\n\n", args, SEND)["text"] == "a\n"
    assert args == {"to": "x"}


def test_a_body_of_blanks_is_none() -> None:
    """The check of the call then names what is missing."""
    assert read_body(" \n\n", {"to": "x"}, SEND) == {"to": "x"}


def test_a_body_that_fits_two_arguments_or_none_is_refused() -> None:
    """The error names them and says which flag to use."""
    assert refused("a")[0] == "The body may be 'to' or 'text'."
    assert "--body to" in refused("a")[1]
    told = refused("a", {"to": "x", "text": "y"})
    assert told[0] == "No required text argument is missing that the body could be."
    assert "--body count" in told[1]


def test_body_flag_names_the_argument() -> None:
    """`--body ARG`, also for one that is not required or no text."""
    assert read_body("a: b\n", {}, SEND, body_arg="when") == {"when": "a: b"}
    assert read_body("5\n", {}, SEND, body_arg="any") == {"any": "5"}
    assert read_body("[1,\n 2]\n", {}, SEND, body_arg="tags") == {"tags": [1, 2]}
    assert refused("a", body_arg="txt")[0] == "--body: no argument 'txt'. Did you mean 'text'?"
    assert refused("a", {"to": "x"}, body_arg="to")[0].startswith("'to' is given twice")
    assert refused("a", body_arg="to", as_args=True)[0] == "--body and --args cannot go together."
    assert read_body("a", {}, {}, body_arg="free") == {"free": "a"}


def test_args_flag_reads_yaml_by_the_schema() -> None:
    """Text stays as typed where text is wanted; YAML's own surprises stay out."""
    body = """\
to: 00501          # a comment
text: |
  two
  lines
count: 1e3
tags: [no, 5, "x", ~]
meta: {version: 1.10, on: yes}
when: 2024-01-01
any: {a: 5, b: [true, null, no], c: }
"""
    assert read_body(body, {}, SEND, as_args=True) == {
        "to": "00501",
        "text": "two\nlines\n",
        "count": 1000,
        "tags": ["no", "5", "x", "~"],
        "meta": {"version": "1.10", "on": "yes"},
        "when": "2024-01-01",
        "any": {"a": 5, "b": [True, None, "no"], "c": None},
    }


def test_args_flag_reads_json_and_adds_to_the_line() -> None:
    """JSON is taken as it is; nothing may be given twice."""
    body = json.dumps({"text": "a", "any": {"b": [1, None]}})
    assert read_body(body, {"to": "x"}, SEND, as_args=True) == {"to": "x"} | json.loads(body)
    assert read_body("\n", {"to": "x"}, SEND, as_args=True) == {"to": "x"}
    assert read_body("# only a comment\n", {}, SEND, as_args=True) == {}
    assert refused("to: y", {"to": "x"}, as_args=True)[0].startswith("'to' is given twice")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param("- a\n- b", "--args: the body is not a mapping: '- a\\n- b'.", id="list"),
        pytest.param("hello", "--args: the body is not a mapping: 'hello'.", id="text"),
        pytest.param("a: 1\na: 2", "--args: line 2 has 'a' a second time", id="twice"),
        pytest.param('{"a": 1, "a": 2}', "'a' is given twice in {...}.", id="twice in JSON"),
        pytest.param("a: &x [1]\nb: *x", "--args: line 2 has the alias '*x'", id="alias"),
        pytest.param("a: !!python/object:os.system 1", "--args: line 1 has the tag", id="tag"),
        pytest.param("a: 1\n\tb: 2", "--args: the body is not YAML in line 2: ", id="tab"),
        pytest.param("a: [1, 2", "--args: the body is not YAML in line ", id="unclosed"),
        pytest.param("a: b: c", "--args: the body is not YAML in line 1: ", id="two colons"),
        pytest.param("a: 1\n---\nb: 2", "--args: line 2 has a second document", id="documents"),
        pytest.param("? [a]\n: b", "--args: line 1 has a key that is not text", id="key"),
        pytest.param("a: " + "[" * 5000, "--args: line 1 has more than 64 levels", id="deep"),
        pytest.param("a: " + "[" * 5000 + "]" * 5000, "--args: line 1 has more than", id="deep 2"),
        pytest.param("a: \x00", "--args: the body has a character", id="NUL"),
        pytest.param("a: \ud800", "--args: the body has a character", id="surrogate"),
        pytest.param("a: b\n" * 300_000, "--args: 1,499,999 characters are too many", id="long"),
        pytest.param("{" * 5000, "--args: ", id="deep JSON"),
    ],
)
def test_a_bad_args_body_is_refused(body: str, message: str) -> None:
    """YAML with a tab, a duplicate key, a 5,000-deep list, an alias bomb."""
    told = refused(body, as_args=True)
    assert told[0].startswith(message)
    assert len(told) == 2
