"""The author's loop: a cell saved as a pack file, and checked; history, stats and results as
sub-commands."""

from __future__ import annotations

import pytest

from tests.harness.kernel import Kernel
from tests.harness.patience import HANG_S

CELL = '''%%tool --save geo
import math

def area(radius: float, unit: str = "m") -> float:
    """Area of a circle.

    Args:
        radius: Of the circle.

    Example:
        %tool geo.area radius=2
        geo.area(-1)
    """
    if radius < 0:
        raise ValueError("a radius is not negative")
    return math.pi * radius**2
'''


@pytest.mark.slow
def test_check_runs_examples_and_made_up_arguments(loaded: Kernel) -> None:
    loaded.execute(
        CELL.replace("import math\n", "import math\nfrom onetool_ipy import tool\n").replace(
            "def area", "@tool(read_only=True)\ndef area"
        )
    )
    loaded.execute("found = %tool check geo.area")
    rows = loaded.evaluate("[(r['check'], r['outcome']) for r in found]")
    assert "('example', 'ok')" in rows
    assert "('example', 'ValueError: a radius is not negative')" in rows
    assert "('required only', 'ok')" in rows
    assert "not described: unit" in rows


WRITER = '''
from pathlib import Path
from onetool_ipy import tool

@tool
def write(line: str = "x") -> int:
    """Write a line.

    Args:
        line: What to write.

    Example:
        nb.write("from the example")
    """
    with open("written.txt", "a") as file:
        return file.write(line + "\\n")
'''


def _written(kernel: Kernel) -> list[str]:
    file = kernel.cwd / "written.txt"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def test_check_calls_no_tool_that_may_write_unless_a_person_says_so(loaded: Kernel) -> None:
    loaded.execute(WRITER)
    loaded.execute("found = %tool check nb.write")
    assert _written(loaded) == []
    rows = loaded.evaluate("[(r['check'], r['outcome']) for r in found]")
    assert "('example', 'not called')" in rows
    assert "('required only', 'arguments fit')" in rows
    assert "--call" in rows

    refused = loaded.execute("%tool check nb.write --call", allow_errors=True)
    assert "nobody can be asked" in refused.text
    for reply in ("n", "", "maybe"):
        run = loaded.start_execute("%tool check nb.write --call", allow_stdin=True)
        question = loaded.answer_input(reply)
        assert '  nb.write("from the example")\n' in question
        assert question.endswith("for real? [y/N] ")
        run.wait()
    assert _written(loaded) == []

    run = loaded.start_execute("%tool check nb.write --call", allow_stdin=True)
    loaded.answer_input("y")
    assert run.wait().ok
    assert "from the example" in _written(loaded)


def test_rerun_of_a_call_that_may_write_asks(loaded: Kernel) -> None:
    loaded.execute(WRITER)
    loaded.execute("%tool nb.write line=one")
    refused = loaded.execute("%tool history rerun 1", allow_errors=True)
    assert "nobody can be asked" in refused.text
    assert "%tool nb.write line=one" in refused.text
    run = loaded.start_execute("%tool history rerun 1", allow_stdin=True)
    question = loaded.answer_input("no")
    assert (
        question
        == "  %tool nb.write line=one\n'nb.write' may change something. Call it again? [y/N] "
    )
    answered = run.wait()
    assert answered.ok, "a no is an answer, not an error"
    assert "Call it again? You said no, " in answered.text
    assert "was not called again" in answered.text
    run = loaded.start_execute("%tool history rerun 1", allow_stdin=True)
    loaded.wait_for_question()
    loaded.interrupt()
    stopped = run.wait(allow_errors=True).text
    assert "Call it again? Stopped, " in stopped
    assert stopped.endswith("UsageProblem: Stopped at this question; nothing more was done.")
    assert _written(loaded) == ["one"]
    run = loaded.start_execute("%tool history rerun 1", allow_stdin=True)
    loaded.answer_input("yes")
    run.wait()
    assert _written(loaded) == ["one", "one"]


