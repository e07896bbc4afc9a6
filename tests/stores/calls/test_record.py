"""What of a call is looked at: arguments masked and cut, results measured; never more than a little
of either."""

from __future__ import annotations

import datetime
import json
import time
import tracemalloc
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onetool_ipy.base.masking import Secrets
from onetool_ipy.base.values import plain_copy
from onetool_ipy.stores.calls.log import CallLog
from onetool_ipy.stores.calls.record import MAX_ARGS_BYTES, excerpt, measure, short_text

SECRET = "hunter2-correct-horse"


def kept(args: Any, mask: Any = str) -> tuple[str, bool]:
    size = plain_copy(args)[2] if isinstance(args, dict) else -1
    return excerpt(args, mask, orjson.dumps, size)


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"query": "coffee", "count": 3, "deep": None, "share": 0.5, "on": True},
        {"rows": [{"a": [1, 2]}, {"b": {"c": "d"}}]},
        {"text": "ä" * 900},
        {"rows": [[row * 20 + column for column in range(20)] for row in range(50)]},
    ],
    ids=["none", "plain", "nested", "accents", "table"],
)
def test_ordinary_arguments_are_kept_whole(args: dict[str, Any]) -> None:
    text, is_whole = kept(args)

    assert is_whole
    assert json.loads(text) == args


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ({"x": {1, 2}}, '{"x":"<set>"}'),
        ({"x": b"abc"}, '{"x":"<3 bytes>"}'),
        ({"x": float("nan")}, '{"x":null}'),
        ({"x": 1 << 70}, '{"x":"<int of 71 bits>"}'),
        ({"x": Decimal("1.50")}, '{"x":"1.50"}'),
        ({"x": Path("a.txt")}, '{"x":"a.txt"}'),
        ({"x": datetime.date(2026, 1, 2)}, '{"x":"2026-01-02"}'),
        ({"x": np.int64(7)}, '{"x":7}'),
        ({"x": np.zeros((3, 4))}, '{"x":"<ndarray of shape (3, 4)>"}'),
        ({"x": pd.DataFrame({"a": [1]})}, '{"x":"<DataFrame of shape (1, 1)>"}'),
        ({"x": (1, 2)}, '{"x":[1,2]}'),
        ({1: 2}, '{"1":2}'),
        ({"x": "\ud800"}, '{"x":"\\\\ud800"}'),
        ("not an object", '"not an object"'),
        (None, "null"),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else "",
)
def test_what_json_cannot_hold_is_named_and_not_whole(args: Any, shown: str) -> None:
    text, is_whole = kept(args)

    assert text == shown
    assert not is_whole


def test_long_arguments_are_cut_at_four_kilobytes() -> None:
    for args in (
        {"x": "y" * 10_000},
        {"x": ["abc"] * 5000},
        {f"k{n}": n for n in range(5000)},
        {"x": "ä" * 4000},
    ):
        text, is_whole = kept(args)

        assert len(text.encode()) <= MAX_ARGS_BYTES
        assert len(text) > 1000
        assert not is_whole


def test_an_object_that_contains_itself_ends() -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: Any = "end"
    for _ in range(100_000):
        deep = [deep]

    assert kept({"x": loop})[1] is False
    assert kept({"x": deep})[1] is False
    assert measure(loop) > 0
    assert measure(deep) > 0


class Hostile:
    """Every method it has fails."""

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    __str__ = __len__ = __iter__ = __getattr__ = __hash__ = __repr__  # type: ignore[assignment]  # on purpose


def test_an_object_whose_methods_fail_is_named() -> None:
    assert kept({"x": Hostile()}) == ('{"x":"<Hostile>"}', False)
    assert measure(Hostile()) > 0


