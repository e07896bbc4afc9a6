"""Read one typed value by what its JSON Schema expects.

Owns literals, `{expression}` and `Expected`, which says what a schema takes at one place. Does not
check arguments: a value that does not fit is handed on as it was read, and the call's own check
reports it. The only code this module runs is the `evaluate` it is given.

    "in quotes"               text, always
    {expression}              the object that the expression gives
    {"a": x}                  a dict; text where the schema takes text and no object
    schema takes only text    text as typed
    schema takes text too     the literal, if its type fits; else text
    schema takes no text      the literal, JSON or Python; else text, but a bracket must be one
    nothing is known          the literal, if it is one; else text

Literals: true/True, false/False, null/None, numbers, [...], {...}, and (...) as a list. `1e3` is
1000 where an integer is wanted; NaN and Infinity are numbers only where text does not fit. Where a
schema is silent, broken or contradicts itself, any value fits. `read_since` reads a time as a
person types it.
"""

from __future__ import annotations

import ast
import datetime
import json
import math
import re
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.records import once
from onetool_ipy.base.values import Json
from onetool_ipy.faces.line.tokenizer import show
from onetool_ipy.schema.read import Param, params, resolve

_ALL = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
_NOTHING: frozenset[str] = frozenset()
_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_MAX_DEPTH = 50
_MAX_PARTS = 500

_AGO = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True)
class Expected:
    """One place of a schema. `root` is the whole schema, for references."""

    schema: Any
    root: Any

    @classmethod
    def of(cls, schema: object) -> Expected:
        """The place of a whole schema. Kept by whoever reads by it again: what a place takes is
        worked out once."""
        return schema if isinstance(schema, Expected) else cls(schema, schema)

    @once
    def kinds(self) -> frozenset[str]:
        """The JSON types that fit here; where a number fits, an integer does."""
        return _kinds(self.schema, self.root, {}, 0) or _ALL

    @property
    def takes_text(self) -> bool:
        """Whether text fits here."""
        return "string" in self.kinds

    @once
    def choices(self) -> list[object]:
        """The values of `enum` and `const`, of all alternatives."""
        choices: list[Any] = []
        for part in self._all_parts:
            choices += _listed(part, "enum")
            choices += [part["const"]] if "const" in part else []
        return choices

    @property
    def required(self) -> tuple[str, ...]:
        """The arguments that must be given, in the schema's order."""
        return tuple(param.name for param in self._params if param.required)

    @property
    def names(self) -> tuple[str, ...]:
        """All arguments: required ones first, then the others in the schema's order."""
        return tuple(param.name for param in self._params)

    @once
    def _params(self) -> list[Param]:
        return params(self.schema)

    def at(self, name: str) -> Expected:
        """The place of one argument or key."""
        if name in self._places:
            return self._places[name]
        own = self.schema.get("properties") if isinstance(self.schema, dict) else None
        properties = own if isinstance(own, dict) and name in own else self._properties
        if name in properties:
            place = self._places[name] = Expected(properties[name], self.root)
            return place
        more = (part.get("additionalProperties") for part in self._all_parts)
        return Expected(
            next((schema for schema in more if isinstance(schema, dict)), {}), self.root
        )

    def items(self) -> Expected:
        """The place of an item of a list."""
        more = (part.get("items") for part in self._all_parts)
        return Expected(
            next((schema for schema in more if isinstance(schema, dict)), {}), self.root
        )

    @once
    def _all_parts(self) -> list[Json]:
        return list(self._parts(_ALTERNATIVES))

    @once
    def _places(self) -> dict[str, Expected]:
        """The places of the arguments that were asked for."""
        return {}

    @once
    def _properties(self) -> Json:
        collected: dict[str, Any] = {}
        for part in self._all_parts:
            properties = part.get("properties")
            if isinstance(properties, dict):
                collected |= {
                    name: each for name, each in properties.items() if name not in collected
                }
        return collected

    def _parts(self, keys: tuple[str, ...]) -> Iterator[Json]:
        """Walk the schema, the schemas it refers to and those it lists under `keys`, each part
        once."""
        waiting, seen = [self.schema], set[int]()
        for part in waiting:
            if not isinstance(part, dict) or id(part) in seen or len(seen) == _MAX_PARTS:
                continue
            seen.add(id(part))
            yield part
            if isinstance(part.get("$ref"), str):
                waiting.append(resolve({"$ref": part["$ref"]}, self.root))
            for key in keys:
                waiting += _listed(part, key)


def kind_of(value: object) -> str:
    """Return the JSON type of a value; empty for a type that JSON does not have."""
    if value is None:
        return "null"
    return "object" if isinstance(value, dict) else _KINDS.get(type(value), "")


