"""The kernel fixture itself: what every notebook test stands on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import FreshKernel
from tests.harness.kernel import Kernel


def test_cell_outcome_holds_streams_displays_result_and_metadata(kernel: Kernel) -> None:
    outcome = kernel.execute(
        "import sys\n"
        "print('out'); print('err', file=sys.stderr)\n"
        "display({'text/plain': 'shown'}, raw=True, metadata={'a': 1})\n"
        "6 * 7"
    )

    assert outcome.ok
    assert (outcome.stdout, outcome.stderr) == ("out\n", "err\n")
    assert [shown.text for shown in outcome.displays] == ["shown"]
    assert outcome.displays[0].metadata == {"a": 1}
    assert outcome.result_text == "42"


def test_failing_cell_fails_the_test_unless_errors_are_allowed(kernel: Kernel) -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        kernel.execute("1 / 0")

    outcome = kernel.execute("1 / 0", allow_errors=True)

    assert outcome.status == "error"
    assert outcome.error is not None
    assert outcome.error.ename == "ZeroDivisionError"
    assert "division by zero" in outcome.error.text


def test_each_test_gets_an_empty_namespace_and_its_own_folders(
    kernel: Kernel, tmp_path: Path
) -> None:
    kernel.execute("import os; kept = 1; os.environ['LEFT_BEHIND'] = '1'")

    kernel.reset(tmp_path / "second", tmp_path / "second-state")

    assert kernel.evaluate("'kept' in globals()") == "False"
    kernel.execute("import os")
    assert kernel.evaluate("'LEFT_BEHIND' in os.environ") == "False"
    assert kernel.evaluate("os.getcwd()") == repr(str(tmp_path / "second"))
    assert kernel.evaluate("os.environ['ONETOOL_STATE']") == repr(str(tmp_path / "second-state"))


@pytest.mark.slow
def test_complete_and_inspect_answer_over_the_protocol(kernel: Kernel) -> None:
    kernel.execute("def tell_me(count: int) -> str:\n    'Says it.'")

    completion = kernel.complete("tell_")

    assert "tell_me" in completion.matches
    assert (completion.start, completion.end) == (0, 5)
    assert "Says it." in kernel.inspect("tell_me")


def test_interrupt_stops_a_running_cell(kernel: Kernel) -> None:
    running = kernel.start_execute(
        "print('on', flush=True)\nimport time\nwhile True: time.sleep(0.1)"
    )
    running.wait_for_output("on")

    kernel.interrupt()
    outcome = running.wait(allow_errors=True)

    assert outcome.error is not None
    assert outcome.error.ename == "KeyboardInterrupt"


@pytest.mark.slow
def test_fresh_kernel_takes_folder_and_variables(fresh_kernel: FreshKernel, tmp_path: Path) -> None:
    own = fresh_kernel(cwd=tmp_path / "there", env={"GREETING": "hello"})

    own.execute("import os; x = 1")
    assert own.evaluate("os.getcwd()") == repr(str(tmp_path / "there"))
    assert own.evaluate("os.environ['GREETING']") == "'hello'"

    own.restart()

    assert own.evaluate("'x' in globals()") == "False"


def test_outputs_belong_to_the_cell_that_made_them(kernel: Kernel) -> None:
    first = kernel.start_execute("print('first')")
    second = kernel.start_execute("print('second')")

    assert second.wait().stdout == "second\n"
    assert first.wait().stdout == "first\n"
