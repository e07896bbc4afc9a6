"""A snippet's body expanded: a value stays a value wherever it is written, and nothing runs without
an end."""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.snippets.definition import (
    Bare,
    Snippet,
    expand,
    read_snippet,
)

EVIL = [
    '"); import os #',
    "'); import os #",
    '"""); import os #',
    "''' + evil() + '''",
    '\\"); evil() #',
    "{evil()}",
    "{{evil()}}",
    "\n import os",
    "\r\nimport os",
    "a\\",
    "\\",
    '"',
    "'",
    "",
    "\x00",
    "\u2028import os",
    "\x0cimport os",
    "{{ 7*7 }}",
    "{% for i in x %}",
    "\ue0000:0\ue001",
    "é 漢 \U0001f600 \ud800",
    "%rm -rf x",
    "!ls",
    "$(rm)",
]


@contextmanager
def memory_of(size: int) -> Iterator[None]:
    """Let this process take so many bytes more, and no more. Tracing its memory would take ten
    times the CPU."""
    import resource

    usage = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(
        resource.RLIMIT_DATA, (int(usage["VmData"].split()[0]) * 1024 + size, before[1])
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def snippet(body: str, **params: Any) -> Snippet:
    return read_snippet("s", {"body": body, "params": params})


def test_body_of_the_spec_expands_to_the_letter() -> None:
    one = snippet(
        'results = brave.search(query="{{ topic }}", count={{ count }})',
        topic={},
        count={"default": 5},
    )

    assert (
        expand(one, {"topic": Bare("Python")}) == 'results = brave.search(query="Python", count=5)'
    )


@pytest.mark.parametrize("value", EVIL, ids=ascii)
@pytest.mark.parametrize(
    "body",
    [
        'f("{{ v }}")',
        "f('{{ v }}')",
        'f("""{{ v }}""")',
        "f('''a {{ v }} b''')",
        "f({{ v }})",
        "f(u'{{ v }}')",
        'f(f"{{ v }}")',
        "f(f'''{{ v }}''')",
        "f([{{ v }}][0])",
        "f(\n  {{ v }},\n)",
    ],
)
def test_value_reaches_the_code_whole_and_does_nothing_else(body: str, value: str) -> None:
    code = expand(snippet(body, v={}), {"v": value})

    seen: list[str] = []
    exec(compile(code, "<snippet>", "exec"), {"__builtins__": {}, "f": seen.append})

    assert [
        text.removeprefix("a ").removesuffix(" b") if "a {{" in body else text for text in seen
    ] == [value]


@pytest.mark.parametrize("value", EVIL, ids=ascii)
@pytest.mark.parametrize(
    "body", ["f(r'{{ v }}')", "f(rf'{{ v }}')", "f(r'''{{ v }}''')", "f(rb'{{ v }}')"]
)
def test_raw_string_holds_the_value_or_it_is_refused(body: str, value: str) -> None:
    try:
        code = expand(snippet(body, v={}), {"v": value})
    except UsageProblem:
        return
    seen: list[Any] = []
    exec(compile(code, "<snippet>", "exec"), {"__builtins__": {}, "f": seen.append})

    assert seen == [value.encode() if "rb" in body else value]


def test_bytes_hold_the_value_as_utf8() -> None:
    code = expand(snippet("x = b'{{ v }}'", v={}), {"v": "é'\n"})

    assert ast.literal_eval(code[4:]) == "é'\n".encode()


@pytest.mark.parametrize("value", EVIL, ids=ascii)
def test_comment_stays_one_line(value: str) -> None:
    code = expand(snippet("x = 1  # {{ v }}\ny = 2", v={}), {"v": value})

    assert [type(node).__name__ for node in ast.parse(code).body] == ["Assign", "Assign"]


@pytest.mark.parametrize("value", EVIL, ids=ascii)
@pytest.mark.parametrize(
    "body", ["!ls {{ v }}", "%tool a.b q={{ v }}", '%tool a.b q="{{ v }}"', "$ws q={{ v }}"]
)
def test_magic_and_shell_lines_take_harmless_values_only(body: str, value: str) -> None:
    try:
        line = expand(snippet(body, v={}), {"v": value})
    except UsageProblem:
        return

    assert not set(value) & set("\"'`\\;|&<>(){}$*?#~!\n\r")
    assert line == body.replace("{{ v }}", value)


def test_magic_lines_take_plain_values() -> None:
    assert expand(snippet("!ls {{ v }}", v={}), {"v": "a/b-1.txt"}) == "!ls a/b-1.txt"
    assert (
        expand(snippet('%tool a.b q="{{ v }}"', v={}), {"v": "two words"})
        == '%tool a.b q="two words"'
    )
    with pytest.raises(UsageProblem, match="option"):
        expand(snippet("!rm {{ v }}", v={}), {"v": "-rf"})


@pytest.mark.parametrize(
    "body",
    [
        *("f{{ v }}", "rb{{ v }}", "{{ v }}abc", "''{{ v }}", "{{ v }}''"),
        *("'\\{{ v }}'", "f'{ {{ v }} }'", "f'{x:{{ v }}}'"),
    ],
)
def test_text_at_a_place_where_it_cannot_be_safe_is_refused(body: str) -> None:
    with pytest.raises(UsageProblem):
        expand(snippet(body, v={}), {"v": "{evil()}'\"\\"})


def test_empty_value_cannot_join_the_quotes_around_it() -> None:
    """Found by re-reading the result: each of these would move the end of a string."""
    for body in ("x = '{{ v }}''a'", 'x = "{{ v }}""a"'):
        with pytest.raises(UsageProblem, match="would change how the code"):
            expand(snippet(body, v={}), {"v": ""})
    with pytest.raises(UsageProblem, match="right after a backslash"):
        expand(snippet("x = r'\\{{ v }}', '{{ w }}'", v={}, w={"default": "+evil()+"}), {"v": ""})


@pytest.mark.parametrize(
    ("body", "value", "code"),
    [
        ("x = {{ v }}**2", -3, "x = (-3)**2"),
        ("x = 1 - {{ v }}", -3, "x = 1 - (-3)"),
        ("x = {{ v }}.real", 3, "x = (3).real"),
        ("x = f({{ v }})", -3, "x = f(-3)"),
        ("x = {{ v }}", float("inf"), "x = float('inf')"),
        ("x = {{ v }}", (1,), "x = (1,)"),
        ("x = {{ v }}", {"a": [None, True]}, "x = {'a': [None, True]}"),
        ("x_{{ v }} = 1", 5, "x_5 = 1"),
        ("x = f'{y} {{ v }}'", "{z}", "x = f'{y} {{z}}'"),
        ("if a:\n    !ls {{ v }}\n    x = {{ v }}", "b", "if a:\n    !ls b\n    x = 'b'"),
        ("x = (a\n% {{ v }})", "b", "x = (a\n% 'b')"),
        ("# it's\n%tool a.b q={{ v }}", "b", "# it's\n%tool a.b q=b"),
        ('x = """\n%s {{ v }}"""', "b c", 'x = """\n%s b c"""'),
        ("%%bash\necho 'a\n{{ v }}", "b", "%%bash\necho 'a\nb"),
        ("!ls \\\n  {{ v }}\ny = {{ v }}", "b", "!ls \\\n  b\ny = 'b'"),
        ("x = '{{ v }}'", [1, "a"], "x = '[1, \\'a\\']'"),
    ],
)
def test_value_is_written_for_its_place(body: str, value: Any, code: str) -> None:
    assert expand(snippet(body, v={}), {"v": value}) == code


@pytest.mark.parametrize(
    "body", ["x = f'{ {{ v }} }'", "x = f'{y:{{ v }}}'", "x = f'{{ v }} { {{ v }} }'"]
)
def test_value_in_the_braces_of_an_f_string_is_refused_with_the_way_out(body: str) -> None:
    with pytest.raises(UsageProblem, match="assign it to a variable"):
        expand(snippet(body, v={}), {"v": 5})


@pytest.mark.parametrize("body", ["x = 'never {{ v }}\ny = 1", "x = ({{ v }}", 'x = """{{ v }}'])
def test_body_that_is_not_closed_is_refused(body: str) -> None:
    with pytest.raises(UsageProblem, match="Line 1: a string or a bracket is not closed"):
        expand(snippet(body, v={}), {"v": "a"})


@pytest.mark.slow
def test_body_of_many_lines_is_read_once() -> None:
    """A reader that began again at each line would need minutes; the limit of every test ends
    that."""
    lines = "y = 1\n" * 40_000

    assert expand(snippet(lines + "x = {{ v }}", v={}), {"v": 1}) == lines + "x = 1"


def test_object_without_a_literal_is_refused_with_the_way_out() -> None:
    with pytest.raises(UsageProblem, match="type: name"):
        expand(snippet("x = {{ v }}", v={}), {"v": object()})


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    value=st.text(),
    quote=st.sampled_from(["'", '"', "'''", '"""']),
    prefix=st.sampled_from(["", "u", "f"]),
    around=st.text("'\" ab", max_size=6),
)
def test_no_text_breaks_out_of_a_string(value: str, quote: str, prefix: str, around: str) -> None:
    """Whatever the author wrote around it: the value arrives whole, or the snippet says why not."""
    around = around.replace(quote[0], "")
    body = f"f({prefix}{quote}{around}{{{{ v }}}}{around}{quote})"
    try:
        code = expand(snippet(body, v={}), {"v": value})
    except UsageProblem:
        return
    seen: list[str] = []
    exec(compile(code, "<snippet>", "exec"), {"__builtins__": {}, "f": seen.append})

    assert seen == [around + value + around]


