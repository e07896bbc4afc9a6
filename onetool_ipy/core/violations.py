"""Say in words what is wrong with a value, by the errors that jsonschema-rs finds in it.

Owns every sentence about a violated schema: the library's own words reach nobody. The value is shown as Python writes
it, masked first and cut then. Knows the library's errors by their attributes alone, and does not import it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from onetool_ipy.core import schema, values

__all__ = [
    "Mask",
    "Violation",
    "found_in",
    "given_at",
    "meant",
    "pointer",
    "said_of",
    "schema_at",
    "schema_fault",
    "subject",
    "wanted_kinds",
]

Mask = Callable[[str], str]
Violation = dict[str, Any]
"""`{pointer, message, keyword}`."""

_MAX_VALUE = 60
_MAX_SHOWN = 120
_MAX_OPTIONS = 12
_WHOLE = 10_000
_KINDS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}


def found_in(
    errors: Any, args: Mapping[Any, Any], parameters: Mapping[str, Any], mask: Mask, noun: str = "argument"
) -> Iterator[Violation]:
    """What is wrong, one by one; `args` are what was given, and `noun` says what their names are called."""
    for error in meant(errors):
        yield from _violations(error, args, parameters, mask, noun)


def said_of(error: Any, value: Any, parameters: Mapping[str, Any], mask: Mask) -> str:
    """What is wrong at the place of one error, without saying where that is."""
    path = list(error.instance_path)
    given, unknown = given_at(path, value, error.instance), _unknown_names(error, path, value, parameters)
    return values.cut(_said(error, given, unknown, schema_at(path, parameters), parameters, mask), _MAX_SHOWN)


def schema_fault(error: Any) -> str:
    """What is wrong with a schema that the library refused to compile, in words."""
    path = list(getattr(error, "instance_path", None) or ())
    kind = _name(error)
    where = f" at '{pointer(path)}'" if path else ""
    if kind == "$ref":
        return f"Not a JSON Schema{where}: it refers to something that is not inside it."
    if not kind:
        return f"Not a JSON Schema{where}: it cannot be read."
    if path and path[-1] == "type" and kind in ("anyOf", "enum"):
        return f"Not a JSON Schema{where}: {_shown(error.instance, str)} is not a type. There are: {', '.join(_KINDS)}."
    if kind == "format" and path and path[-1] in ("pattern", "patternProperties"):
        return f"Not a JSON Schema{where}: {_shown(error.instance, str)} is not a regular expression."
    return f"Not a JSON Schema{where}: {values.cut(_said(error, error.instance, [], {}, {}, str), _MAX_SHOWN)}"


def subject(path: list[Any]) -> str:
    """A path into the arguments as people write it: `a.b[0]`."""
    return "".join(f"[{p}]" if isinstance(p, int) else ("." if i else "") + str(p) for i, p in enumerate(path))


def pointer(path: Any) -> str:
    """A path into a value as a JSON pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def meant(errors: Any) -> Iterator[Any]:
    """Each error; of a choice, the errors of the one option that has the value's type, or the word that tells."""
    for error in errors:
        option = _option(error)
        if option:
            yield from meant(option)
        else:
            yield error


def wanted_kinds(error: Any) -> frozenset[str]:
    """The JSON types that were wanted where another was found; of a choice, those of all options."""
    place, about = list(error.instance_path), error.kind.as_dict()
    if _name(error) == "type":
        return frozenset(about["types"])
    if _name(error) not in ("anyOf", "oneOf"):
        return frozenset()
    inner = [one for option in about.get("context") or () for one in option]
    return frozenset().union(*(wanted_kinds(one) for one in inner if list(one.instance_path) == place))


def given_at(path: list[Any], args: Any, otherwise: Any) -> Any:
    """What stands at a place in the arguments."""
    try:
        for part in path:
            args = args[part]
    except (LookupError, TypeError):
        return otherwise
    return args