def test_stats_results_and_health_are_sub_commands(loaded: Kernel) -> None:
    loaded.execute("%tool tools.echo message=x")
    assert "total_calls: 1" in loaded.execute("%tool stats day").result_text
    bad = loaded.execute("%tool stats fortnight", allow_errors=True)
    assert "does not know the period 'fortnight'" in bad.text
    health = loaded.execute("%tool health").result_text
    assert "Nothing is wrong." in health
    assert "proxy" not in health
    for line, said in (("results", "No results are stored."), ("jobs", "No jobs.")):
        shown = loaded.execute(f"%tool {line}")
        assert shown.result is not None
        assert shown.result_text == "[]"
        assert said in shown.result["text/html"]
    assert "fs.read_file" in loaded.execute("%tool search reed a fiel").result_text


def test_stats_and_the_usage_screen_count_the_same_calls(loaded: Kernel) -> None:
    """Both leave out the calls of `ot` itself, until one of them is named, and say so."""
    loaded.execute("%tool tools.echo message=x\not.help('time.now')")
    loaded.execute(
        "from onetool_ipy import open_toolbox\n"
        "from onetool_ipy.faces.widgets.overviews import usage_data\n"
        "def calls(tool):\n"
        "    with open_toolbox() as box:\n"
        "        return usage_data(box, {'tool': tool})['totals'][0]['value']"
    )

    for tool, count in (("", "1"), ("ot.help", "1"), ("tools.echo", "1")):
        stats = loaded.execute(f"%tool stats --tool {tool}" if tool else "%tool stats").result_text
        assert f"total_calls: {count}\n" in stats
        assert ("Calls of ot itself are left out" in stats) == (not tool)
        assert loaded.evaluate(f"calls({tool!r})") == f"'{count}'"
    assert loaded.evaluate("ot.stats()['total_calls']") == "2"
    wrong = loaded.execute("%tool stats --output nosuch/a.html", allow_errors=True).text
    assert "Cannot write to" in wrong
    assert "Error: " not in wrong.removeprefix("UsageProblem: ")


def test_a_cut_result_has_a_handle_and_says_how_to_get_the_rest(loaded: Kernel) -> None:
    outcome = loaded.execute("x = %tool tools.echo message={[{'n': i} for i in range(1234)]}\nx")
    assert "20 of 1,234 rows" in outcome.result_text
    handle = loaded.evaluate("x.handle").strip("'")
    assert f"ot.result(handle='{handle}')" in outcome.result_text
    assert outcome.result is not None
    assert f"handle=&#x27;{handle}&#x27;" in outcome.result["text/html"]
    assert "application/json" not in outcome.result
    assert outcome.result_metadata["onetool"]["tool"] == "tools.echo"
    assert loaded.evaluate(f"ot.result(handle='{handle}', offset=1234)['lines']") == repr(
        ['{"n":1233}']
    )
    assert loaded.evaluate("len(x.data)") == "1234"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("'<script>alert(1)</script>'", "&lt;script&gt;"),
        ("[{'<b>': '<img src=x onerror=y>'}]", "&lt;img src=x onerror=y&gt;"),
        ("{'a': {'<i>': ['<u>' * 30] * 9}}", "&lt;i&gt;"),
    ],
)
def test_nothing_from_a_tool_becomes_html(loaded: Kernel, message: str, shown: str) -> None:
    outcome = loaded.execute(f"%tool tools.echo message={{{message}}}")
    assert outcome.result is not None
    page = outcome.result["text/html"]
    assert shown in page
    for tag in ("<script", "<img", "<i>", "<u>", "<b>"):
        assert tag not in page


@pytest.mark.slow
def test_frames_images_and_broken_objects_show_themselves(loaded: Kernel) -> None:
    loaded.execute(
        "import pandas as pd\nx = %tool tools.echo message={pd.DataFrame({'<a>': [1, 2]})}"
    )
    frame = loaded.execute("x").result
    assert frame is not None
    assert "<table" in frame["text/html"]
    assert "&lt;a&gt;" in frame["text/html"]
    png = "b'\\x89PNG\\r\\n\\x1a\\n' + b'0' * 20"
    image = loaded.execute(f"y = %tool tools.echo message={{{png}}}\ny").result
    assert image is not None
    assert "image/png" in image
    odd = loaded.execute(
        "class Odd:\n    def __repr__(self): raise RuntimeError\nz = %tool tools.echo"
        " message={Odd()}\nz"
    )
    assert "repr failed" in odd.result_text


