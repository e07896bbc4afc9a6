"""Checking arguments: all violations with their pointers, nothing fetched, nothing hung, no value
too odd."""

from __future__ import annotations

import collections
import enum
import json
import math
import re
import socket
import threading
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest

from onetool_ipy.base.errors import InvalidArgs, InvalidTool
from onetool_ipy.schema.check import Checker
from onetool_ipy.schema.words import TYPES
from tests.core.support import Calls, short
from tests.harness.patience import HANG_S
from tests.harness.programs import python

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "age": {"type": "integer", "minimum": 0},
        "mail": {"type": "array", "items": {"type": "string"}},
        "home": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]},
        "note": {},
        "size": {"type": "number"},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
    "$defs": {
        "Place": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "a/b": {"type": "integer"}},
            "required": ["city"],
        }
    },
}
GOOD = {"name": "Ann", "age": 3}


def _failure(args: dict[Any, Any], parameters: dict[str, Any] = PERSON) -> InvalidArgs:
    with pytest.raises(InvalidArgs) as caught:
        Checker(parameters).check(args, "p.add")
    return caught.value


def test_arguments_that_fit_are_not_searched_for_errors() -> None:
    checker = Checker(PERSON)
    with Calls("Checker._errors") as searches:
        assert checker.complete(GOOD, "p.add") == GOOD
        assert checker.violations(GOOD) == []

    assert searches == {"Checker._errors": 0}


def test_all_violations_are_listed_with_their_pointers() -> None:
    failure = _failure({"name": "A", "mail": ["x", 5, None], "home": {"a/b": "x"}, "agee": 1})

    assert failure.code == "invalid_args"
    assert failure.reason == "schema"
    assert sorted((d["pointer"], d["keyword"]) for d in failure.details) == [
        ("", "additionalProperties"),
        ("", "required"),
        ("/home", "required"),
        ("/home/a~1b", "type"),
        ("/mail/1", "type"),
        ("/mail/2", "type"),
        ("/name", "minLength"),
    ]
    assert "missing argument 'age'" in {d["message"] for d in failure.details}
    assert "unknown argument 'agee' (did you mean 'age'?)" in failure.message
    assert failure.message.endswith("(and 3 more)")
    assert failure.hint.startswith("Usage: p.add(name: str, age: int")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({}, "missing argument 'name'"),
        ({**GOOD, "mail": "x"}, "argument 'mail': 'x' is not a list"),
        ({**GOOD, "home": 5}, "argument 'home': 5 is not dict | None"),
        ({**GOOD, "age": "3"}, "argument 'age': '3' is not a whole number"),
        ({**GOOD, "age": True}, "argument 'age': True is not a whole number"),
        ({**GOOD, "age": 1.5}, "argument 'age': 1.5 is not a whole number"),
        ({**GOOD, "Name": 1}, "unknown argument 'Name' (did you mean 'name'?)"),
        ({**GOOD, 5: 1}, "argument names are text, not 5"),
        ({**GOOD, None: 1}, "argument names are text, not None"),
    ],
    ids=short,
)
def test_a_violation_says_what_is_wrong_with_which_value(
    args: dict[Any, Any], message: str
) -> None:
    assert message in _failure(args).message


@pytest.mark.parametrize(
    ("kind", "value", "advice"),
    [
        ("integer", "2", ": it is text, so write 2 without quotes"),
        ("integer", "2,", ": write 2 without the comma"),
        ("integer", "2.5", ""),
        ("integer", "\u0663", ""),
        ("number", "2.5", ": it is text, so write 2.5 without quotes"),
        ("boolean", "1", ""),
    ],
)
def test_a_text_is_said_to_be_a_number_only_where_that_number_would_do(
    kind: str, value: str, advice: str
) -> None:
    with pytest.raises(InvalidArgs) as caught:
        Checker({"type": "object", "properties": {"n": {"type": kind}}}).check({"n": value}, "p.f")

    assert caught.value.message.endswith(f"is not {TYPES[kind]}{advice}")


