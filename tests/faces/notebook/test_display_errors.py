"""Errors in a cell: a few true lines, and of a tool's own failure the tool's frames only."""

from __future__ import annotations

import pytest

from tests.faces.notebook.test_extension_magics import BOOM
from tests.harness.kernel import Kernel

_ODD = """
from onetool_ipy import tool

@tool
def odd(kind: str) -> None:
    "Raise something odd."
    class Leave(BaseException): pass
    if kind == "half": raise FileNotFoundError("caf\\udce9.txt")
    if kind == "base": raise Leave("away")
    raise ExceptionGroup("many", [ValueError("a"), KeyError("b")])
"""


@pytest.mark.parametrize(
    ("line", "first", "hint"),
    [
        ("%tool tme.now", "No tool 'tme.now'. Did you mean 'time.now'?", "%tool list"),
        ("%tool Time.Now", "Did you mean 'time.now'?", "%tool list"),
        ("%tool fs.read_file", "'fs.read_file': missing argument 'path'", "Usage: fs.read_file(path: str"),
        ("%tool fs.read_file path=a pth=b", "unknown argument 'pth' (did you mean 'path'?)", "Usage"),
        ("%tool fs.list_dir path=. maxDepth=x", "argument 'maxDepth'", "Usage"),
        ("%tool fs.read_file path=/etc/passwd", "outside the allowed folders", "fs.roots in .onetool/onetool.yaml"),
        ("%tool time now", "'time' is a pack, not a tool.", "%tool time"),
        ("%tool tools.echo message==5", "'=='", ""),
        ("%tool tools.echo --softt message=5", "No flag '--softt'. Did you mean '--soft'?", ""),
        ("%tool --bg", "A flag needs a tool's name.", "%tool time.now --dry"),
    ],
)  # fmt: skip
def test_errors_are_a_few_true_lines_and_stop_the_notebook(
    loaded: Kernel, line: str, first: str, hint: str
) -> None:
    """Contract 4: one to five lines, the value in quotes, what to do next, a proper error
    output."""
    outcome = loaded.execute(line, allow_errors=True)
    assert outcome.status == "error"
    assert outcome.error is not None
    assert outcome.error.ename in ("ToolCallError", "UsageProblem")
    shown = outcome.error.text.splitlines()
    assert first in shown[0]
    assert hint in outcome.error.text
    assert 1 <= len(shown) <= 5
    assert outcome.stdout == outcome.stderr == ""


def test_a_tools_own_failure_shows_its_frames_and_none_of_ours(loaded: Kernel) -> None:
    loaded.execute(BOOM)
    outcome = loaded.execute("%tool nb.boom n=0", allow_errors=True)
    assert outcome.error is not None
    assert outcome.error.ename == "ToolCallError"
    assert "part = 1 / n" in outcome.error.text
    assert "ZeroDivisionError: division by zero" in outcome.error.text
    assert "onetool_ipy" not in outcome.error.text
    assert "nb.boom" in outcome.error.text


def test_a_proxy_raises_the_tools_own_exception_with_its_frames(loaded: Kernel) -> None:
    loaded.execute(BOOM)
    outcome = loaded.execute("nb.boom(0)", allow_errors=True)
    assert outcome.error is not None
    assert outcome.error.ename == "ZeroDivisionError"
    assert "part = 1 / n" in outcome.error.text
    assert "onetool_ipy" not in outcome.error.text
    assert "hidden" not in outcome.error.text
    caught = loaded.execute(
        "try:\n    nb.boom(0)\nexcept ZeroDivisionError as e:\n    print('caught', e)"
    )
    assert caught.stdout == "caught division by zero\n"


def test_debug_opens_in_the_tools_own_frame(loaded: Kernel) -> None:
    loaded.execute(BOOM)
    loaded.execute("%tool nb.boom n=0", allow_errors=True)
    inner = "__import__('sys').last_value.__traceback__"
    loaded.execute(f"frame = {inner}\nwhile frame.tb_next: frame = frame.tb_next")
    assert loaded.evaluate("frame.tb_frame.f_code.co_name") == "'boom'"