def test_a_table_that_pandas_cuts_has_a_handle_and_says_so(loaded: Kernel) -> None:
    """Small ones are shown as they are; a large one is kept by reference and can be paged."""
    loaded.execute("import pandas as pd")
    small = loaded.execute("%tool tools.echo message={pd.DataFrame({'a': range(50)})}")
    large = loaded.execute(
        "x = %tool tools.echo message={pd.DataFrame({'a': range(100_000), 'b': 1})}\nx"
    )
    column = loaded.execute("%tool tools.echo message={pd.Series(range(70), name='s')}")

    assert "ot.result" not in small.text
    handle = loaded.execute("print(x.handle)").text.strip()
    rest = (
        f"... 10 of 100,000 rows × 2 columns · open in viewer: ot.view('{handle}') · by line:"
        " ot.result("
    )
    assert rest in large.text
    assert "100000 rows" not in large.text, "pandas' own line, without commas"
    assert large.result is not None
    assert f"handle=&#x27;{handle}&#x27;" in large.result["text/html"]
    assert "<table" in large.result["text/html"]
    assert "100000 rows" not in large.result["text/html"]
    last = loaded.evaluate(f"ot.result(handle='{handle}', offset=100_000)['lines']")
    assert '"a":99999' in last.replace(" ", "")
    assert "10 of 70 rows ·" in column.text


def test_handles_complete_where_a_handle_is_wanted(loaded: Kernel) -> None:
    loaded.execute("x = %tool tools.echo message=abc\nhandle = x.store()")
    handle = loaded.evaluate("handle").strip("'")
    assert handle in loaded.complete("%tool ot.result handle=").matches
    assert handle in loaded.complete("ot.result('").matches
    assert handle in loaded.complete(f"ot.result(handle='{handle[:3]}").matches


@pytest.mark.slow
def test_a_hundred_megabytes_add_next_to_nothing_to_the_notebook(loaded: Kernel) -> None:
    """Row 13: the cell shows the first lines and a handle; Python has all of it."""
    outcome = loaded.execute(
        "x = %tool tools.echo message={('y' * 99 + '\\n') * 1_000_000}\nx", timeout=HANG_S
    )
    assert outcome.result is not None
    assert sum(len(body) for body in outcome.result.values()) < 50_000
    assert "of 1,000,001 lines" in outcome.result_text
    assert loaded.evaluate("len(x.data)") == "100000000"
    assert loaded.execute("x.lines(offset=900_001, limit=1)['returned']").result_text == "1"


def test_search_on_a_table_gives_rows(loaded: Kernel) -> None:
    """Of a DataFrame and of a list of records: a table, how many there are, and all of them as a
    DataFrame."""
    loaded.execute(
        "import pandas as pd\nrows = [{'city': ('Lisboa', 'Porto')[n % 2], 'n': n} for n in"
        " range(2000)]"
    )
    for value in ("pd.DataFrame(rows, index=range(5, 2005))", "rows"):
        loaded.execute(f"x = %tool tools.echo message={{{value}}}")
        found = loaded.execute("x.search('Lisboa')")
        assert found.result is not None
        assert "<table" in found.result["text/html"]
        assert ">Lisboa</td>" in found.result["text/html"]
        assert "1,000 of 2,000 rows, 100 shown · all of them: .df" in found.result_text
        assert (
            loaded.evaluate("x.search('Lisboa').df['n'].tolist() == list(range(0, 2000, 2))")
            == "True"
        )
        assert (
            loaded.evaluate("x.search('Lisboa')['matched'], len(x.search('Lisboa')['lines'])")
            == "(1000, 100)"
        )
    assert loaded.execute("x.search('Faro')").result_text == "0 of 2,000 rows"
    loaded.execute("t = %tool tools.echo message={'a\\nb\\n' * 200}")
    assert loaded.execute("t.search('b', limit=2)").result_text.endswith(
        "200 of 400 lines, 2 shown · all of them: .df"
    )
    assert loaded.evaluate("t.search('b').df['line'].tolist() == ['b'] * 200") == "True"
    assert loaded.execute("t.lines(limit=2)").result_text.endswith(
        "2 of 400 lines · more with offset=3"
    )