def test_a_long_value_is_cut_and_a_secret_is_masked_before_that() -> None:
    secret = "s3cret" * 30

    with pytest.raises(InvalidArgs) as caught:
        Checker(PERSON).check(
            {**GOOD, "age": "x" * 100 + secret}, "p.add", lambda t: t.replace(secret, "***")
        )

    assert "s3c" not in str(caught.value.details) + caught.value.message
    assert len(caught.value.message) < 300


class Colour(enum.Enum):
    RED = "red"


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("note", object()),
        ("note", {1: {2, 3}}),
        ("note", b"x"),
        ("note", math.nan),
        ("note", pd.DataFrame({"a": [1]})),
        ("age", np.int64(5)),
        ("age", 10**400),
        ("size", math.nan),
        ("size", -math.inf),
        ("size", np.float32(1.5)),
        ("mail", ("a", "b")),
        ("mail", {"a"}),
        ("mail", {1}),
        ("age", math.nan),
        ("name", Mute()),
        ("mail", np.array(["a"])),
        ("mail", pd.Series(["a"])),
        ("mail", collections.deque(["a"])),
        ("name", np.str_("Ann")),
        ("name", Colour.RED),
        ("name", "lone \ud800"),
        ("home", collections.OrderedDict(city="x")),
        ("home", collections.UserDict(city="x")),
    ],
    ids=short,
)
def test_a_value_json_cannot_hold_is_handed_on_as_it_is(name: str, value: Any) -> None:
    ready = Checker(PERSON).check({**GOOD, name: value}, "p.add")

    assert ready[name] is value or type(value) is dict or type(value) is tuple
    assert type(ready[name]) is type(value)


@pytest.mark.parametrize(
    ("args", "pointers"),
    [
        ({"n": 10**5000}, []),
        ({"n": 10**5000, "s": 5}, ["/s"]),
        ({"n": object(), "s": 5}, ["/s"]),
        ({"n": math.nan, "nn": 1}, [""]),
        ({"s": "\ud800", "n": "x"}, ["/n"]),
        ({"\ud800": 1}, [""]),
    ],
    ids=short,
)
def test_beside_a_value_json_cannot_hold_all_others_are_checked(
    args: dict[str, Any], pointers: list[str]
) -> None:
    parameters = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "s": {"type": "string"}},
        "additionalProperties": False,
    }
    if pointers:
        assert [d["pointer"] for d in _failure(args, parameters).details] == pointers
    else:
        assert Checker(parameters).check(args, "t.x") == args


def test_a_whole_float_becomes_an_integer_where_one_is_asked_for() -> None:
    ready = Checker(PERSON).check({"name": "Ann", "age": 3.0}, "p.add")

    assert type(ready["age"]) is int


@pytest.mark.parametrize(
    "sub",
    [
        {},
        *({"type": kind} for kind in ("string", "integer", "number", "boolean", "null", "array")),
        {"type": ["integer", "null"], "description": "An age."},
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"anyOf": [{"type": "integer", "minimum": 5}, {"type": "null"}]},
        {"type": "integer", "enum": [1]},
        {"type": "string", "minLength": 3},
        {"type": "integer", "default": 7},
    ],
    ids=str,
)
def test_arguments_that_fit_by_their_types_are_those_that_the_whole_check_leaves_as_they_are(
    sub: Any,
) -> None:
    """One look at the types stands for the native check of nearly every call."""
    checker = Checker({"type": "object", "properties": {"x": sub}, "required": ["x"]})
    odd = ([1], {}, b"", object(), collections.OrderedDict(), short)
    for value in (0, 4, True, 2.0, 2.5, math.nan, 10**30, "", "abc", "\ud800", None, *odd):
        if checker.brief_size({"x": value}) >= 0:
            (left,) = checker.check({"x": value}, "t.x").values()
            assert left is value
    assert checker.brief_size({}) == checker.brief_size({"x": 1, "y": 1}) == -1
    assert checker.brief_size({"x": "abc"}) in (3, -1)


