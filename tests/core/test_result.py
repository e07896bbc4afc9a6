"""What Python prints of a result is our output: no secret is in it. The data itself is never altered."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import pytest

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.core.result import ToolResult
from tests.core.support import Project

SECRET = "s3cret-value-1234"
PACK = '''
    """Leaks."""
    pack = "leak"
    __all__ = ["give", "fail"]

    def give(kind: str) -> object:
        """Give the secret in some shape."""
        secret = "s3cret-value" + "-1234"
        shapes = {"text": secret, "dict": {"k": [secret], secret: 1}, "bytes": secret.encode(), "quoted": f"'{secret}"}
        return shapes[kind]

    def fail(kind: str) -> str:
        """Fail with the secret in the words."""
        secret = "s3cret-value" + "-1234"
        raise {"plain": ValueError(f"no {secret}"), "pair": KeyError(secret, 2)}[kind]
'''


@pytest.fixture
def box(project: Project) -> Any:
    project.write("secrets.yaml", f"KEY: {SECRET}\n", mode=0o600)
    project.write("tools/leak.py", PACK)
    return project.open()


def printed(thing: Any) -> list[str]:
    return [
        repr(thing),
        str(thing),
        f"{thing}",
        f"{thing!s:>5}",
        repr([thing]),
        str({"r": thing}),
        "".join(map(str, [thing])),
    ]


@pytest.mark.parametrize("kind", ["text", "dict", "bytes", "quoted"])
def test_a_printed_result_shows_no_secret(box: Any, kind: str) -> None:
    result = box.call("leak.give", {"kind": kind})

    assert SECRET in repr(result.data), "a value returned to Python is never altered"
    for text in printed(result):
        assert SECRET not in text
        assert "***" in text


@pytest.mark.parametrize("kind", ["plain", "pair"])
def test_a_printed_failure_shows_no_secret(box: Any, kind: str) -> None:
    result = box.call("leak.fail", {"kind": kind})

    for thing in (result, result.error, result.meta, result.error.exception, dict(result.error)):
        assert not any(SECRET in text for text in printed(thing))
    assert "***" in repr(result.error)


def test_bad_arguments_that_hold_a_secret_are_printed_masked(box: Any) -> None:
    result = box.call("leak.give", {"kind": "text", SECRET: SECRET})

    assert result.error is not None
    assert not any(SECRET in text for thing in (result, result.error) for text in printed(thing))


def test_a_copy_and_a_result_that_outlives_its_toolbox_are_masked(project: Project, box: Any) -> None:
    result = box.call("leak.give", {"kind": "text"})
    for twin in (copy.copy(result), pickle.loads(pickle.dumps(result))):
        assert SECRET not in repr(twin)
    project.boxes.clear()
    box.close()
    del box
    gc.collect()

    assert SECRET not in repr(result)


@pytest.mark.parametrize("nest", [lambda key: {key: 1}, lambda key: {"a": {"b": {key: 1}}}], ids=["flat", "nested"])
def test_rows_that_share_no_key_make_no_table(nest: Any) -> None:
    """The table would have n x n cells, whatever the length of the JSON; the error says what to use."""
    result = ToolResult(ok=True, data=[nest(f"k{number}") for number in range(20_000)])

    with pytest.raises(UsageProblem, match="20,000 rows have too many different keys") as caught:
        _ = result.df

    assert ".data" in caught.value.hint


def test_rows_with_some_keys_of_their_own_are_a_table() -> None:
    data = [{"id": number, "inner": {"x": 1, f"k{number}": 2}} for number in range(300)]

    frame = ToolResult(ok=True, data=data).df

    assert frame.shape == (300, 302)
    assert frame["inner.x"].tolist() == [1] * 300


@pytest.mark.parametrize("data", ["a\ud800", '[{"a": "a\\ud800"}]', [{"a": "a\ud800"}], ["a\ud800"]])
def test_half_a_character_is_written_out_in_a_table(data: Any) -> None:
    frame = ToolResult(ok=True, data=data).df

    assert frame.iloc[0, 0] == "a\\ud800"
    assert "ud800" in frame.to_csv()