_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(_PLAIN)
def test_plain_value_in_code_is_itself(value: Any) -> None:
    code = expand(snippet("x = ({{ v }})", v={}), {"v": value})

    assert ast.literal_eval(code[5:-1]) == value


# The language, and its limits


def test_statements_leave_no_lines_behind() -> None:
    loop = "{% for n in names %}\nprint({{ n }})\n{% endfor %}\n"
    one = snippet(
        loop + "{% if names %}\ndone = {{ names | length }}\n{% endif %}\n", names={"type": "list"}
    )

    assert expand(one, {"names": ["a", "b"]}) == "print('a')\nprint('b')\ndone = 2\n"


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("v | upper", "'A B'"),
        ("v | lower", "'a b'"),
        ("v | default('x')", "'a b'"),
        ("w | default('x')", "'x'"),
        ("l | join(', ')", "'x, y'"),
        ("l | tojson", "['x', 'y']"),
        ("l | first", "'x'"),
        ("l | sort | reverse | list", "['y', 'x']"),
        ("v.split(' ')", "['a', 'b']"),
        ("v ~ '-' ~ n", "'a b-3'"),
        ("n * 2 + 1", "7"),
        ("v | replace(' ', '_')", "'a_b'"),
        ("range(3) | list", "[0, 1, 2]"),
        ("[1, 2] | sum", "3"),
        ("l | map('upper') | join", "'XY'"),
        ("v if n > 2 else l", "'a b'"),
    ],
)
def test_harmless_filters_and_expressions_work(expression: str, code: str) -> None:
    one = snippet(
        f"x = {{{{ {expression} }}}}",
        v={"default": "a b"},
        n={"default": 3},
        l={"default": ["x", "y"]},
    )

    assert expand(one, {}) == f"x = {code}"