def test_the_tool_gets_a_copy() -> None:
    args = {**GOOD, "mail": ["a"], "home": {"city": "x"}}

    ready = Checker(PERSON).check(args, "p.add")
    ready["mail"].append("b")
    ready["home"]["city"] = "y"
    ready["name"] = "Bob"

    assert args == {**GOOD, "mail": ["a"], "home": {"city": "x"}}


def test_a_large_value_that_may_be_anything_is_not_looked_at() -> None:
    """A frame of a million rows beside an odd value must not be turned into JSON to be judged."""
    frame = pd.DataFrame({"a": np.arange(1_000_000)})
    free = {"type": "object", "properties": {"a": {"description": "any"}, "n": {"type": "integer"}}}
    began = time.process_time()

    assert Checker(free).check({"a": frame, "n": np.int64(1)}, "t.x")["a"] is frame

    assert time.process_time() - began < 5


TREE = {
    "type": "object",
    "properties": {"x": {"$ref": "#/$defs/T"}, "y": {}},
    "$defs": {
        "T": {
            "type": ["array", "object"],
            "items": {"$ref": "#/$defs/T"},
            "additionalProperties": {"$ref": "#/$defs/T"},
        }
    },
}


def _nested(levels: int, kind: type = list) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = {"a": value} if kind is dict else (value,) if kind is tuple else [value]
    return value


@pytest.mark.parametrize("kind", [list, dict, tuple])
@pytest.mark.parametrize(
    "schema", [TREE, {"type": "object", "properties": {"x": {}}}], ids=["typed", "any"]
)
def test_arguments_nested_deeper_than_100_are_refused(schema: Any, kind: type) -> None:
    """A native walker does not look below some 130 levels, so nobody would know what is there."""
    checker = Checker(schema)

    checker.check({"x": _nested(100, kind)}, "t.x")
    for levels in (101, 129, 150, 250, 5_000):
        with pytest.raises(InvalidArgs, match="nested deeper than 100"):
            checker.check({"x": _nested(levels, kind)}, "t.x")
        with pytest.raises(InvalidArgs, match="nested deeper than 100"):
            checker.complete({"x": _nested(levels, kind)}, "t.x")


def test_a_text_that_stands_for_a_value_nested_too_deep_stays_text() -> None:
    checker = Checker({"type": "object", "properties": {"x": {"type": "array"}}})

    assert checker.check({"x": json.dumps(_nested(100))}, "t.x") == {"x": _nested(100)}
    with pytest.raises(InvalidArgs):
        checker.check({"x": json.dumps(_nested(101))}, "t.x")


@pytest.mark.slow
def test_very_deep_and_circular_values_do_not_crash_the_process() -> None:
    """jsonschema-rs alone dies of them with a recursive schema; so this runs in a process of its
    own."""
    code = f"""
    import collections, enum
    from onetool_ipy.schema.check import Checker
    from onetool_ipy.base.errors import InvalidArgs

    class Own(list): pass
    class Hidden(enum.Enum):
        ONE = "set below"

    def deep(n=100_000):
        value = []
        for _ in range(n):
            value = [value]
        return value

    def ring():
        value = []
        value.append(value)
        return value

    checker = Checker({TREE!r})
    Hidden.ONE._value_ = deep()
    makes = [
        lambda d: d, lambda d: (d,), lambda d: {{"a": d}}, lambda d: [collections.OrderedDict(a=d)],
        lambda d: Own([d]), lambda d: {{"a": (Own([d]),)}}, lambda d: collections.defaultdict(list, a=d),
    ]
    for make in makes:
        for value in (deep(), ring()):
            for name in ("x", "y"):
                try:
                    checker.check({{name: make(value)}}, "t.x")
                except InvalidArgs as exc:
                    assert exc.details, exc
    for name in ("x", "y"):
        try:
            checker.check({{name: Hidden.ONE}}, "t.x")
        except InvalidArgs:
            pass
    print("alive")
    """

    done = python(code, check=False)

    assert (done.returncode, done.stdout.strip()) == (0, "alive"), done.stderr


