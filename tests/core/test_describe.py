"""A Python function becomes a tool: schema, words, conversion of arguments. All as a user writes
them."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import functools
import inspect
import json
import pathlib
import uuid
from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)

import pandas as pd
import pydantic
import pytest

from onetool_ipy import ToolSpec
from onetool_ipy.base.errors import InvalidArgs, InvalidTool
from onetool_ipy.core import describe
from tests.core.support import MakeBench, short

if TYPE_CHECKING:
    from somewhere import Nothing  # noqa: F401 - named in an annotation that cannot be resolved


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Person(pydantic.BaseModel):
    name: str
    born: datetime.date | None = None
    friends: list[Person] = []


class Tree(TypedDict):
    """A dict that holds others of its kind, under a key that may be missing."""

    name: str
    children: NotRequired[list[Tree]]


class Box(TypedDict, total=False):
    width: int
    label: str


UserId = NewType("UserId", int)
T = TypeVar("T")
NOON = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.UTC)


def _spec(fn: Callable[..., Any]) -> ToolSpec:
    return describe.from_function(fn, name="t.f")


def _arg(hint: Any, default: Any = ...) -> ToolSpec:
    """The tool `f(x: hint = default)`, which gives back what it got."""

    def f(x: Any) -> Any:
        return x

    f.__annotations__["x"] = hint
    if default is not ...:
        f.__defaults__ = (default,)
    return _spec(f)


def _given(spec: ToolSpec, **args: Any) -> Any:
    return spec.run(spec.checker.check(args, spec.name))


@pytest.mark.spec("004/Models/ToolSpec has name description schema handler")
def test_a_function_with_a_google_docstring_is_a_whole_tool() -> None:
    def search(query: str, count: int = 5, *, safe: bool = True) -> list[str]:
        """Search the web.

        Second paragraph.

        Args:
            query: What to look for.
            count: How many,
                at most.

        Returns:
            Addresses.

        Example:
            search("x")
        """
        return [query] * count if safe else []

    spec = describe.from_function(
        search, name="brave.search", tags=("web",), read_only=True, timeout_s=3.0
    )

    assert (spec.name, spec.pack, spec.short_name) == ("brave.search", "brave", "search")
    assert spec.description == "Search the web.\n\nSecond paragraph."
    assert spec.summary == "Search the web."
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for."},
            "count": {"type": "integer", "description": "How many, at most.", "default": 5},
            "safe": {"type": "boolean", "default": True},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert spec.args == ("query: What to look for.", "count: How many, at most.", "safe: bool")
    assert (spec.returns, spec.example) == ("Addresses.", 'search("x")')
    assert (spec.tags, spec.source, spec.read_only, spec.timeout_s) == (
        ("web",),
        "local",
        True,
        3.0,
    )
    assert spec.signature == "brave.search(query: str, count: int = 5, safe: bool = True)"
    assert spec.function.positional == ("query", "count")
    assert spec.run({"query": "a", "count": 2}) == ["a", "a"]


def test_a_function_that_says_nothing_is_described_by_its_name() -> None:
    def plain(a, b=1):  # noqa: ANN001, ANN202
        return a, b

    spec = _spec(plain)

    assert spec.description == "f"
    assert spec.signature == "t.f(a: Any, b: Any = 1)"
    assert _given(spec, a={1, 2}) == ({1, 2}, 1)


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (list, {"type": "array", "items": {}}),
        (dict, {"type": "object", "additionalProperties": True}),
        (Any, {}),
        (object, {}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Optional[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}),  # noqa: UP045 - as many write it
        (Union[int, list], {"anyOf": [{"type": "integer"}, {"type": "array", "items": {}}]}),  # noqa: UP007 - as many write it
        (Literal["a", 1, None], {"enum": ["a", 1, None]}),
        (
            Box,
            {
                "type": "object",
                "title": "Box",
                "properties": {
                    "width": {"type": "integer", "title": "Width"},
                    "label": {"type": "string", "title": "Label"},
                },
            },
        ),
        ("Nothing", {}),
        ("no type at all(", {}),
        (5, {}),
        ([1], {}),
    ],
    ids=short,
)
def test_plain_types_have_plain_schemas(hint: Any, schema: dict[str, Any]) -> None:
    assert _arg(hint).parameters["properties"]["x"] == schema


def test_json_types_are_not_converted_at_a_call() -> None:
    """A value that fits the schema of such a type is what the function asks for; the call saves the
    time."""
    plain = (
        str,
        float,
        bool,
        Any,
        list[int],
        dict[str, float],
        int | None,
        Literal["a", 1],
        Box,
        list[Tree],
    )
    rich = (uuid.UUID, tuple[int, int], dict[int, str], list[pathlib.Path], Literal[b"a"])

    assert [bool(_arg(hint).function.converters) for hint in (*plain, *rich)] == [False] * 10 + [
        True
    ] * 5


@pytest.mark.parametrize(
    ("hint", "given", "got"),
    [
        (datetime.datetime, "2026-01-02T12:00:00Z", NOON),
        (datetime.datetime, NOON, NOON),
        (datetime.date, "2026-01-02", datetime.date(2026, 1, 2)),
        (datetime.timedelta, "PT1M", datetime.timedelta(minutes=1)),
        (datetime.timedelta, datetime.timedelta(1), datetime.timedelta(1)),
        (list[datetime.timedelta], [datetime.timedelta(1)], [datetime.timedelta(1)]),
        (pathlib.Path, "/a/b", pathlib.Path("/a/b")),
        (pathlib.Path, pathlib.Path("a"), pathlib.Path("a")),
        (Colour, "r", Colour.RED),
        (Colour, Colour.BLUE, Colour.BLUE),
        (Literal[Colour.RED], Colour.RED, Colour.RED),
        (Point, {"x": 1}, Point(1)),
        (Point, Point(2), Point(2)),
        (list[Point], [{"x": 1}, {"x": 2, "y": 3}], [Point(1), Point(2, 3)]),
        (Point | None, None, None),
        (
            Person,
            {"name": "A", "friends": [{"name": "B"}]},
            Person(name="A", friends=[Person(name="B")]),
        ),
        (Person, Person(name="A"), Person(name="A")),
        (list[int], [1, 2], [1, 2]),
        (int | None, None, None),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 2], {1, 2}),
        (set[int], {1, 2}, {1, 2}),
        (bytes, b"\xff", b"\xff"),
        (bytes, "a", b"a"),
        (decimal.Decimal, "1.5", decimal.Decimal("1.5")),
        (uuid.UUID, str(uuid.UUID(int=1)), uuid.UUID(int=1)),
        (Annotated[int, pydantic.Field(ge=1)], 1, 1),
        (UserId, 5, 5),
        (T, 5, 5),
        (Box, {"width": 1}, {"width": 1}),
        (dict[Colour, int], {"r": 1}, {Colour.RED: 1}),
        (pd.DataFrame, (frame := pd.DataFrame({"a": [1]})), frame),
        (pd.DataFrame | None, None, None),
        (Callable, len, len),
        (type, int, int),
    ],
    ids=short,
)
def test_arguments_become_what_the_function_asks_for(hint: Any, given: Any, got: Any) -> None:
    found = _given(_arg(hint), x=given)

    assert found is got or (type(found) is type(got) and found == got)


@pytest.mark.parametrize(
    ("hint", "given", "pointer"),
    [
        (datetime.datetime, "yesterday", "/x"),
        (datetime.datetime, 5, "/x"),
        (Colour, "green", "/x"),
        (Point, {"x": "a"}, "/x/x"),
        (Point | None, {"y": 1}, "/x"),
        (list[Point], [{"x": 1}, {"x": "a"}], "/x/1/x"),
        (Person, {"name": "A", "friends": [{"name": 5}]}, "/x/friends/0/name"),
        (Person, {"name": "A", "born": "some day"}, "/x/born"),
        (list[int], [1, "2"], "/x/1"),
        (tuple[int, str], [1], "/x"),
        (Annotated[int, pydantic.Field(ge=1)], 0, "/x"),
        (Box, {"width": "a"}, "/x/width"),
        (pd.DataFrame, 5, "/x"),
        (pd.DataFrame | None, "a", "/x"),
        (Callable, 5, "/x"),
        (int, "1", "/x"),
        (str, 1, "/x"),
    ],
    ids=short,
)
def test_arguments_that_do_not_fit_are_refused_where_they_do_not_fit(
    hint: Any, given: Any, pointer: str
) -> None:
    with pytest.raises(InvalidArgs) as caught:
        _given(_arg(hint), x=given)

    assert pointer in {d["pointer"] for d in caught.value.details}


def test_every_conversion_that_fails_is_listed() -> None:
    def f(a: datetime.date, b: datetime.date, c: int) -> None: ...

    with pytest.raises(InvalidArgs) as caught:
        _given(_spec(f), a="x", b="y", c=1)

    assert [d["pointer"] for d in caught.value.details] == ["/a", "/b"]


def test_code_of_a_type_that_raises_anything_is_an_argument_that_does_not_fit() -> None:
    @dataclasses.dataclass
    class Bad:
        x: int

        def __post_init__(self) -> None:
            raise ZeroDivisionError("never")

    with pytest.raises(InvalidArgs, match="never"):
        _given(_arg(Bad), x={"x": 1})


@pytest.mark.parametrize(
    ("hint", "default", "shown"),
    [
        (int, 5, {"default": 5}),
        (str, "a", {"default": "a"}),
        (list[int], (1, 2), {"default": [1, 2]}),
        (Colour, Colour.RED, {"default": "r"}),
        (pathlib.Path, pathlib.Path("a"), {"default": "a"}),
        (Any, object(), {}),
        (float, float("nan"), {}),
        (bytes, b"", {}),
        (Any, None, {"default": None}),
    ],
    ids=short,
)
def test_a_default_is_shown_where_json_can_hold_it(
    hint: Any, default: Any, shown: dict[str, Any]
) -> None:
    spec = _arg(hint, default)

    sub = spec.parameters["properties"]["x"]
    assert {k: v for k, v in sub.items() if k == "default"} == shown
    assert "required" not in spec.parameters
    assert json.dumps(spec.parameters)


@pytest.mark.parametrize(
    "hint", [int, int | str, Literal["a"], datetime.date, Point, Colour, list[int]], ids=short
)
def test_none_may_be_passed_where_it_is_the_default(hint: Any) -> None:
    assert _given(_arg(hint, None), x=None) is None


def _positional_only(a: int, b: int = 2, /, c: int = 3, *, d: int = 4) -> tuple[int, ...]:
    return a, b, c, d


def _starred(a: int, b: int = 2, *rest: int, c: int = 3, **more: int) -> tuple[Any, ...]:
    return a, b, rest, c, more


@pytest.mark.parametrize(
    ("fn", "args", "got"),
    [
        (_positional_only, {"a": 1}, (1, 2, 3, 4)),
        (_positional_only, {"a": 1, "b": 5}, (1, 5, 3, 4)),
        (_positional_only, {"a": 1, "c": 5}, (1, 2, 5, 4)),
        (_positional_only, {"a": 1, "d": 5, "b": 6, "c": 7}, (1, 6, 7, 5)),
        (_starred, {"a": 1}, (1, 2, (), 3, {})),
        (_starred, {"a": 1, "rest": [7, 8]}, (1, 2, (7, 8), 3, {})),
        (_starred, {"a": 1, "b": 5, "rest": [7], "c": 9, "z": 0}, (1, 5, (7,), 9, {"z": 0})),
        (functools.partial(_starred, 10), {"b": 5, "rest": [1]}, (10, 5, (1,), 3, {})),
        (functools.partial(_starred, b=7), {"a": 1}, (1, 7, (), 3, {})),
    ],
    ids=short,
)
def test_every_kind_of_argument_reaches_the_function(
    fn: Any, args: dict[str, Any], got: Any
) -> None:
    spec = _spec(fn)

    assert _given(spec, **args) == got


def test_starred_arguments_are_typed() -> None:
    spec = _spec(_starred)

    assert spec.parameters["properties"]["rest"] == {"type": "array", "items": {"type": "integer"}}
    assert spec.parameters["additionalProperties"] == {"type": "integer"}
    assert spec.parameters["required"] == ["a"]
    assert spec.function.positional == ("a", "b", "*rest")
    with pytest.raises(InvalidArgs):
        _given(spec, a=1, rest=["x"])
    with pytest.raises(InvalidArgs):
        _given(spec, a=1, z="x")


class Greeter:
    """Its class says this."""

    def __init__(self, word: str = "hello") -> None:
        self.word = word

    def greet(self, name: str) -> str:
        """Greet someone."""
        return f"{self.word} {name}"

    def __call__(self, name: str, when: datetime.date | None = None) -> str:
        """Call it to greet.

        Args:
            name: Who.
        """
        return f"{self.word} {name} {when}"

    @classmethod
    def of(cls, word: str) -> str:
        """Make one."""
        return cls(word).word

    @staticmethod
    def plain(a: int) -> int:
        """Plain."""
        return a


def test_bound_methods_callables_and_partials_are_tools_too() -> None:
    greeter = Greeter()

    bound, called = _spec(greeter.greet), _spec(greeter)
    part = _spec(functools.partial(greeter.greet, name="Ann"))

    assert (bound.description, _given(bound, name="A")) == ("Greet someone.", "hello A")
    assert (called.description, called.args[0]) == ("Call it to greet.", "name: Who.")
    assert _given(called, name="A", when="2026-01-02") == "hello A 2026-01-02"
    assert (part.description, _given(part)) == ("Greet someone.", "hello Ann")
    assert _given(_spec(Greeter.of), word="x") == "x"
    assert _given(_spec(Greeter.plain), a=1) == 1
    assert _given(_spec(Greeter), word="x").word == "x"


def test_a_decorated_function_keeps_its_own_arguments() -> None:
    def shout(fn: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(fn)
        def inner(*args: Any, **kwargs: Any) -> str:
            return fn(*args, **kwargs).upper()

        return inner

    @shout
    def greet(name: str, when: datetime.date) -> str:
        return f"{name} {when}"

    assert _given(_spec(greet), name="a", when="2026-01-02") == "A 2026-01-02"


def test_async_functions_and_generators_are_known_as_such() -> None:
    async def one(a: int) -> int:
        return a

    async def many(a: int) -> Any:
        yield a

    def lazy(a: int) -> Any:
        yield a

    assert _spec(one).is_async
    assert _spec(many).is_async
    assert _spec(functools.partial(one, a=1)).is_async
    assert not _spec(lazy).is_async
    assert asyncio.run(_given(_spec(one), a=3)) == 3


@pytest.mark.parametrize("fn", [len, print, "x".join, sorted], ids=short)
def test_a_builtin_with_a_signature_is_a_tool(fn: Any) -> None:
    assert _spec(fn).parameters["type"] == "object"
    assert _spec(fn).description


@pytest.mark.parametrize("fn", [dict.get, int, max, 5], ids=short)
def test_what_tells_no_arguments_says_so(fn: Any) -> None:
    try:
        inspect.signature(fn)
    except (TypeError, ValueError):
        with pytest.raises(InvalidTool, match="are not known"):
            _spec(fn)
    else:
        assert _spec(fn)


def test_a_type_that_cannot_be_described_names_the_argument() -> None:
    class Broken(pydantic.BaseModel):
        @classmethod
        def __get_pydantic_json_schema__(cls, *_: Any) -> Any:
            raise ZeroDivisionError("broken class")

    with pytest.raises(InvalidTool, match=r"'t\.f': argument 'x': ZeroDivisionError: broken class"):
        _arg(Broken)


def test_two_classes_of_the_same_name_do_not_meet() -> None:
    def make(field: str) -> Any:
        return dataclasses.make_dataclass("Same", [(field, int)])

    one, two = make("a"), make("b")

    def f(x: Any, y: Any) -> Any:
        return x, y

    f.__annotations__.update(x=one | None, y=two | None)
    spec = _spec(f)

    assert _given(spec, x={"a": 1}, y={"b": 2}) == (one(1), two(2))
    with pytest.raises(InvalidArgs):
        _given(spec, x={"b": 1}, y={"b": 2})


@pytest.mark.slow
def test_a_very_deep_value_for_a_recursive_model_is_refused() -> None:
    deep: dict[str, Any] = {"name": "end"}
    for _ in range(100_000):
        deep = {"name": "x", "friends": [deep]}

    with pytest.raises(InvalidArgs):
        _given(_arg(Person), x=deep)


def test_a_typed_dict_is_described_wherever_it_stands() -> None:
    """pydantic refuses `typing.TypedDict` before Python 3.12."""
    spec = _arg(dict[str, list[Tree] | None])

    assert _given(spec, x={"a": [{"name": "b", "children": [{"name": "c"}]}], "d": None})
    for wrong in ({"a": [{"name": 1}]}, {"a": [{}]}, {"a": [{"name": "b", "children": [5]}]}):
        with pytest.raises(InvalidArgs):
            _given(spec, x=wrong)


def test_a_spec_cannot_be_changed_but_replaced() -> None:
    spec = _arg(int)

    with pytest.raises(AttributeError, match="cannot assign"):
        spec.name = "other"  # type: ignore[misc]
    other = spec.replace(name="a.b", tags=("x",))
    assert (other.name, other.tags, other.parameters) == ("a.b", ("x",), spec.parameters)
    assert spec.name == "t.f"


def test_a_tool_with_rich_arguments_works_through_the_executor(bench: MakeBench) -> None:
    def plan(who: Person, at: datetime.datetime, where: Point | None = None) -> str:
        return f"{who.name} {at:%H} {where}"

    result = bench(plan).call(
        "t.plan", {"who": {"name": "A"}, "at": "2026-01-02T12:00:00Z", "where": {"x": 1}}
    )

    assert result.unwrap() == "A 12 Point(x=1, y=0)"