def _kinds(schema: Any, root: Any, seen: dict[str, frozenset[str]], depth: int) -> frozenset[str]:
    if schema is False:
        return _NOTHING
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return _ALL
    kinds = _ALL
    if isinstance(ref := schema.get("$ref"), str):
        if ref not in seen:
            seen[ref] = _NOTHING  # a loop adds nothing
            seen[ref] = _kinds(resolve({"$ref": ref}, root), root, seen, depth + 1)
        kinds &= seen[ref]
    if "type" in schema:
        types = {kind for kind in _listed(schema, "type") if isinstance(kind, str)}
        types = {schema["type"]} if isinstance(schema["type"], str) else types
        kinds &= types | {"integer"} if "number" in types else types
    if isinstance(schema.get("enum"), list):
        kinds &= {kind_of(value) for value in schema["enum"]}
    if "const" in schema:
        kinds &= {kind_of(schema["const"])}
    for key in ("anyOf", "oneOf"):
        if options := _listed(schema, key):
            each = (_kinds(option, root, seen, depth + 1) for option in options)
            kinds &= _NOTHING.union(*each)
    for option in _listed(schema, "allOf"):
        kinds &= _kinds(option, root, seen, depth + 1)
    return kinds


def _listed(part: Json, key: str) -> list[object]:
    items = part.get(key)
    return items if isinstance(items, list) else []


Evaluate = Callable[[str], object]

"""Evaluates a Python expression as a cell of the notebook would."""


MISSING: Any = object()

"""No value; None is a value."""


_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

_INTEGER = re.compile(
    r"-?(?:0+|[1-9](?:_?[0-9])*+|0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+)", re.ASCII
)

_FLOAT = re.compile(
    r"-?(?:[0-9]++\.[0-9]*+|\.[0-9]++|[0-9]++(?=[eE]))(?:[eE][+-]?[0-9]+)?", re.ASCII
)

_CLOSER = {"(": ")", "[": "]", "{": "}"}

_DETECTED = re.compile(r" \(detected at line \d+\)")

_UNREADABLE = (ValueError, RecursionError, MemoryError)

_TOLD = 200


def read_plain(text: str, expected: Expected) -> object:
    """Read a value typed without quotes, by what is expected at its place."""
    kinds = expected.kinds
    if kinds == {"string"}:
        return text
    value = read_literal(text)
    if expected.takes_text:
        return value if _is_meant(value, text, expected) else text
    if "number" in kinds and text in _NOT_FINITE:
        return _NOT_FINITE[text]
    if "number" not in kinds and "integer" in kinds and isinstance(value, float):
        return int(value) if value.is_integer() else value
    return text if value is MISSING else value


def read_literal(text: str) -> Any:
    """Read a JSON or Python literal other than a string; MISSING if the text is not a literal."""
    if text in _WORDS:
        return _WORDS[text]
    if not text or (text[0] not in "-.([{" and not text[0].isdigit()):
        return MISSING
    try:
        if _INTEGER.fullmatch(text):
            return int(text, 0)
        if _FLOAT.fullmatch(text):
            return value if math.isfinite(value := float(text)) else MISSING
    except ValueError:  # more digits than Python is willing to read
        return MISSING
    if text[0] not in _CLOSER or text[-1] != _CLOSER[text[0]]:
        return MISSING
    value = read_json(text)
    if value is not MISSING:
        return value
    tree = parse_expression(text)
    is_several = isinstance(tree, ast.Tuple) and text[0] != "("  # [1],[2]
    return MISSING if isinstance(tree, str) or is_several else _build(tree)


def read_word(text: str) -> object:
    """Read a word whose type nothing tells: the literal if it is one, else the text."""
    value = read_literal(text)
    return text if value is MISSING else value