def test_no_remote_schema_is_fetched() -> None:
    """A real socket listens; nobody may connect, neither when a schema is compiled nor when
    arguments are checked."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        visitors: list[Any] = []
        server.settimeout(5)

        def listen() -> None:
            while True:
                connection, _ = server.accept()
                visitors.append(connection.recv(100))
                connection.close()
                if visitors[-1] == b"end":
                    return

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        for parameters in (
            {"$ref": address},
            {"properties": {"a": {"$ref": address}}},
            {"$schema": address},
            {"$dynamicRef": address},
        ):
            with pytest.raises(InvalidTool):
                Checker(parameters)
        by_id = {"$id": address, "properties": {"a": {"type": "string"}}}
        Checker(by_id).check({"a": "x"}, "t.x")
        with socket.create_connection(server.getsockname()) as probe:
            probe.sendall(b"end")
        listener.join(HANG_S)

    assert visitors == [b"end"]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 50_000 + "!"),
        ("^(a|aa)+$", "a" * 50_000 + "!"),
        ("^(?=(a+)+$)(a|a)*b", "a" * 50_000 + "!"),
        (r"^(a*)*\1b$", "a" * 50_000),
        ("(x+x+)+y", "x" * 50_000),
    ],
    ids=["nested", "overlapping", "look-ahead", "back-reference", "polynomial"],
)
def test_an_evil_pattern_cannot_hang(pattern: str, text: str) -> None:
    checker = Checker(
        {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    )
    began = time.process_time()

    with pytest.raises(InvalidArgs):
        checker.check({"a": text}, "t.x")

    assert time.process_time() - began < 10


def test_patterns_with_look_around_work() -> None:
    checker = Checker(
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?!x)"}}}
    )

    assert checker.check({"a": "y"}, "t.x") == {"a": "y"}
    with pytest.raises(InvalidArgs):
        checker.check({"a": "x"}, "t.x")


def test_draft_7_is_accepted() -> None:
    old = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}},
        "definitions": {},
    }

    assert Checker(old).check({"a": ["x", 1]}, "t.x") == {"a": ["x", 1]}
    assert _failure({"a": [1, 1]}, old).details[0]["pointer"] == "/a/0"


@pytest.mark.spec("004/Candidate/Arguments follow strict JSON Schema")
def test_arguments_follow_json_schema_2020_12() -> None:
    new = {
        "type": "object",
        "properties": {"a": {"prefixItems": [{"type": "string"}], "items": False}},
        "dependentRequired": {"a": ["b"]},
        "unevaluatedProperties": False,
    }

    found = {(d["pointer"], d["keyword"]) for d in _failure({"a": ["x", 1], "c": 1}, new).details}

    assert ("", "required") in found
    assert ("", "unevaluatedProperties") in found
    assert any(pointer.startswith("/a") for pointer, _ in found)


# What a schema is silent about, or says twice


SERVER = {
    "type": "object",
    "properties": {
        "url": {"type": "string"},
        "depth": {"type": "integer", "default": 3},
        "tags": {"type": "array", "items": {"type": "string"}, "default": ["a"]},
        "shape": {"$ref": "#/$defs/Shape"},
    },
    "required": ["url", "depth", "tags", "shape"],
    "$defs": {
        "Shape": {
            "type": "object",
            "properties": {
                "kind": {"type": "string", "default": "box"},
                "size": {"type": "integer"},
            },
            "required": ["kind"],
            "default": {},
        }
    },
    "additionalProperties": False,
}
"""As zod writes it: what has a default is listed as required."""


def test_an_argument_that_is_required_and_has_a_default_is_filled_with_it() -> None:
    ready = Checker(SERVER).check({"url": "x"}, "web.get")

    assert ready == {"url": "x", "depth": 3, "tags": ["a"], "shape": {"kind": "box"}}
    ready["tags"].append("b")
    ready["shape"]["size"] = 1
    assert Checker(SERVER).check({"url": "x"}, "web.get")["tags"] == ["a"]


def test_a_default_is_not_taken_for_what_was_given() -> None:
    given = {"url": "x", "depth": 0, "tags": [], "shape": {"kind": "disc", "size": 2}}

    assert Checker(SERVER).check(given, "web.get") == given
    assert _failure({"url": "x", "depth": None}, SERVER).details[0]["pointer"] == "/depth"
    assert "missing argument 'url'" in _failure({"depth": 1}, SERVER).message
    assert (
        "missing argument 'url' (you gave 'ulr')"
        in _failure({"ulr": "x"}, {**SERVER, "additionalProperties": True}).message
    )
    assert _failure({"depth": 1}, SERVER).hint == (
        "Usage: p.add(url: str, depth: int = 3, tags: list[str] = ['a'], shape: dict = {})"
    )


LISTS = {
    "type": "object",
    "properties": {
        "urls": {"type": "array", "items": {"type": "string"}},
        "more": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        "where": {
            "type": "object",
            "properties": {"ids": {"type": "array", "items": {"type": "integer"}}},
        },
        "text": {"type": "string"},
        "either": {"type": ["string", "array"]},
        "any": {},
    },
}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("urls", '["a", "b"]', ["a", "b"]),
        ("urls", ' ["a"]\n', ["a"]),
        ("more", "[1, 2]", [1, 2]),
        ("where", '{"ids": [1]}', {"ids": [1]}),
        ("where", '{"ids": "[1]"}', {"ids": [1]}),
        ("text", '["a"]', '["a"]'),
        ("either", '["a"]', '["a"]'),
        ("any", '["a"]', '["a"]'),
    ],
)
def test_text_stands_for_the_list_or_object_in_it_where_text_is_not_wanted(
    name: str, text: str, value: Any
) -> None:
    given = {name: text}

    assert Checker(LISTS).check(given, "t.x") == {name: value}
    assert given == {name: text}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("urls", "a", "argument 'urls': 'a' is not a list: write [\"a\"]"),
        ("urls", "a.b, c", "argument 'urls': 'a.b, c' is not a list: write [\"a.b\", \"c\"]"),
        ("urls", "1,-2.5", "argument 'urls': '1,-2.5' is not a list: write [1, -2.5]"),
        ("urls", "[a", "argument 'urls': '[a' is not a list"),
        ("urls", '{"a": 1}', "argument 'urls': '{\"a\": 1}' is not a list"),
        ("urls", "[1]", "argument 'urls[0]': 1 is not text"),
        ("urls", "[" * 5_000 + "]" * 5_000, "is not a list"),
        ("urls", "[" * 300 + "]" * 300, "is not a list"),
        ("where", "[1]", "argument 'where': '[1]' is not an object"),
    ],
    ids=short,
)
def test_text_that_is_no_json_of_the_wanted_kind_is_refused(
    name: str, text: str, message: str
) -> None:
    assert message in _failure({name: text}, LISTS).message


def test_a_value_is_judged_as_it_stands_where_it_is_no_argument() -> None:
    assert [v["keyword"] for v in Checker(SERVER).violations({"url": "x"})] == ["required"] * 3
    assert (
        Checker(LISTS).violations({"urls": '["a"]'})[0]["message"]
        == "field 'urls': '[\"a\"]' is not a list"
    )


# Words


OLD = {"$schema": "http://json-schema.org/draft-07/schema#"}
WORDS: dict[str, tuple[Any, Any, str]] = {
    "type": ({"type": "integer"}, "x", "argument 'a': 'x' is not a whole number"),
    "types": (
        {"type": ["null", "integer"]},
        "x",
        "argument 'a': 'x' is not a whole number or null",
    ),
    "enum": ({"enum": [1, "b"]}, 3, "argument 'a': 3 is not one of 1, 'b'"),
    "enum of many": (
        {"enum": list(range(50))},
        "x",
        "'x' is not one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...",
    ),
    "const": ({"const": 4}, 3, "argument 'a': 3 is not 4"),
    "minimum": ({"minimum": 5}, 3, "argument 'a': 3 is too small; it must be at least 5"),
    "maximum": ({"maximum": 5}, 9, "argument 'a': 9 is too large; it may be at most 5"),
    "exclusiveMinimum": (
        {"exclusiveMinimum": 5},
        5,
        "argument 'a': 5 is too small; it must be more than 5",
    ),
    "exclusiveMaximum": (
        {"exclusiveMaximum": 5},
        5,
        "argument 'a': 5 is too large; it must be less than 5",
    ),
    "multipleOf": ({"multipleOf": 3}, 4, "argument 'a': 4 is not a multiple of 3"),
    "minLength": ({"minLength": 3}, "b", "argument 'a': 'b' is shorter than 3 characters"),
    "maxLength": ({"maxLength": 1}, "bcd", "argument 'a': 'bcd' is longer than 1 character"),
    "pattern": ({"pattern": "^x"}, "b", "argument 'a': 'b' does not match the pattern '^x'"),
    "format": ({"format": "date"}, "b", "argument 'a': 'b' is not a valid date"),
    "minItems": ({"minItems": 2}, [1], "argument 'a': [1] has fewer than 2 items"),
    "maxItems": ({"maxItems": 1}, [1, 2], "argument 'a': [1, 2] has more than 1 item"),
    "additionalItems": (
        {"items": [{}], "additionalItems": False},
        [1, 2],
        "argument 'a': [1, 2] has more than 1 item",
    ),
    "uniqueItems": ({"uniqueItems": True}, [1, 1], "argument 'a': [1, 1] has the same item twice"),
    "contains": (
        {"contains": {"const": 2}},
        [1],
        "argument 'a': no items of [1] are what is asked for",
    ),
    "minContains": (
        {"contains": {"const": 1}, "minContains": 2},
        [1],
        "argument 'a': too few items of [1] are what is asked for",
    ),
    "maxContains": (
        {"contains": {"const": 1}, "maxContains": 1},
        [1, 1],
        "argument 'a': too many items of [1, 1] are what is asked for",
    ),
    "items": ({"items": False}, [1], "argument 'a[0]': no value is allowed here"),
    "unevaluatedItems": (
        {"unevaluatedItems": False},
        [1],
        "argument 'a': [1] has items that are not allowed",
    ),
    "minProperties": ({"minProperties": 2}, {}, "argument 'a': {} has fewer than 2 entries"),
    "maxProperties": (
        {"maxProperties": 1},
        {"x": 1, "y": 2},
        "{'x': 1, 'y': 2} has more than 1 entry",
    ),
    "required": ({"required": ["x"]}, {}, "argument 'a': 'x' is missing"),
    "dependentRequired": (
        {"dependentRequired": {"x": ["y"]}},
        {"x": 1},
        "argument 'a': 'y' is missing",
    ),
    "additionalProperties": (
        {"properties": {"y": {}}, "additionalProperties": False},
        {"x": 1},
        "argument 'a': unknown key 'x'",
    ),
    "no properties": (
        {"additionalProperties": False},
        {"x": "object"},
        "argument 'a': unknown key 'x'",
    ),
    "unevaluatedProperties": (
        {"unevaluatedProperties": False},
        {"x": 1},
        "argument 'a': unknown key 'x'",
    ),
    "propertyNames": (
        {"propertyNames": {"pattern": "^y"}},
        {"x": 1},
        "argument 'a': the name 'x' does not match the pattern '^y'",
    ),
    "not": ({"not": {"type": "integer"}}, 1, "argument 'a': 1 is not allowed"),
    "anyOf": (
        {"anyOf": [{"type": "string"}, {"type": "array"}]},
        1,
        "argument 'a': 1 is not str | list",
    ),
    "anyOf of no type": (
        {"anyOf": [{"minimum": 5}, {"multipleOf": 2}]},
        1,
        "argument 'a': 1 fits none of the choices",
    ),
    "oneOf": (
        {"oneOf": [{"type": "string"}, {"type": "array"}]},
        1,
        "argument 'a': 1 is not str | list",
    ),
    "oneOf, several": (
        {"oneOf": [{"type": "integer"}, {"minimum": 0}]},
        1,
        "argument 'a': 1 fits several of the choices, and may fit only one",
    ),
    "false": (False, "object", "argument 'a': no value is allowed here"),
    "contentEncoding": ({"contentEncoding": "base64"}, "%%", "argument 'a': '%%' is not base64"),
    "contentMediaType": (
        {"contentMediaType": "application/json"},
        "{",
        "argument 'a': '{' is not application/json",
    ),
}
_LIBRARY = re.compile(
    r"schema|keyword|is valid under|not valid under|Unevaluated|non-unique|compliant|instance"
)


@pytest.mark.parametrize(("sub", "value", "message"), WORDS.values(), ids=list(WORDS))
def test_every_violation_is_said_in_words_of_ours(sub: Any, value: Any, message: str) -> None:
    old = (
        OLD
        if sub and {"format", "contentEncoding", "contentMediaType", "additionalItems"} & set(sub)
        else {}
    )

    failure = _failure({"a": value}, {**old, "type": "object", "properties": {"a": sub}})

    assert message in failure.message
    assert not _LIBRARY.search(failure.message)


def test_every_kind_of_violation_has_its_words() -> None:
    """A new version of the library may know more kinds: then they are to be worded here too."""
    import jsonschema_rs

    kinds = {name for name in vars(jsonschema_rs.ValidationErrorKind) if name[:1].isupper()}
    worded = {name.partition(" ")[0].partition(",")[0] for name in WORDS}
    never = {"BacktrackLimitExceeded", "RegexEngineFailure", "Custom", "FromUtf8", "Referencing"}
    others = {
        "Constant": "const",
        "FalseSchema": "false",
        "OneOfMultipleValid": "oneOf",
        "OneOfNotValid": "oneOf",
    }

    assert {others.get(kind, kind[0].lower() + kind[1:]) for kind in kinds - never} <= worded


def test_an_argument_of_a_tool_that_takes_none_is_unknown() -> None:
    none = {"type": "object", "additionalProperties": False}

    failure = _failure({"x": "object", "y": 1}, none)

    assert [d["message"] for d in failure.details] == [
        "unknown argument 'x'",
        "unknown argument 'y'",
    ]
    assert "no value is allowed" not in failure.message


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"properties": {"a": {"type": "strin"}}},
            "at '/properties/a/type': 'strin' is not a type. There are: string,",
        ),
        ({"properties": 3}, "at '/properties': 3 is not an object"),
        ({"required": "a"}, "at '/required': 'a' is not a list"),
        ({"$ref": "#/nope"}, "it refers to something that is not inside it."),
        ({"$schema": "http://x/y"}, "it refers to something that is not inside it."),
        (
            {"properties": {"a": {"pattern": "("}}},
            "at '/properties/a/pattern': '(' is not a regular expression.",
        ),
        ({"multipleOf": 0}, "at '/multipleOf': 0 is too small; it must be more than 0"),
        ({1: 2}, "Not a JSON Schema: it cannot be read."),
    ],
    ids=short,
)
def test_what_is_wrong_with_a_schema_is_said_in_words_of_ours(
    parameters: Any, message: str
) -> None:
    with pytest.raises(InvalidTool) as caught:
        Checker(parameters)

    assert message in caught.value.message
    assert caught.value.message.startswith("Not a JSON Schema")
