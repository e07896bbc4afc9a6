"""Who made a call: the outermost caller counts, in every tool that asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.core.callers import LIMITED, OUTSIDE, REMOTE, TYPED, is_from_outside
from onetool_ipy.core.tool import CallSource


@pytest.fixture
def box() -> Iterator[Toolbox]:
    with open_toolbox() as opened:
        yield opened


@pytest.mark.parametrize("source", get_args(CallSource))
def test_call_inside_another_call_counts_for_the_outermost_caller(box: Toolbox, source: CallSource) -> None:
    def inner() -> bool:
        """Say whether the call is from outside."""
        return is_from_outside()

    def outer() -> bool:
        """Ask another tool."""
        return bool(box.call("nb.inner", source="tool").unwrap())

    box.adopt(inner)
    box.adopt(outer)
    assert box.call("nb.outer", source=source).unwrap() is (source in ("model", "rest", "mcp"))


def test_sets_of_callers_are_apart() -> None:
    assert not TYPED & LIMITED
    assert REMOTE < OUTSIDE < LIMITED < frozenset(get_args(CallSource))
    assert not is_from_outside(), "no call is running"
