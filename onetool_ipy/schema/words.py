"""What is said of a value that does not fit its schema: the words of all three checks, those of a
call's arguments, of the configuration and of bundles.

Each check reads the errors of its own library and shows the value in its own way; the rest of the
sentence is made here, by JSON Schema's keyword and the facts of the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from onetool_ipy.base import values

TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
"""What a person reads for a type of JSON."""

MISSING = "is missing"

MAX_VALUE = 60
"""The most characters of a value that a sentence shows."""

_MAX_OPTIONS = 12
_MAX_PLAIN = 1e15
"""A larger limit that is a float is shown with its exponent."""

_PREDICATES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "additionalItems": lambda facts: f"has more than {_counted(facts, 'item')}",
    "const": lambda facts: f"is not {values.safe_repr(facts['expected_value'], MAX_VALUE)}",
    "contentEncoding": lambda facts: f"is not {facts['content_encoding']}",
    "contentMediaType": lambda facts: f"is not {facts['content_media_type']}",
    "enum": lambda facts: f"is not one of {_options(facts['options'])}",
    "exclusiveMaximum": lambda facts: f"is too large; it must be less than {_limit(facts)}",
    "exclusiveMinimum": lambda facts: f"is too small; it must be more than {_limit(facts)}",
    "format": lambda facts: f"is not a valid {facts['format']}",
    "maxItems": lambda facts: f"has more than {_counted(facts, 'item')}",
    "maxLength": lambda facts: f"is longer than {_counted(facts, 'character')}",
    "maxProperties": lambda facts: f"has more than {_counted(facts, 'entry')}",
    "maximum": lambda facts: f"is too large; it may be at most {_limit(facts)}",
    "minItems": lambda facts: f"has fewer than {_counted(facts, 'item')}",
    "minLength": lambda facts: f"is shorter than {_counted(facts, 'character')}",
    "minProperties": lambda facts: f"has fewer than {_counted(facts, 'entry')}",
    "minimum": lambda facts: f"is too small; it must be at least {_limit(facts)}",
    "multipleOf": lambda facts: f"is not a multiple of {facts['multiple_of']}",
    "not": lambda _facts: "is not allowed",
    "pattern": lambda facts: f"does not match the pattern '{facts.get('pattern', '')}'",
    "type": lambda facts: f"is not {type_words(facts['types'])}",
    "unevaluatedItems": lambda _facts: "has items that are not allowed",
    "uniqueItems": lambda _facts: "has the same item twice",
}


def predicate(keyword: str, facts: Mapping[str, Any]) -> str:
    """Say what is wrong with a value, to stand behind it: `is not a whole number`. `facts` are
    those of jsonschema-rs."""
    make = _PREDICATES.get(keyword)
    return "is not what is asked for" if make is None else make(facts)


def demand(kind: str) -> str:
    """Say what a field must be, to stand behind its name: `must be a whole number`."""
    return f"must be {TYPES[kind]}"


def type_words(kinds: Iterable[str]) -> str:
    """Return what a value may be, by types of JSON."""
    listed = set(kinds)
    return " or ".join(TYPES[kind] for kind in TYPES if kind in listed) or "what is asked for"


def _limit(facts: Mapping[str, Any]) -> str:
    limit = facts["limit"]
    is_plain = isinstance(limit, float) and limit.is_integer() and abs(limit) < _MAX_PLAIN
    return str(int(limit) if is_plain else limit)


def _options(listed: list[object]) -> str:
    options = [values.safe_repr(option, MAX_VALUE) for option in listed[:_MAX_OPTIONS]]
    return ", ".join([*options, "..."] if len(listed) > _MAX_OPTIONS else options)


def _counted(facts: Mapping[str, Any], noun: str) -> str:
    count = facts["limit"]
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"
