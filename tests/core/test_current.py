"""Which toolbox is current: that of the running call, else the newest open one, else a default that
is kept.

And who made a call: the outermost caller counts, in every tool that asks.
"""

from __future__ import annotations

from typing import Any, get_args

import pytest

from onetool_ipy.core import current
from onetool_ipy.core.tool import CallSource
from tests.harness.patience import HANG_S
from tests.harness.programs import python
from tests.harness.project import Project


def test_the_newest_open_toolbox_is_current(project: Project, tmp_path: Any) -> None:
    first = project.open()
    second = Project(tmp_path / "other").open()

    assert current.toolbox() is second
    assert current.require() is second
    second.close()
    assert current.toolbox() is first
    first.close()
    assert current.toolbox() not in (first, second)


def test_inside_a_call_its_own_toolbox_is_current(project: Project, tmp_path: Any) -> None:
    first, second = project.open(), Project(tmp_path / "other").open()
    seen: list[Any] = []

    def look() -> None:
        seen.append(current.toolbox())

    first.adopt(look)
    first.call("nb.look")
    first.call("nb.look", timeout=HANG_S)
    first.start("nb.look").result(HANG_S)

    assert seen == [first] * 3
    assert current.toolbox() is second
    second.close()


@pytest.mark.slow
def test_without_one_the_default_toolbox_is_opened_and_kept() -> None:
    code = (
        "from onetool_ipy.core import current\n"
        "assert current.toolbox() is None\n"
        "box = current.require()\n"
        "assert current.require() is box and box.call('time.now').ok\n"
        "box.close()\n"
        "assert current.require() is not box\n"
        "from onetool_ipy.live import time\n"
        "print(sorted(time.now()))"
    )

    done = python(code)

    assert done.stdout.strip() == "['iso', 'timestamp']"


def test_a_toolbox_that_nobody_holds_is_forgotten(tmp_path: Any) -> None:
    code = (
        "import gc, onetool_ipy\n"
        "from onetool_ipy.core import current\n"
        "onetool_ipy.open_toolbox()\n"
        "gc.collect()\n"
        "print(current.toolbox())"
    )

    done = python(code, cwd=tmp_path)

    assert done.stdout.strip() == "None"


@pytest.mark.parametrize("source", get_args(CallSource))
def test_call_inside_another_call_counts_for_the_outermost_caller(
    project: Project, source: CallSource
) -> None:
    box = project.open()

    def inner() -> bool:
        """Say whether the call is from outside."""
        return current.is_from_outside()

    def outer() -> bool:
        """Ask another tool."""
        return bool(box.call("nb.inner", source="tool").unwrap())

    box.adopt(inner)
    box.adopt(outer)
    assert box.call("nb.outer", source=source).unwrap() is (source in ("model", "rest", "mcp"))
    box.close()


def test_sets_of_callers_are_apart() -> None:
    assert not current.TYPED & current.LIMITED
    assert current.REMOTE < current.OUTSIDE < current.LIMITED < frozenset(get_args(CallSource))
    assert not current.is_from_outside(), "no call is running"
