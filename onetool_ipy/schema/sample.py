"""Sample arguments made from a schema, for trying a tool: the least it takes, everything it names,
and edge values.

Deterministic and small. Every sample fits the schema as far as its plain keywords say.

A text for a `pattern` is written from the parse tree of Python's `re`, which reads most of what
JSON Schema's (ECMAScript's) expressions are made of. Look-aheads and anchors inside are passed
over, so the text is checked. No expression of somebody else is run here: a bad one would take for
ever.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.base.values import Json
from onetool_ipy.schema.check import compile_schema
from onetool_ipy.schema.read import params, resolve

_MAX_DEPTH = 5
_MAX_ITEMS = 20
_MAX_TEXT = 10_000
_LONGEST = 500
_LETTERS = "abcxyz0123456789ABC_-. /:@#,+" + "".join(map(chr, range(33, 127))) + " é\n"


def samples(parameters: Mapping[str, object]) -> Iterator[tuple[str, Json]]:
    """Named argument sets: `required only`, `every argument`, `edge values`."""
    arguments = params(parameters)
    least = {p.name: _value(p.schema, parameters, 0) for p in arguments if p.required}
    yield "required only", least
    full = {p.name: _value(p.schema, parameters, 0) for p in arguments}
    if full != least:
        yield "every argument", full
    edges = {p.name: _edge(p.schema, parameters) for p in arguments}
    if edges != full:
        yield "edge values", edges


def _value(node: object, root: Mapping[str, object], depth: int) -> Any:
    schema = resolve(node, root)
    if depth > _MAX_DEPTH:
        return None
    for key in ("default", "const"):
        if key in schema and (key == "const" or schema[key] is not None):
            return schema[key]
    for key in ("examples", "enum"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return _value(schema[key][0], root, depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "string":
        return _text(schema)
    if kind in ("integer", "number"):
        return _number(schema, int if kind == "integer" else float)
    if kind == "array":
        count = min(
            max(1, int(schema.get("minItems", 1))),
            int(schema.get("maxItems", _MAX_ITEMS)),
            _MAX_ITEMS,
        )
        return [_value(schema.get("items", {}), root, depth + 1) for _ in range(count)]
    if kind == "object" or "properties" in schema:
        inner = schema.get("properties") or {}
        return {
            name: _value(inner.get(name, {}), root, depth + 1)
            for name in schema.get("required") or list(inner)
        }
    return {"boolean": True, "null": None}.get(str(kind), "text")


def _number(schema: Json, kind: type[float], first: int = 1) -> float:
    """The first of some usual numbers that is within the bounds: `first`, a bound, or the nearest
    beside one."""
    limits = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf")
    bounds = {key: schema[key] for key in limits if isinstance(schema.get(key), (int, float))}
    choices: list[float] = [first]
    for bound in (value for key, value in bounds.items() if key != "multipleOf"):
        near = [bound, bound + 1, bound - 1, math.floor(bound), math.ceil(bound)]
        if kind is float:
            others = [value for key, value in bounds.items() if key != "multipleOf"]
            near += [(bound + other) / 2 for other in others]
            near += [math.nextafter(bound, math.inf), math.nextafter(bound, -math.inf)]
        choices += near
    step = bounds.get("multipleOf", 0)
    if step > 0:
        whole = [way(each / step) for each in choices for way in (math.floor, math.ceil)]
        choices = [0, *(times * step for times in whole)]
    with suppress(InvalidTool, OverflowError):
        validator = compile_schema(bounds)
        for choice in choices:
            if validator.is_valid(number := kind(choice)):
                return number
    return kind(choices[0])


def _text(schema: Json) -> str:
    examples = {
        "date-time": "2024-01-31T12:00:00Z",
        "date": "2024-01-31",
        "time": "12:00:00",
        "email": "a@example.org",
        "uri": "https://example.org/",
        "uuid": "018f2b5e-0000-7000-8000-000000000000",
        "path": ".",
    }
    text = examples.get(str(schema.get("format")), "text")
    least, most = (
        min(int(schema.get("minLength", 0)), _MAX_TEXT),
        int(schema.get("maxLength", _MAX_TEXT)),
    )
    if isinstance(schema.get("pattern"), str):
        usual = (text, "", "1", *examples.values())
        longer = (text_for(schema["pattern"], more=more) for more in (0, 1, 3, 8, 20, least))
        keywords = ("pattern", "minLength", "maxLength")
        with suppress(InvalidTool):
            validator = compile_schema(
                {key: value for key, value in schema.items() if key in keywords}
            )
            for choice in (*usual, *longer):
                if choice is not None and validator.is_valid(choice):
                    return choice
    return (text + "x" * max(0, least - len(text)))[:most]


def _edge(node: object, root: Mapping[str, object]) -> Any:
    """An unusual but valid value: empty text, zero, an empty list."""
    schema = resolve(node, root)
    if any(
        key in schema for key in ("enum", "const", "anyOf", "oneOf", "allOf", "pattern", "format")
    ):
        options = schema.get("enum")
        return options[-1] if isinstance(options, list) and options else _value(schema, root, 0)
    kind = schema.get("type")
    if kind == "string" and not schema.get("minLength"):
        return ""
    if kind == "array" and not schema.get("minItems"):
        return []
    if kind == "boolean":
        return False
    if kind in ("integer", "number") and not {"default", "examples"} & set(schema):
        return _number(schema, int if kind == "integer" else float, first=0)
    return _value(schema, root, 0)


def text_for(pattern: str, *, more: int = 0) -> str | None:
    """A short text that the expression likely matches, always the same; None if none is known.

    Each part that may repeat does so `more` times beyond its least.
    """
    # A named group is (?<name>...) in ECMAScript, and (?P<name>...) in Python.
    written = re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", pattern)
    try:
        parser = re._parser  # type: ignore[attr-defined]  # it has no public name since Python 3.11
        return _PatternWriter(more).text(parser.parse(written))
    except (re.error, RecursionError, OverflowError, _TooLong):
        return None


class _TooLong(Exception):
    """The shortest text is longer than a sample should be."""


class _PatternWriter:
    """Writes a text for the parse tree of an expression."""

    def __init__(self, more: int) -> None:
        self._more = more
        self._groups: dict[int, str] = {}

    def text(self, tree: Iterable[Any]) -> str:
        out = ""
        for code, value in tree:
            out += self._piece(str(code), value)
            if len(out) > _LONGEST:
                raise _TooLong
        return out

    def _piece(self, code: str, value: Any) -> str:
        if code == "LITERAL":
            return chr(value)
        if code in ("NOT_LITERAL", "ANY", "IN"):
            choices = (
                [("NEGATE", None), ("LITERAL", value)]
                if code == "NOT_LITERAL"
                else value or [("NEGATE", None)]
            )
            return next((letter for letter in _LETTERS if _is_in(letter, choices)), "")
        if code in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, inside = value
            count = min(int(least) + self._more, int(most), _LONGEST + 1)
            once = self.text(inside)
            if count * len(once) > _LONGEST:
                raise _TooLong
            return once * count
        if code == "SUBPATTERN":
            group, inside = value[0], value[-1]
            self._groups[group] = self.text(inside)
            return self._groups[group]
        if code == "BRANCH":
            return self.text(value[1][0])
        if code == "ATOMIC_GROUP":
            return self.text(value)
        return self._groups.get(value, "") if code == "GROUPREF" else ""


def _is_in(letter: str, choices: Iterable[Any]) -> bool:
    """Whether a character is in a set such as `[^a-z\\d]`."""
    tests = [(str(code), value) for code, value in choices]
    plain = {
        "DIGIT": letter.isdigit(),
        "SPACE": letter.isspace(),
        "WORD": letter.isalnum() or letter == "_",
    }
    categories = {
        f"CATEGORY_{name}" if is_one else f"CATEGORY_NOT_{name}" for name, is_one in plain.items()
    }
    is_hit = any(
        (kind == "LITERAL" and ord(letter) == value)
        or (kind == "RANGE" and value[0] <= ord(letter) <= value[1])
        or (kind == "CATEGORY" and str(value) in categories)
        for kind, value in tests
    )
    return is_hit != (("NEGATE", None) in tests)