def schema_at(path: list[Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of the place in the arguments where a path leads."""
    node = schema.resolve(root, root)
    for part in path:
        if isinstance(part, int):
            node = schema.resolve(node.get("items"), root)
        else:
            listed = node.get("properties")
            rest = node.get("additionalProperties")
            inner = listed.get(part, rest) if isinstance(listed, Mapping) else rest
            node = schema.resolve(inner, root)
    return node


def _option(error: Any) -> list[Any]:
    """The one option of a choice that the value can be meant for, by what is wrong with it."""
    if _name(error) not in ("anyOf", "oneOf"):
        return []
    place = list(error.instance_path)
    options = error.kind.as_dict().get("context") or []
    fit = [option for option in options if not any(_is_misfit(inner, place) for inner in option)]
    if len(fit) > 1:
        fit = [option for option in fit if not any(_is_other_kind(inner, place) for inner in option)]
    return list(fit[0]) if len(fit) == 1 else []


def _is_misfit(error: Any, place: list[Any]) -> bool:
    return _name(error) in ("type", "enum", "const") and list(error.instance_path) == place


def _is_other_kind(error: Any, place: list[Any]) -> bool:
    """Whether an option wants another word at a key of the value, as `{"kind": "circle"}` for a box."""
    return _name(error) in ("const", "enum") and list(error.instance_path)[:-1] == place


def _violations(
    error: Any, args: Mapping[Any, Any], parameters: Mapping[str, Any], mask: Mask, noun: str
) -> list[Violation]:
    kind, path = _name(error), list(error.instance_path)
    unknown = _unknown_names(error, path, args, parameters)
    if kind == "required" and not path:
        texts = [f"missing {noun} '{error.kind.as_dict().get('property')}'"]
    elif unknown and not path:
        texts = [_unknown(name, parameters, mask, noun) for name in unknown]
    else:
        said = said_of(error, args, parameters, mask)
        texts = [f"{noun} '{subject(path)}': {said}" if path else said]
    return [{"pointer": pointer(path), "message": text, "keyword": kind} for text in texts]


def _unknown_names(error: Any, path: list[Any], args: Any, parameters: Mapping[str, Any]) -> list[str]:
    """The keys that may not be there. Where no key may, the library tells the value of one alone."""
    kind = _name(error)
    if kind in ("additionalProperties", "unevaluatedProperties"):
        return [str(name) for name in error.kind.as_dict().get("unexpected") or ()]
    if kind != "falseSchema" or list(error.schema_path)[-1:] != ["additionalProperties"]:
        return []
    holder = given_at(path, args, None)
    known = schema_at(path, parameters).get("properties")
    listed = known if isinstance(known, Mapping) else {}
    return [str(name) for name in holder if name not in listed] if isinstance(holder, Mapping) else []


def _unknown(name: str, parameters: Mapping[str, Any], mask: Mask, noun: str) -> str:
    from onetool_ipy.core import match

    near = match.suggest(name, [p.name for p in schema.params(parameters)], limit=1)
    shown = values.cut(mask(name), _MAX_SHOWN)
    return f"unknown {noun} '{shown}'" + (f", did you mean '{near[0]}'?" if near else "")


def _said(error: Any, given: Any, unknown: list[str], node: Any, parameters: Mapping[str, Any], mask: Mask) -> str:
    """What is wrong with one value, whose own schema is `node`."""
    kind, about, shown = _name(error), error.kind.as_dict(), _shown(given, mask)
    if unknown:
        return "unknown key " + ", ".join(f"'{values.cut(mask(name), _MAX_VALUE)}'" for name in unknown)
    if type(error.kind).__name__ == "OneOfMultipleValid":
        return f"{shown} fits several of the choices, and may fit only one"
    if kind in ("anyOf", "oneOf"):
        wanted = schema.type_text(node, parameters)
        return f"{shown} is not {wanted}" if wanted != "Any" else f"{shown} fits none of the choices"
    if kind == "propertyNames":
        inner = about["error"]
        return f"the name {_said(inner, inner.instance, [], {}, {}, mask)}"
    if kind == "contains":
        amount = {"minContains": "too few items", "maxContains": "too many items"}
        return f"{amount.get(str(list(error.schema_path)[-1]), 'no items')} of {shown} are what is asked for"
    make = _WORDS.get(kind)
    return f"{shown} is not what is asked for" if make is None else make(shown, about)


def _kinds(names: list[str]) -> str:
    order = [name for name in _KINDS if name in names]
    return " or ".join(_KINDS[name] for name in order) or "what is asked for"


def _options(listed: Any) -> str:
    options = [values.safe_repr(option, _MAX_VALUE) for option in listed[:_MAX_OPTIONS]]
    return ", ".join([*options, "..."] if len(listed) > _MAX_OPTIONS else options)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"


_WORDS: dict[str, Callable[[str, dict[str, Any]], str]] = {
    "additionalItems": lambda shown, about: f"{shown} has more than {_many(about['limit'], 'item')}",
    "const": lambda shown, about: f"{shown} is not {values.safe_repr(about['expected_value'], _MAX_VALUE)}",
    "contentEncoding": lambda shown, about: f"{shown} is not {about['content_encoding']}",
    "contentMediaType": lambda shown, about: f"{shown} is not {about['content_media_type']}",
    "enum": lambda shown, about: f"{shown} is not one of {_options(about['options'])}",
    "exclusiveMaximum": lambda shown, about: f"{shown} is not less than {about['limit']}",
    "exclusiveMinimum": lambda shown, about: f"{shown} is not greater than {about['limit']}",
    "falseSchema": lambda _shown, _about: "no value is allowed here",
    "format": lambda shown, about: f"{shown} is not a valid {about['format']}",
    "maxItems": lambda shown, about: f"{shown} has more than {_many(about['limit'], 'item')}",
    "maxLength": lambda shown, about: f"{shown} is longer than {_many(about['limit'], 'character')}",
    "maxProperties": lambda shown, about: f"{shown} has more than {_many(about['limit'], 'entry')}",
    "maximum": lambda shown, about: f"{shown} is greater than {about['limit']}",
    "minItems": lambda shown, about: f"{shown} has fewer than {_many(about['limit'], 'item')}",
    "minLength": lambda shown, about: f"{shown} is shorter than {_many(about['limit'], 'character')}",
    "minProperties": lambda shown, about: f"{shown} has fewer than {_many(about['limit'], 'entry')}",
    "minimum": lambda shown, about: f"{shown} is less than {about['limit']}",
    "multipleOf": lambda shown, about: f"{shown} is not a multiple of {about['multiple_of']}",
    "not": lambda shown, _about: f"{shown} is not allowed",
    "pattern": lambda shown, about: f"{shown} does not match the pattern '{about.get('pattern', '')}'",
    "required": lambda _shown, about: f"'{about['property']}' is missing",
    "type": lambda shown, about: f"{shown} is not {_kinds(about['types'])}",
    "unevaluatedItems": lambda shown, _about: f"{shown} has items that are not allowed",
    "uniqueItems": lambda shown, _about: f"{shown} has the same item twice",
}


def _shown(given: Any, mask: Mask) -> str:
    return values.cut(mask(values.safe_repr(given, _WHOLE)), _MAX_VALUE)


def _name(error: Any) -> str:
    return str(getattr(getattr(error, "kind", None), "name", "") or "")
