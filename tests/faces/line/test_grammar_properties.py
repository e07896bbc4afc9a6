"""Properties of the grammar: nothing but UsageProblem, linear time, and calls that read back."""

from __future__ import annotations

import contextlib
import json
import string
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.core.tool import format_call
from onetool_ipy.faces.line.grammar import (
    FLAGS,
    read_arguments,
    read_body,
    read_options,
    split_line,
)
from onetool_ipy.faces.line.tokenizer import closed_words, words

SCHEMA: dict[str, Any] = {
    "properties": {
        "q": {"type": "string"},
        "n": {"type": "integer"},
        "v": {"type": "array"},
        "d": {"type": "object"},
        "u": {"type": ["string", "number", "array", "null"]},
    },
    "required": ["q"],
}
KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array"}
MEGABYTE = 1_000_000
ODD_PIECES = """
t q n v d u = == ' " \'\'\' \\ ( ) [ ] { } , : * ** -- -o --soft --timeout ? ; # $ 1 1e3 1_0 0x - x
true null None NaN lambda f' r" é 😀 don't yield await for in := &a !!x ~
"""

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=30)
pieces = st.sampled_from(
    [*ODD_PIECES.split(), " ", "  ", ": ", "- ", "\n", "\t", "\x00", "\ud800", "\u00a0", '"' * 3]
)
odd_lines = st.lists(pieces, max_size=25).map("".join) | st.text(max_size=60)


def evaluate(source: str) -> object:
    compile(source, "<value>", "eval")
    return len(source)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(odd_lines)
@example("t(" + "-" * 20_000 + "1)")
@example("t u=" + "[" * 20_000)
@example("t u=" + "[" * 20_000 + "]" * 20_000)
@example("t u=" + "1" * 5_000)
@example("t(\ud800)")
@example("t {" + "{" * 300 + "}" * 300 + "}")
def test_any_text_gives_a_value_or_a_usage_problem(line: str) -> None:
    """No line, however odd, shows a stranger's exception."""
    told = _refusal(lambda: read_arguments(split_line(line, ("list",)).rest, SCHEMA, evaluate))
    for other in (lambda: read_options(line, FLAGS), lambda: closed_words(line)):
        told = _refusal(other) or told
    if told is not None:
        assert told.hint
        assert len(told.lines()) <= 3
        assert all(shown.isprintable() for shown in told.lines())


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(odd_lines)
@example("--soft a=1 -o x b=2")
@example("a=[1 --soft b=2]")
def test_the_words_of_a_call_are_those_of_its_argument_text(line: str) -> None:
    with contextlib.suppress(UsageProblem):
        asked = split_line(f"t {line}", ())
        if asked.words is not None:
            assert list(asked.words) == words(asked.rest)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(odd_lines, st.booleans())
def test_any_body_gives_a_value_or_a_usage_problem(body: str, as_args: bool) -> None:
    """No body, however odd, shows a stranger's exception."""
    told = _refusal(lambda: read_body(body, {"n": 1}, SCHEMA, as_args=as_args))
    assert told is None or (told.hint and len(told.lines()) <= 3)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(odd_lines)
def test_words_cover_the_text_and_never_raise(text: str) -> None:
    """Words stand in order, apart, and leave out nothing but blanks."""
    found = words(text)
    place = 0
    for word in found:
        assert text[place : word.start].strip() == ""
        assert place <= word.start < word.end
        assert word.start <= word.value_start <= word.end
        place = word.end
    assert text[place:].strip() == ""


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(names, st.dictionaries(st.text(), json_values, max_size=4))
def test_a_written_call_reads_back(name: str, args: dict[str, Any]) -> None:
    """`format_call` -> `split_line` -> `read_arguments` gives the same, also by a schema that
    fits."""
    line = format_call(name, args)
    assert line.isprintable()
    asked = split_line(line.removeprefix("%tool"), ())
    assert (asked.kind, asked.name) == ("call", name)
    typed = {
        key: {"type": KINDS.get(type(value), ["null", "object"])} for key, value in args.items()
    }
    wide = {key: {"anyOf": [typed[key], {"type": "string"}]} for key in args}
    for properties in ({}, typed, wide):
        got = read_arguments(asked.rest, {"properties": properties}, eval)
        assert json.dumps(got, sort_keys=True) == json.dumps(args, sort_keys=True)


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_quoted_text_is_always_that_text(text: str) -> None:
    """Quoted values are text by any schema; in single quotes nothing is escaped."""
    double = text.replace("\\", "\\\\").replace('"', '\\"')
    for name in SCHEMA["properties"]:
        assert read_arguments(f'{name}="{double}"', SCHEMA, evaluate) == {name: text}
        if "'" not in text:
            assert read_arguments(f"{name}='{text}'", SCHEMA, evaluate) == {name: text}