def read_json(text: str) -> Any:
    """Read JSON; MISSING if the text is not JSON. Raise UsageProblem for a key given twice."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except _UNREADABLE:
        return MISSING


def read_expression(text: str, name: str, expected: Expected, evaluate: Evaluate) -> object:
    """Read `{...}`: JSON, else a Python dict, else the object that the expression inside gives."""
    value = read_json(text)
    whole = parse_expression(text) if value is MISSING else None
    is_object = value is not MISSING or isinstance(whole, ast.Dict)
    if is_object and expected.takes_text and "object" not in expected.kinds:
        return text
    if value is not MISSING:
        return value
    if isinstance(whole, ast.Dict | ast.DictComp):
        _require_keys_once(whole)
        return evaluate_for(name, text, evaluate)
    inner = text[1:-1].strip()
    inside = parse_expression(inner)
    if isinstance(inside, ast.expr):
        return evaluate_for(name, inner, evaluate)
    if isinstance(whole, ast.SetComp):
        return evaluate_for(name, text, evaluate)
    raise UsageProblem(
        f"{show(text)}{_of(name)} is not a Python expression: {inside}",
        hint="If it is text, put it in quotes.",
    )


def evaluate_for(name: str, source: str, evaluate: Evaluate) -> object:
    """Evaluate an argument's expression; an exception that it raises becomes a UsageProblem."""
    try:
        return evaluate(source)
    except UsageProblem:
        raise
    except Exception as exc:
        reason = traceback.format_exception_only(exc)[0]
        if isinstance(exc, SyntaxError):
            reason = f"SyntaxError: {exc.msg}"
        hint = "Correct the expression, or put the value in quotes if it is text."
        if isinstance(exc, NameError) and exc.name in _WORDS:
            hint = f"In Python write {_WORDS[exc.name]}."
        elif isinstance(exc, NameError) and exc.name:
            hint = f"Define {show(exc.name)} first, or put text in quotes."
        reason = " ".join(reason.split())[:_TOLD]
        raise UsageProblem(f"{show(source)}{_of(name)} failed: {reason}", hint=hint) from exc


def parse_expression(source: str) -> ast.expr | str:
    """Return the syntax tree of an expression, or a sentence that says why it cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in a value is no reason to warn about our line
            return ast.parse(source, mode="eval").body
    except SyntaxError as exc:
        reason = _DETECTED.sub("", " ".join((exc.msg or "invalid syntax").split()))
        return reason if reason.endswith(("?", ".")) else f"{reason}."
    except (RecursionError, MemoryError):
        return "it is nested too deeply."
    except ValueError:
        return "it holds a character that Python does not take."


def require_arguments(value: object, shown: str) -> Json:
    """Return a mapping with text keys as a dict; raise UsageProblem for anything else."""
    if not isinstance(value, Mapping):
        problem = f"is of type {type(value).__name__}, not arguments by name"
    elif not all(isinstance(key, str) for key in value):
        problem = "has a key that is not text"
    else:
        return dict(value)
    raise UsageProblem(
        f"{shown} {problem}.", hint='Write key=value, or {"key": value} for all arguments.'
    )


def _is_meant(value: object, text: str, expected: Expected) -> bool:
    """Whether a literal and not its text is meant, where both would fit."""
    if value is MISSING or kind_of(value) not in expected.kinds:
        return False
    chosen = any(type(value) is type(each) and value == each for each in expected.choices)
    return chosen or text not in expected.choices


def _build(node: ast.expr) -> object:
    """Build the value of a literal's syntax tree, with JSON's words; MISSING if it is not a
    literal."""
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str()):
            return node.value
        case ast.Name(id=word) if word in _WORDS:
            return _WORDS[word]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.List(elts=nodes) | ast.Tuple(elts=nodes):
            items = [_build(item) for item in nodes]
            return MISSING if any(item is MISSING for item in items) else items
        case ast.Dict(keys=keys, values=nodes):
            _require_keys_once(node)
            names = [key.value if isinstance(key, ast.Constant) else MISSING for key in keys]
            items = [_build(item) for item in nodes]
            if any(item is MISSING for item in (*names, *items)):
                return MISSING
            return dict(zip(names, items, strict=True))
    return MISSING


def _object(pairs: list[tuple[str, Any]]) -> Json:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        _refuse_twice(Counter(name for name, _ in pairs).most_common(1)[0][0])
    return mapping


def _require_keys_once(tree: ast.expr) -> None:
    seen: set[str] = set()
    for key in tree.keys if isinstance(tree, ast.Dict) else ():
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            if key.value in seen:
                _refuse_twice(key.value)
            seen.add(key.value)


def _refuse_twice(name: str) -> NoReturn:
    raise UsageProblem(f"{show(name)} is given twice in {{...}}.", hint="Keep one of them.")


def _of(name: str) -> str:
    return f" for {show(name)}" if name else ""


def read_since(text: str, now: datetime.datetime) -> datetime.datetime:
    """Read `today`, `yesterday`, `2h`, `3d`, a date or an ISO time, in the person's time zone.
    Raises UsageProblem."""
    here = now.astimezone()
    midnight = here.replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "yesterday"):
        return midnight - datetime.timedelta(days=text == "yesterday")
    try:
        if ago := _AGO.fullmatch(text):
            return here - datetime.timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        moment = datetime.datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise UsageProblem(
            f"--since does not understand '{text[:40]}'.",
            hint="For example: today, yesterday, 2h, 3d, 2026-11-15 or 2026-11-15T09:30",
        ) from None
    return moment.astimezone() if moment.tzinfo is None else moment