def test_json_inside_quotes_is_json() -> None:
    code = expand(snippet("x = '{{ v | tojson }}'", v={}), {"v": {"a": ["it's", None]}})

    assert ast.literal_eval(code[4:]) == '{"a": ["it\'s", null]}'


@pytest.mark.posix("the memory of a process, as POSIX counts it")
@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "{% for i in range(10**9) %}x{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(9999) %}{% for j in range(9999) %}x{% endfor %}{% endfor %}",
        "{{ 'a' * 10**10 }}",
        "{{ [0] * 10**10 }}",
        "{{ 9**(9**9) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ 'a'.ljust(10**10) }}",
        "{{ 'a' | center(10**10) }}",
        "{{ 'aaaa' | replace('a', 'a' * 400000) }}",
        "{{ ['x' * 900000, 'x' * 900000] | join }}",
        "{% set a = 'aaaaaaaaaa' %}" + "{% set a = a ~ a ~ a ~ a ~ a ~ a %}" * 12 + "{{ a }}",
        "{% set a = [1, 1] %}" + "{% set a = [a, a] %}" * 60 + "x = {{ a }}",
        "{% set a = [1, 1] %}" + "{% set a = [a, a] %}" * 60 + "x = '{{ a | string }}'",
        "{% set a = [1, 1] %}" + "{% set a = [a, a] %}" * 60 + "x = {{ a | tojson }}",
        "{% for i in range(2000) %}'{{ 'x' * 1000 }}'\n{% endfor %}",
        "{{ range(10**6) | list }}",
    ],
    ids=range(18),
)
@pytest.mark.linux("a limit of the memory of one process")
def test_endless_loops_and_bombs_are_stopped(body: str) -> None:
    began = time.thread_time()
    with memory_of(100_000_000), pytest.raises(UsageProblem, match="cannot be expanded"):
        expand(snippet(body), {})

    assert time.thread_time() - began < 5


@pytest.mark.parametrize(
    "body",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ v.__init__.__globals__ }}",
        "{{ v | attr('__class__') }}",
        "{{ l.append(1) }}",
        "{{ self }}",
        "{{ cycler }}",
        "{{ lipsum }}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
        "{% macro m() %}{% endmacro %}",
        "{% set x %}{{ v }}{% endset %}",
        "{% filter upper %}{{ v }}{% endfilter %}",
        "{% block b %}{% endblock %}",
        "{{ missing }}",
        "{{ v.missing }}",
        "{{ v",
        "{% for x in 5 %}{% endfor %}",
        "{{ 1 / 0 }}",
        "{{ v | nosuch }}",
        "{{ v | safe }}",
    ],
)
def test_what_is_not_for_snippets_is_refused_in_words(body: str) -> None:
    one = snippet(body, v={"default": "a"}, l={"default": [1]})

    with pytest.raises(UsageProblem) as caught:
        expand(one, {})

    assert "The snippet 's' cannot be expanded." in caught.value.message
    assert "0x" not in caught.value.message
    assert len(caught.value.lines()) <= 5


def test_mark_of_another_expansion_in_a_body_is_text() -> None:
    assert expand(snippet("'\ue0000:0\ue001{{ v }}'", v={}), {"v": "a"}) == "'\ue0000:0\ue001a'"
