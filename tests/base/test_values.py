"""The table of `core.values`, row by row, and that nothing odd breaks it."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import math
import pathlib
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base import values
from onetool_ipy.core.result import ToolResult


class Colour(enum.Enum):
    RED = "red"
    BLUE = (1, 2)


class Size(enum.IntEnum):
    BIG = 3


@dataclasses.dataclass
class Point:
    x: int
    when: datetime.date


class Pair(NamedTuple):
    left: int
    right: Any


class Model(pydantic.BaseModel):
    name: str
    at: datetime.datetime


class Text(str):
    """A text that lies about itself."""

    __slots__ = ()

    def __str__(self) -> str:
        return "no"


class Whole(int):
    def __int__(self) -> int:
        return 99


class Odd(Mapping[str, int]):
    """A mapping that is no dict."""

    def __getitem__(self, key: str) -> int:
        return 1

    def __iter__(self) -> Any:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Shy:
    """Its class cannot be asked for."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")


def _generator() -> Any:
    yield 1
    raise AssertionError("it was consumed")


DAY = datetime.date(2026, 1, 2)
NOON = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.UTC)

TABLE: list[tuple[str, Any, Any]] = [
    ("none", None, None),
    ("bool", True, True),
    ("int", 10**30, 10**30),
    ("float", 1.5, 1.5),
    ("nan", math.nan, None),
    ("infinity", -math.inf, None),
    ("huge int", 1 << 20_000, hex(1 << 20_000)),
    ("text", "ä\n", "ä\n"),
    ("lone surrogate", "a\ud800b", "a\\ud800b"),
    ("text subclass", Text("yes"), "yes"),
    ("int subclass", Whole(5), 5),
    ("list", [1, [2]], [1, [2]]),
    ("tuple", (1, (2,)), [1, [2]]),
    ("set", {3, 1, 2}, [1, 2, 3]),
    ("frozenset", frozenset({"b", "a"}), ["a", "b"]),
    ("deque", collections.deque([1, 2]), [1, 2]),
    ("dict", {"a": {"b": 1}}, {"a": {"b": 1}}),
    (
        "keys",
        {1: "a", None: "b", False: "c", (1, "x"): "d"},
        {"1": "a", "null": "b", "false": "c", '[1, "x"]': "d"},
    ),
    ("ordered dict", collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    ("mapping", Odd(), {"a": 1}),
    ("bytes", b"\xff\x00", {"base64": "/wA=", "size": 2}),
    ("bytearray", bytearray(b"a"), {"base64": "YQ==", "size": 1}),
    ("memoryview", memoryview(b"a"), {"base64": "YQ==", "size": 1}),
    ("datetime", NOON, "2026-01-02T12:00:00+00:00"),
    ("date", DAY, "2026-01-02"),
    ("time", datetime.time(1, 2), "01:02:00"),
    ("timedelta", datetime.timedelta(minutes=1), 60.0),
    ("decimal", decimal.Decimal("1.10"), "1.10"),
    ("uuid", uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ("path", pathlib.PurePosixPath("/a/b"), "/a/b"),
    ("complex", 1 + 2j, "(1+2j)"),
    ("enum", Colour.RED, "red"),
    ("enum of a tuple", Colour.BLUE, [1, 2]),
    ("int enum", Size.BIG, 3),
    ("numpy int", np.int64(3), 3),
    ("numpy float", np.float64(1.5), 1.5),
    ("numpy nan", np.float32("nan"), None),
    ("numpy bool", np.bool_(True), True),
    ("numpy text", np.str_("a"), "a"),
    ("numpy array", np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    ("numpy time", np.datetime64("2026-01-02"), "2026-01-02"),
    ("pandas time", pd.Timestamp(NOON), "2026-01-02T12:00:00+00:00"),
    ("pandas not a time", pd.NaT, None),
    ("pandas not available", pd.NA, None),
    ("series", pd.Series([1.0, math.nan]), [1.0, None]),
    ("index", pd.Index(["a"]), ["a"]),
    (
        "data frame",
        pd.DataFrame({"a": [1, 2], 3: [None, "x"]}),
        [{"a": 1, "3": None}, {"a": 2, "3": "x"}],
    ),
    (
        "equal columns",
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        {"columns": ["a", "a"], "rows": [[1, 2]]},
    ),
    ("dataclass", Point(1, DAY), {"x": 1, "when": "2026-01-02"}),
    ("dataclass itself", Point, repr(Point)),
    ("pydantic model", Model(name="a", at=NOON), {"name": "a", "at": "2026-01-02T12:00:00+00:00"}),
    ("namedtuple", Pair(1, {2}), {"left": 1, "right": [2]}),
    ("exception", ValueError("a", 1), "ValueError: ('a', 1)"),
    ("failing repr", Mute(), "<Mute object, repr failed>"),
]


@pytest.mark.parametrize(
    ("value", "written"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_each_kind_is_written_as_the_table_says(value: Any, written: Any) -> None:
    assert values.to_json(value) == written
    assert json.loads(json.dumps(values.to_json({"v": value}))) == {"v": written}


def test_a_generator_is_named_and_not_consumed() -> None:
    assert values.to_json(_generator()).startswith("<generator object")


def test_a_long_repr_is_cut() -> None:
    class Long:
        def __repr__(self) -> str:
            return "x" * 10_000

    assert len(values.to_json(Long())) == 500


def test_an_object_that_fails_in_every_way_is_still_written() -> None:
    assert isinstance(values.to_json({"a": [Shy()]})["a"][0], str)


def test_cycles_are_named_where_they_close() -> None:
    loop: list[Any] = [1]
    loop.append({"again": loop})

    assert values.to_json(loop) == [1, {"again": "<cycle>"}]


def test_what_stands_twice_is_no_cycle() -> None:
    one = [1]

    assert values.to_json([one, one]) == [[1], [1]]


@pytest.mark.parametrize(
    "wrap",
    [lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: Pair(1, v)],
    ids=["list", "tuple", "dict", "namedtuple"],
)
def test_a_value_100_000_levels_deep_is_cut_off(wrap: Any) -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = wrap(deep)

    assert "<too deep>" in json.dumps(values.to_json(deep))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("a\nb", "a\nb"),
        ({"ä": 1}, '{\n  "ä": 1\n}'),
        ([], "[]"),
        (None, "null"),
        (1.5, "1.5"),
    ],
    ids=repr,
)
def test_text_is_text_and_anything_else_is_json(value: Any, text: str) -> None:
    assert values.to_text(value) == text


def test_a_proxy_that_stands_for_nothing_now_still_has_a_text() -> None:
    class Proxy:
        @property
        def __class__(self) -> Any:
            raise RuntimeError("not bound")

        def __repr__(self) -> str:
            return "<unbound>"

    assert values.to_text(Proxy()) == '"<unbound>"'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, None, "x", True, 1.5]}, True),
        ({1: "a"}, False),
        ((1,), False),
        ([math.nan], False),
        ([b""], False),
        (collections.OrderedDict(), False),
    ],
    ids=repr,
)
def test_plain_json_is_known_as_such(value: Any, expected: bool) -> None:
    assert values.is_json(value) is expected