@settings(max_examples=200, deadline=None)
@given(st.text(string.ascii_letters + string.digits + "\\:/.,;?&#$%@!~^*+-<>|é😀=", min_size=1))
def test_text_without_blanks_stays_as_typed(text: str) -> None:
    """Where text is wanted it stays as typed."""
    if not text.startswith("="):
        assert read_arguments(f"q={text}", SCHEMA, evaluate) == {"q": text}


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda n: "t q=" + "a" * n, id="text"),
        pytest.param(lambda n: 't q="' + "a b" * (n // 3) + '"', id="quoted"),
        pytest.param(lambda n: 't q="' + 'a word \\"' * (n // 9) + '"', id="escapes"),
        pytest.param(lambda n: "t v=" + json.dumps(list(range(n // 7))), id="list"),
        pytest.param(lambda n: "t " + json.dumps({"q": "a" * n}), id="all as JSON"),
        pytest.param(lambda n: "t(q='" + "a" * n + "')", id="call"),
        pytest.param(lambda n: "t u=" + "1" * n, id="digits"),
        pytest.param(lambda n: "t q=" + "=" * n, id="equals"),
        pytest.param(lambda n: 't q="' + "a " * (n // 2), id="unclosed quote"),
        pytest.param(lambda n: "t --" + "x" * n, id="flag"),
    ],
)
def test_a_megabyte_is_read_at_once(make: Callable[[int], str]) -> None:
    """1 MB takes as long as eight eighths of it; eight times as long would be quadratic."""
    assert _is_linear(make, MEGABYTE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda n: "t q=" + "(" * n, id="openers"),
        pytest.param(lambda n: "t q=" + "()" * n, id="pairs"),
        pytest.param(lambda n: "t " + "a( " * n, id="open words"),
        pytest.param(lambda n: "t q=(" + "\\'" * n, id="escaped quotes"),
        pytest.param(lambda n: "t q=(" + "'\"" * n, id="mixed quotes"),
        pytest.param(lambda n: 't q="' + '\\"' * n + '"', id="escapes"),
        pytest.param(lambda n: "t q=(" + '"""' * n, id="triple quotes"),
        pytest.param(lambda n: "t q=" + "a'" * n + "a", id="apostrophes"),
        pytest.param(lambda n: "t " + " ".join(f"k{i}=1" for i in range(n)), id="keys"),
        pytest.param(lambda n: "t(" + ", ".join(f"k{i}=1" for i in range(n)) + ")", id="call"),
    ],
)
def test_hostile_lines_take_linear_time(make: Callable[[int], str]) -> None:
    """The same of lines that are made to be slow."""
    assert _is_linear(make, 8_000)


def _refusal(read: Callable[[], object]) -> UsageProblem | None:
    try:
        read()
    except UsageProblem as exc:
        return exc
    return None


def _is_linear(make: Callable[[int], str], length: int) -> bool:
    """Whether a long line takes about the CPU of eight short ones, at the best of three."""
    whole, part = make(length), make(length // 8)
    return (
        min(_seconds(whole, 1) for _ in range(3))
        < 3 * min(_seconds(part, 8) for _ in range(3)) + 0.005
    )


def _seconds(line: str, times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        with contextlib.suppress(UsageProblem):
            read_arguments(split_line(line, ("list",)).rest, SCHEMA, eval)
    return time.process_time() - start