@pytest.mark.parametrize("place", range(0, 12_000, 397))
def test_a_secret_is_masked_before_anything_is_cut(place: int) -> None:
    """Wherever it stands, also across the place where the text is cut: no five letters of it are
    left."""
    mask = Secrets({"KEY": SECRET}, {}).mask
    text = "x" * place + SECRET + "y" * 12_000
    pieces = {SECRET[i : i + 5] for i in range(len(SECRET) - 4)}

    for args in (
        {"q": text},
        {"q": [text]},
        {text: 1},
        text,
        {"q": "x" * (place // 40), "s": {"t": [SECRET]}},
    ):
        found, is_whole = kept(args, mask)
        assert not any(piece in found for piece in pieces)
        assert not is_whole
    assert not any(piece in short_text(text, mask, 200) for piece in pieces)


@pytest.mark.parametrize("gap", range(12))
def test_many_secrets_in_a_long_text_leave_no_half_of_one(gap: int) -> None:
    """Masking shortens the text, and so brings the place where it was cut to the front."""
    mask = Secrets({"KEY": SECRET}, {}).mask
    text = (SECRET + "x" * gap) * 3000

    found = kept({"q": text}, mask)[0] + short_text(text, mask, 200)

    assert not any(SECRET[i : i + 3] in found for i in range(len(SECRET) - 2))


def test_masked_arguments_stay_json() -> None:
    mask = Secrets({"KEY": SECRET, "PIN": "48151623"}, {}).mask

    assert kept({"q": SECRET, "n": 1}, mask) == ('{"q":"***","n":1}', False)
    assert kept({"pin": 48151623}, mask) == ('{"pin":***}', False)
    assert kept({"q": "nothing"}, mask) == ('{"q":"nothing"}', True)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_value_gives_text_and_a_size(value: Any) -> None:
    text, is_whole = kept({"x": value})

    assert "\n" not in text
    assert len(text.encode()) <= MAX_ARGS_BYTES
    if is_whole:
        assert json.loads(text) == {"x": value}
    assert measure(value) >= 0


def test_a_result_of_many_nested_objects_has_a_size() -> None:
    """What is left to look at is spent within the first of them."""
    assert measure([{"a": [{"b": [{"c": 1}] * 3}] * 3}] * 500) > 0


def test_a_name_that_somebody_typed_is_made_harmless() -> None:
    assert short_text("a\n b\0\ud800", str, 200) == "a b\0\\ud800"
    assert len(short_text("x" * 10**7, str, 200)) == 200


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("text", 4),
        ("", 0),
        (b"12345", 5),
        (bytearray(9), 9),
        (memoryview(b"abc"), 3),
        (None, 4),
        (True, 4),
        ({"a": 1}, 7),
        ([{"a": 1, "b": "x"}] * 3, 49),
        ([1] * 200, 602),
        ([], 2),
        (pd.DataFrame({"a": range(100), "b": range(100)}), 2400),
        (np.zeros(1000), 8000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_size_of_small_results(value: Any, size: int) -> None:
    assert measure(value) == size


@pytest.mark.parametrize(
    "value",
    [
        [{"id": n, "name": f"name {n}", "tags": ["a", "b"]} for n in range(5000)],
        {f"key{n}": [n, n + 1.5] for n in range(3000)},
        list(range(100_000)),
        ["some words"] * 10_000,
        [[1, 2, 3]] * 1000,
    ],
    ids=["records", "dict", "numbers", "texts", "rows"],
)
def test_the_estimate_is_of_the_right_magnitude(value: Any) -> None:
    true = len(json.dumps(value))

    assert true / 3 < measure(value) < true * 3


def test_a_huge_value_costs_no_time_and_no_memory(tmp_path: Path) -> None:
    """A gigabyte in name: the same list a thousand times over, a text of 50 MB, also as a key."""
    huge = [["x" * 1000] * 1000] * 1000
    text = "y" * 50_000_000
    log = CallLog(tmp_path / "calls", clock=lambda: datetime.datetime.now(datetime.UTC))
    log.record("first", "a.b", "python", {}, ok=True, ms=0.0)
    values = (huge, text, {"deep": {"deeper": huge}}, {text[:-1]: 1})
    tracemalloc.start()
    began = time.process_time()

    for value in values:
        log.record("id", "a.b", "python", {"value": value}, ok=True, ms=0.0, size=measure(value))
        log.record("id", "a.b", "python", value, ok=True, ms=0.0, size=measure(value))

    spent, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert spent < 10
    assert peak < 3_000_000
    assert log.usage().total_calls == 9


def test_arguments_that_hold_themselves_or_grow_without_end_are_cut() -> None:
    """What is in a list twice is written twice; a list that is doubled 150 times is not."""
    ring: list[Any] = [1]
    ring.append(ring)
    tree: list[Any] = []
    for _ in range(150):
        tree = [tree, tree]
    for value in (ring, tree):
        size = plain_copy({"value": value})[2]
        assert size == -1 or size > 2**100
        text, is_whole = excerpt({"value": value}, str, orjson.dumps, size)
        assert not is_whole
        assert len(text) <= 4096