def test_a_copy_shares_leaves_but_no_container() -> None:
    leaf = object()
    args = {"a": [1, {"b": (leaf, [2])}], "c": "text"}

    copied, plain, *_ = values.plain_copy(args)

    assert copied == args
    assert plain
    copied["a"][1]["b"][1].append(3)
    copied["a"].append(4)
    assert args == {"a": [1, {"b": (leaf, [2])}], "c": "text"}
    assert copied["a"][1]["b"][0] is leaf


@pytest.mark.parametrize(
    ("args", "size"),
    [
        ({}, 0),
        ({"a": 1, "b": None}, 0),
        ({"a": "four", "b": ["four", 1]}, 10),
        ({"a": {"b": [1, 2, 3]}}, 4),
        ({"a": (1, 2)}, -1),
        ({"a": [{1}]}, -1),
        ({"a": [decimal.Decimal(1)]}, -1),
        ({"a": [[shared := [1]], shared]}, 5),
        ({"a": [row := {"n": "text"}, row]}, 12),
        ({"a": [row, row], "b": row}, 17),
    ],
    ids=repr,
)
def test_a_copy_says_how_long_the_json_would_be(args: dict[str, Any], size: int) -> None:
    assert values.plain_copy(args)[2] == size


def test_a_copy_keeps_what_stands_twice_together_and_takes_linear_time() -> None:
    shared: list[Any] = []
    for _ in range(99):
        shared = [shared, shared]

    copied, plain, *_ = values.plain_copy({"a": shared})

    assert plain
    assert copied["a"][0] is copied["a"][1]
    assert copied["a"] is not shared