def test_an_error_in_python_code_names_the_cell_and_the_lines(loaded: Kernel) -> None:
    """The call that led there first, then the line with the wrong argument; a cell of one line
    needs neither."""
    loaded.execute(BOOM)
    many = loaded.execute(
        "def halves(*numbers):\n    return [nb.boom(n=each) for each in numbers]\n\nhalves(1,"
        " 2)\nhalves(3, 'x')\n",
        allow_errors=True,
    )
    assert many.error is not None
    cell = f"Cell In[{many.execution_count}], line "
    lines = [line.strip() for line in many.error.text.splitlines()]
    assert lines[0].startswith("ToolCallError: 'nb.boom': argument 'n'")
    assert [line.removeprefix(cell) for line in lines if line.startswith(cell)][:2] == [
        "5",
        "2, in halves",
    ]

    loop = loaded.execute("for n in (1, 2):\n    nb.bomo(n=n)", allow_errors=True)
    assert loop.error is not None
    assert f"Cell In[{loop.execution_count}], line 2" in loop.error.text
    typed = loaded.execute("x = 1\n%tool nb.boom n=y", allow_errors=True)
    assert f"Cell In[{typed.execution_count}], line 2" in typed.text
    assert "Cell In" not in loaded.execute("nb.boom(n='x')", allow_errors=True).text


@pytest.mark.parametrize(
    "line", ["ot.result('x', offset=0)", "ot.history(limit=0)", "%tool ot.history limit=0"]
)
def test_a_bad_number_for_ot_shows_none_of_our_frames(loaded: Kernel, line: str) -> None:
    outcome = loaded.execute(line, allow_errors=True)
    assert outcome.error is not None
    assert "must be >= 1" in outcome.error.text
    assert "onetool_ipy" not in outcome.error.text


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("half", "FileNotFoundError: caf\\udce9.txt"),
        ("base", "Leave: away"),
        ("group", "ExceptionGroup: many (2 sub-exceptions)"),
    ],
)
def test_odd_exceptions_are_shown_with_the_tools_lines_only(
    loaded: Kernel, kind: str, said: str
) -> None:
    """An error that the kernel cannot send would leave the cell without any."""
    loaded.execute(_ODD)
    outcome = loaded.execute(f"%tool nb.odd kind={kind}", allow_errors=True)
    assert outcome.status == "error"
    assert outcome.error is not None
    assert said in outcome.error.text
    assert "onetool_ipy" not in outcome.error.text
    assert "\n\n\n" not in outcome.error.text


@pytest.mark.parametrize(
    "after", ["raise", "raise ValueError('b')"], ids=["group", "error after a group"]
)
def test_an_exception_group_of_a_tool_shows_no_secret_and_no_escape(
    loaded: Kernel, after: str
) -> None:
    """IPython prints a group, also one that is only the context, without asking for its lines."""
    loaded.execute(
        "from onetool_ipy import tool\n"
        "from onetool_ipy.core import current\n"
        "current.require().config.secrets.hide('hunter2' + '-hunter2')\n"
        "class Own(Exception):\n    def __str__(self): return 'own hunter2' + '-hunter2'\n"
        "@tool\ndef many():\n"
        "    group = ExceptionGroup('a hunter2' + '-hunter2', [Own(), KeyError('\\x1b]0;x\\x07')])\n"
        "    try: raise group\n"
        f"    except ExceptionGroup: {after}\n"
    )

    outcome = loaded.execute("nb.many()", allow_errors=True)

    assert outcome.error is not None
    shown = outcome.stderr + outcome.error.text
    assert "a ***" in shown
    assert "hunter2-hunter2" not in shown
    assert "\x1b]" not in shown
    assert "onetool_ipy" not in shown


def test_the_display_of_errors_that_another_extension_brought_stays(kernel: Kernel) -> None:
    outcome = kernel.execute(
        "shell = get_ipython()\n"
        "shell.showtraceback = theirs = lambda *args, **more: print('theirs')\n"
        "shell.run_line_magic('load_ext', 'onetool_ipy')\n"
        "shell.run_line_magic('unload_ext', 'onetool_ipy')\n"
        "print(shell.showtraceback is theirs)\n"
        "del shell.showtraceback"
    )

    assert outcome.stdout == "True\n"
