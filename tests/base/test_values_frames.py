"""What is a table of pandas, told without pandas, and which rows would make a nearly empty one."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pandas as pd
import pytest

from onetool_ipy.base.values import is_dataframe, is_frame, is_sparse


class OwnFrame(pd.DataFrame):  # type: ignore[misc]  # pandas ships no types
    """A subclass, as other libraries have."""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (pd.DataFrame(), (True, True)),
        (OwnFrame({"a": [1]}), (True, True)),
        (pd.Series([1]), (False, True)),
        (pd.Index([1]), (False, False)),
        ([{"a": 1}], (False, False)),
        (pd.DataFrame, (False, False)),
        (None, (False, False)),
    ],
)
def test_frames_are_told_from_other_values(value: Any, expected: tuple[bool, bool]) -> None:
    assert (is_dataframe(value), is_frame(value)) == expected


def test_asking_imports_no_pandas() -> None:
    code = "import sys; from onetool_ipy.base.values import is_frame; is_frame([]); print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_rows_with_keys_of_their_own_are_sparse() -> None:
    assert is_sparse({f"k{number}"} for number in range(2_000))
    assert not is_sparse({f"k{number}"} for number in range(900))
    assert not is_sparse({"a", "b", *([f"k{number}"] if number % 2000 == 0 else [])} for number in range(100_000))
    assert not is_sparse({f"k{name}" for name in range(100)} for _ in range(20_000))
    assert not is_sparse([])
