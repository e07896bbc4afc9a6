"""`$`, `%snippet` and `%%snippet` in a real kernel."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from tests.harness.kernel import Kernel
from tests.harness.patience import HANG_S

CONFIG = """
version: 1
aliases: {say: tools.echo, again: say, lost: nope.nope, round: trip, trip: round}
snippets:
  pair:
    description: Say two things
    params: {first: {description: The first}, count: {default: 2}}
    body: |
      words = ["{{ first }}"] * {{ count }}
      words
"""


@pytest.fixture
def loaded(kernel: Kernel) -> Kernel:
    folder = kernel.cwd / ".onetool"
    folder.mkdir()
    (folder / "onetool.yaml").write_text(CONFIG, encoding="utf-8")
    kernel.execute("%load_ext onetool_ipy")
    return kernel


def test_an_alias_calls_its_tool_also_through_a_chain(loaded: Kernel) -> None:
    assert loaded.execute("$say message=hello").result_text == "hello"
    loaded.execute("x = $again message=[1, 2]")
    assert loaded.evaluate("(x.data, type(x).__name__)") == repr(([1, 2], "ToolResult"))
    loaded.execute("y = [0]\ny += $say message=[5]")
    assert loaded.evaluate("y") == "[0, 5]"


def test_a_tool_is_called_by_its_own_name(loaded: Kernel) -> None:
    assert loaded.execute("$tools.echo message=direct").result_text == "direct"


def test_a_snippet_runs_in_the_notebooks_namespace_and_gives_its_last_value(loaded: Kernel) -> None:
    loaded.execute("x = $pair first=tea")
    assert loaded.evaluate("(x, words)") == repr((["tea", "tea"], ["tea", "tea"]))
    assert loaded.execute("%snippet pair first=cup count=1").result_text == "['cup']"
    assert (
        loaded.execute("%snippet pair first=cup --show").result_text == 'words = ["cup"] * 2\nwords'
    )


def test_shortcuts_work_in_functions_and_loops(loaded: Kernel) -> None:
    outcome = loaded.execute(
        textwrap.dedent("""
        def f(value):
            got = $say message={value * 2}
            return got.data
        found = []
        for i in range(2):
            each = $pair first=x
            found.append(len(each))
        print(f(4), found)
        """)
    )
    assert outcome.stdout == "8 [2, 2]\n"


def test_a_cell_becomes_a_snippet_of_this_session(loaded: Kernel) -> None:
    said = loaded.execute(
        "%%snippet double value factor=2\nresult = {{ value }} * {{ factor }}\nresult\n"
    ).result_text
    assert "$double value=... [factor=2]" in said
    assert loaded.execute("$double value=21").result_text == "42"
    assert loaded.execute("$double value=ab").result_text == "'abab'"
    loaded.execute("%tool reload")
    assert loaded.execute("$double value=3 factor=3").result_text == "9"
    assert "double" in loaded.execute("ot.snippets(info='list')").result_text


def test_save_writes_the_snippet_and_loses_nothing(loaded: Kernel) -> None:
    file = loaded.cwd / ".onetool" / "snippets.yaml"
    file.write_text("# mine\nold: {description: Old, body: '1'}\n", encoding="utf-8")
    loaded.execute("%tool reload")
    assert "Saved to" in loaded.execute("%%snippet kept a=1 --save\n{{ a }} + 1\n").result_text
    assert "# mine" in file.read_text(encoding="utf-8")
    loaded.execute("%reload_ext onetool_ipy")
    assert loaded.execute("$kept a=5").result_text == "6"
    assert loaded.execute("$old").result_text == "1"
    again = loaded.execute("%%snippet kept a=1 --save\n{{ a }}\n", allow_errors=True)
    assert "has a snippet 'kept'" in again.text


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("$pair", "missing 'first'"),
        ("$pair frist=a", "did you mean 'first'?"),
        ("$pair first=a count=x", "must be of type 'int'"),
        ("$pairr first=a", "Did you mean 'pair'?"),
        ("$round", "leads back to itself"),
        ("$lost", "No tool 'nope.nope'"),
        ("%snippet nothing", "No snippet"),
        ("%%snippet\nx = 1", "needs a name"),
        ("%%snippet bad\n{{ unknown }}", "which is not among its params"),
        ("%%snippet loop\n{% for i in range(10**9) %}x{% endfor %}\n", "loop"),
    ],
)
def test_what_is_wrong_is_said_in_a_few_lines(loaded: Kernel, cell: str, said: str) -> None:
    outcome = loaded.execute(cell, allow_errors=True, timeout=HANG_S)
    if outcome.error is None:
        outcome = loaded.execute("$loop", allow_errors=True, timeout=HANG_S)
    assert outcome.error is not None
    assert said in outcome.error.text
    assert len(outcome.error.text.splitlines()) <= 5


def test_problems_of_aliases_are_shown(loaded: Kernel) -> None:
    text = loaded.execute("%tool").result_text
    assert "There is no tool 'nope.nope'" in text
    assert "leads back to itself" in text


def test_completion_and_help_know_shortcuts(loaded: Kernel) -> None:
    assert "pair" in loaded.complete("$pa").matches
    assert list(loaded.complete("x = $pair ").matches) == ["first=", "count="]
    assert "say" in loaded.complete("$sa").matches
    page = loaded.execute("$pair?").result_text
    assert "# Expands to:" in page
    assert "Alias of tools.echo" in loaded.execute("$say?").result_text


def test_an_error_inside_a_snippet_shows_its_own_line(loaded: Kernel) -> None:
    loaded.execute("%%snippet fails\na = 1\nb = a / 0\n")
    outcome = loaded.execute("$fails", allow_errors=True)
    assert outcome.error is not None
    assert outcome.error.ename == "ZeroDivisionError"
    assert "b = a / 0" in outcome.error.text


def test_a_saved_snippet_without_a_project_makes_the_folder(kernel: Kernel) -> None:
    kernel.execute("%load_ext onetool_ipy")
    kernel.execute("%%snippet one --save\n1 + 1\n")
    assert Path(kernel.cwd / ".onetool" / "snippets.yaml").is_file()
    assert kernel.execute("$one").result_text == "2"


@pytest.mark.parametrize("line", ["$fails by=0", "%snippet fails by=0"])
def test_an_error_in_a_snippet_shows_its_lines_and_none_of_ours(loaded: Kernel, line: str) -> None:
    loaded.execute("%%snippet fails by\nx = 1\nx / {{ by }}")
    outcome = loaded.execute(line, allow_errors=True)
    assert outcome.error is not None
    assert outcome.error.ename == "ZeroDivisionError"
    assert "----> 2 x / 0" in outcome.error.text
    assert "onetool" not in outcome.error.text


def test_an_error_of_ot_run_shows_who_called_it(loaded: Kernel) -> None:
    loaded.execute("%%snippet fails by\n1 / {{ by }}")
    outcome = loaded.execute(
        "def caller():\n    return ot.run('fails', by=0)\ncaller()", allow_errors=True
    )
    assert outcome.error is not None
    assert "return ot.run('fails', by=0)" in outcome.error.text
    assert "----> 1 1 / 0" in outcome.error.text
    assert "site-packages" not in outcome.error.text
    assert "proxies.py" not in outcome.error.text


def test_a_parameter_that_the_body_does_not_use_is_said(loaded: Kernel) -> None:
    said = loaded.execute('%%snippet greet who\nprint("hello", who)').result_text
    assert (
        said.splitlines()[1]
        == "Its body does not use 'who'. Write {{ who }} where the value belongs."
    )
    assert (
        "does not use"
        not in loaded.execute('%%snippet greet who\nprint("hello {{ who }}")').result_text
    )


def test_a_body_may_have_a_bracket_open_until_it_is_run(loaded: Kernel) -> None:
    assert (
        loaded.execute("%%snippet half a\nprint({{ a }}").result_text
        == "$half is ready: $half a=..."
    )
    outcome = loaded.execute("$half a=1", allow_errors=True)
    assert outcome.error is not None
    assert "Line 1: a string or a bracket is not closed." in outcome.error.text


def test_a_snippet_of_the_session_is_listed_shown_and_saved_by_name(loaded: Kernel) -> None:
    loaded.execute('%%snippet greet who --description "Say hello"\nprint("hello {{ who }}")')
    first = loaded.execute("%snippet").result_text.splitlines()[0]
    assert re.split(r" {2,}", first) == ["$greet who=...", "Say hello"]
    assert 'print("hello {{ who }}")' in loaded.execute("%snippet greet --show").result_text
    assert "snippets.yaml" in loaded.execute("%snippet greet --save").result_text
    assert "hello {{ who }}" in (loaded.cwd / ".onetool" / "snippets.yaml").read_text(
        encoding="utf-8"
    )


def test_a_mistyped_parameter_ends_in_one_mark(loaded: Kernel) -> None:
    outcome = loaded.execute("$pair frst=tea first=a", allow_errors=True)
    assert outcome.error is not None
    assert outcome.error.text.splitlines()[0].endswith("unknown 'frst', did you mean 'first'?")


@pytest.mark.parametrize(
    "line", ["$pair first={word.upper()} count={len(word)}", "x = $pair first={word.upper()}"]
)
def test_an_expression_in_braces_gives_its_object(loaded: Kernel, line: str) -> None:
    loaded.execute("word = 'ab'")
    outcome = loaded.execute(line)
    assert outcome.ok, outcome.text
    assert loaded.evaluate("words") == repr(["AB", "AB"])
    assert (
        loaded.execute("%snippet pair first={word * 2} --show").result_text
        == 'words = ["abab"] * 2\nwords'
    )


def test_an_expression_sees_the_locals_of_the_function_it_stands_in(loaded: Kernel) -> None:
    loaded.execute("def f(value):\n    got = $pair first={value + '!'} count=1\n    return got")
    assert loaded.evaluate("f('hey')") == repr(["hey!"])


def test_braces_that_are_a_literal_stay_as_typed_and_a_failing_expression_is_said(
    loaded: Kernel,
) -> None:
    assert loaded.execute("""$pair first={"a": 1} count=1""").result_text == """['{"a": 1}']"""
    assert loaded.execute("$pair first='{not_a_name}' count=1").result_text == "['{not_a_name}']"
    failed = loaded.execute("$pair first={not_a_name}", allow_errors=True)
    assert failed.error is not None
    assert failed.error.ename == "UsageProblem"
    assert "not_a_name" in failed.error.text