class OwnList(list[Any]):
    pass


@pytest.mark.parametrize(
    "make",
    [
        lambda deep: deep,
        lambda deep: (deep,),
        lambda deep: {"a": deep},
        lambda deep: [collections.OrderedDict(a=deep)],
        lambda deep: {"a": OwnList([deep])},
    ],
    ids=["list", "tuple", "dict", "ordered dict", "own list"],
)
def test_what_a_native_walker_must_not_enter_is_told(make: Any) -> None:
    deep: Any = []
    for _ in range(1_000):
        deep = [deep]

    copied, plain, *_ = values.plain_copy({"x": make(deep), "y": 1})

    assert not plain
    assert copied["y"] == 1


def test_text_is_mapped_everywhere_and_nothing_else_is_touched() -> None:
    other = object()
    value = {"secret": ["a secret", (other, "secret")], "n": 1}

    mapped = values.map_text(value, lambda text: text.replace("secret", "***"))

    assert mapped == {"***": ["a ***", (other, "***")], "n": 1}
    assert value["secret"][0] == "a secret"


def test_what_holds_no_changed_text_stays_the_same_object() -> None:
    value = {"a": [1, ("b", {"c": "d"})]}

    assert values.map_text(value, lambda text: text) is value


def test_mapping_text_survives_a_cycle() -> None:
    loop: list[Any] = ["secret"]
    loop.append(loop)

    assert values.map_text(loop, lambda text: text.replace("secret", "***")) == "['***', [...]]"


_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.binary()
    | st.datetimes(timezones=st.just(datetime.UTC))
    | st.timedeltas()
    | st.decimals()
    | st.complex_numbers()
    | st.uuids()
    | st.integers(0, 8).map(
        lambda i: [
            Mute(),
            Shy(),
            Colour.BLUE,
            Size.BIG,
            np.array([1.0, np.nan]),
            pd.NA,
            object(),
            int,
            len,
        ][i]
    )
)
_ANYTHING = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(
            st.text() | st.integers() | st.none() | st.booleans() | st.binary(), inner, max_size=4
        )
        | st.builds(Pair, st.integers(), inner)
        | inner.map(lambda v: collections.deque([v]))
    ),
    max_leaves=20,
)


@pytest.mark.slow
@given(_ANYTHING)
def test_any_value_becomes_strict_json_that_any_reader_takes(value: Any) -> None:
    written = values.to_json(value)

    text = json.dumps(written, allow_nan=False)
    assert json.loads(text) == written
    text.encode("utf-8")
    values.to_text(value).encode("utf-8", "surrogatepass")


_KEY = st.one_of(
    st.integers(-1, 2), st.booleans(), st.none(), st.sampled_from(["1", "1 (int)", "true", "null"])
)


@given(st.dictionaries(_KEY, st.integers(), max_size=6))
def test_no_value_is_lost_where_keys_are_one_text(value: dict[Any, int]) -> None:
    """A key that is text keeps its name."""
    written = values.to_json(value)

    assert [*written.values()] == [*value.values()]
    assert {k: v for k, v in value.items() if isinstance(k, str)}.items() <= written.items()


def test_keys_of_one_text_say_their_type() -> None:
    assert values.to_json({1: "a", "1": "b"}) == {"1 (int)": "a", "1": "b"}


@pytest.mark.slow
@given(_ANYTHING, st.dictionaries(st.text(max_size=5), _ANYTHING, max_size=3))
def test_a_result_always_gives_four_keys_of_json(data: Any, meta: dict[str, Any]) -> None:
    shown = ToolResult(True, data, meta=meta).to_dict()

    assert list(shown) == ["ok", "data", "error", "meta"]
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=4), _ANYTHING, max_size=3))
def test_a_copy_never_fails(args: dict[str, Any]) -> None:
    copied, *_ = values.plain_copy(args)

    assert list(copied) == list(args)
