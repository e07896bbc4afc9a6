"""Check the arguments of a call against the tool's JSON Schema, convert them, and say in words what is wrong.

Owns the compiled check (jsonschema-rs: offline, no pattern can hang) and every sentence about a violated schema: the
library's own words reach nobody. Each violation has its JSON pointer; a value is masked first and cut then.
jsonschema-rs would follow a cycle or a very deep value into a crash, so it only gets what `values.plain_copy` found
to be plain, or the JSON form of the rest, which is at most 200 levels deep. A schema that multiplies without bound
(`anyOf` of `anyOf` ...) is refused.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidArgs, InvalidTool
from onetool_ipy.base.search import suggest
from onetool_ipy.schema.read import NO_DEFAULT as _NOTHING
from onetool_ipy.schema.read import at_ref, default_of, params, resolve, signature_text, type_text

__all__ = [
    "MOST",
    "Checker",
    "Converter",
    "Mask",
    "Violation",
    "accepts",
    "branch_count",
    "compile_schema",
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

MOST = 20_000
"""More than any schema that a person means; judged in some milliseconds."""

_FEW = 12
_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")


def branch_count(schema: Mapping[str, Any]) -> int:
    """Return the largest number of schemas that one value is checked against; counting ends beyond `MOST`."""
    if _refers_little(schema):
        return 1
    return _Count(schema, list(_nodes(schema))).largest()


def _refers_little(schema: Mapping[str, Any]) -> bool:
    """Whether the schema has so few references that it cannot multiply much."""
    count = 0
    for node in _nodes(schema):
        count += "$ref" in node
        if count >= _FEW:
            return False
    return True


class _Count:
    """Counts each schema once, however often it is referred to."""

    def __init__(self, root: Mapping[str, Any], nodes: list[Mapping[str, Any]]) -> None:
        self._root = root
        self._nodes = nodes
        self._named = {f"#{node['$anchor']}": node for node in nodes if isinstance(node.get("$anchor"), str)}
        self._named |= {node["$id"]: node for node in nodes if isinstance(node.get("$id"), str)}
        self._known: dict[int, int] = {}

    def largest(self) -> int:
        try:
            return max(map(self._of, self._nodes), default=1)
        except RecursionError:  # a chain of references of that length is no schema that a person means
            return MOST + 1

    def _of(self, node: Mapping[str, Any]) -> int:
        known = self._known.get(id(node))
        if known is not None:
            return known
        self._known[id(node)] = 1  # while it is counted: one that leads back to itself is not followed twice
        total = 1
        for inner in self._same_value(node):
            total = min(MOST + 1, total + self._of(inner))
        self._known[id(node)] = total
        return total

    def _same_value(self, node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """The schemas inside that judge the same value."""
        found: list[Any] = [node.get(key) for key in _SINGLE]
        for key in _LISTS:
            listed = node.get(key)
            found += listed if isinstance(listed, list) else ()
        dependent = node.get("dependentSchemas")
        found += dependent.values() if isinstance(dependent, Mapping) else ()
        found.append(self._referred(node.get("$ref")))
        return (inner for inner in found if isinstance(inner, Mapping))

    def _referred(self, ref: Any) -> Any:
        if not isinstance(ref, str):
            return None
        if ref in self._named:
            return self._named[ref]
        return at_ref(ref, self._root)


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every object in it once, schema or not. A Python dict may hold itself."""
    waiting, seen = [schema], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, dict):
            yield node
            waiting += [inner for inner in node.values() if isinstance(inner, (dict, list))]
        elif isinstance(node, list):
            waiting += [inner for inner in node if isinstance(inner, (dict, list))]


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
    """Return what is wrong, one violation each. `args` were given; `noun` is the word for their names."""
    for error in meant(errors):
        yield from _violations(error, args, parameters, mask, noun)


def said_of(error: Any, value: Any, parameters: Mapping[str, Any], mask: Mask) -> str:
    """What is wrong at the place of one error, without saying where that is."""
    path = list(error.instance_path)
    return _said_at(path, error, value, _unknown_names(error, path, value, parameters), parameters, mask)


def _said_at(
    path: list[Any], error: Any, value: Any, unknown: list[str], parameters: Mapping[str, Any], mask: Mask
) -> str:
    given = given_at(path, value, error.instance)
    node = schema_at(path, parameters) if _name(error) in ("anyOf", "oneOf") else {}
    return values.cut(_said(error, given, unknown, node, parameters, mask), _MAX_SHOWN)


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
    node = resolve(root, root)
    for part in path:
        if isinstance(part, int):
            node = resolve(node.get("items"), root)
        else:
            listed = node.get("properties")
            rest = node.get("additionalProperties")
            inner = listed.get(part, rest) if isinstance(listed, Mapping) else rest
            node = resolve(inner, root)
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
        said = _said_at(path, error, args, unknown, parameters, mask)
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
    near = suggest(name, [p.name for p in params(parameters)], limit=1)
    shown = values.cut(mask(name), _MAX_SHOWN)
    return f"unknown {noun} '{shown}'" + (f" (did you mean '{near[0]}'?)" if near else "")


def _said(error: Any, given: Any, unknown: list[str], node: Any, parameters: Mapping[str, Any], mask: Mask) -> str:
    """What is wrong with one value; of a choice, `node` is the schema."""
    import jsonschema_rs

    kind, about, shown = _name(error), error.kind.as_dict(), _shown(given, mask)
    if unknown:
        return "unknown key " + ", ".join(f"'{values.cut(mask(name), _MAX_VALUE)}'" for name in unknown)
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.OneOfMultipleValid):
        return f"{shown} fits several of the choices, and may fit only one"
    if kind in ("anyOf", "oneOf"):
        wanted = type_text(node, parameters)
        return f"{shown} is not {wanted}" if wanted != "Any" else f"{shown} fits none of the choices"
    if kind == "propertyNames":
        inner = about["error"]
        return f"the name {_said(inner, inner.instance, [], {}, {}, mask)}"
    if kind == "contains":
        amount = {"minContains": "too few items", "maxContains": "too many items"}
        return f"{amount.get(str(list(error.schema_path)[-1]), 'no items')} of {shown} are what is asked for"
    make = _WORDS.get(kind)
    said = f"{shown} is not what is asked for" if make is None else make(shown, about)
    return said + (_remedy(given) if kind == "type" and isinstance(given, str) else "")


def _remedy(text: str) -> str:
    """What to change in a text that would be a number."""
    if _NUMBER.fullmatch(text):
        return f": it is text, so write {text} without quotes"
    return f": write {text[:-1]} without the comma" if _NUMBER.fullmatch(text.removesuffix(",")) else ""


def _kinds(names: list[str]) -> str:
    order = [name for name in _KINDS if name in names]
    return " or ".join(_KINDS[name] for name in order) or "what is asked for"


def _options(listed: Any) -> str:
    options = [values.safe_repr(option, _MAX_VALUE) for option in listed[:_MAX_OPTIONS]]
    return ", ".join([*options, "..."] if len(listed) > _MAX_OPTIONS else options)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"


_NUMBER = re.compile(r"-?\d{1,30}(\.\d{1,30})?")
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


_MAX_SHOWN_CHECKER = 120
_MAX_VALUE_CHECKER = 60
_MAX_ROUNDS = 8
_BACKTRACKS = 10_000
_NESTED: dict[type, str] = {list: "array", dict: "object"}
_WORDS_CHECKER = frozenset(
    ("description", "title", "default", "examples", "deprecated", "$comment", "readOnly", "writeOnly")
)
_PLAIN_ROOT = frozenset(("type", "properties", "required", "additionalProperties", "$defs", "definitions", "$schema"))


class Converter(Protocol):
    """Makes one argument what the function asks for."""

    def to_python(self, value: Any) -> Any:
        """Convert, or raise."""

    def accepts(self, value: Any) -> bool:
        """Whether a value already is what the function asks for, whatever its JSON form would be."""


class Checker:
    """The compiled check of one tool's arguments.

    `check` gives a copy that the tool may change, converted to the types its function asks for. Values that JSON cannot
    hold are judged by their JSON form and handed on as they are.
    """

    __slots__ = ("_convert", "_free", "_ints", "_parameters", "_usage", "_valid", "_validator")

    def __init__(self, parameters: Mapping[str, Any], converters: Mapping[str, Converter] | None = None) -> None:
        self._parameters = parameters
        self._validator = compile_schema(parameters)
        self._valid: Callable[[Any], bool] = self._validator.is_valid
        self._convert = tuple((converters or {}).items())
        self._ints = tuple(p.name for p in params(parameters) if p.schema.get("type") == "integer")
        self._free = _free_names(parameters)
        self._usage: dict[str, str] = {}

    def check(self, args: Mapping[str, Any], tool: str, mask: Mask = str) -> dict[str, Any]:
        """Return the arguments ready for the tool. Raises InvalidArgs with every violation, in masked words."""
        ready, plain, _ = values.plain_copy(args)
        self.fit(ready, plain, tool, mask)
        self.convert(ready, tool, mask)
        return ready

    def fit(self, ready: dict[str, Any], plain: bool, tool: str, mask: Mask) -> None:
        """Check arguments that `values.plain_copy` has copied, by the schema alone; completes and corrects the copy."""
        if not self._fits(ready, plain):
            self._complete(ready, plain, tool, mask)
        for name in self._ints:
            if type(ready.get(name)) is float:
                ready[name] = int(ready[name])

    def complete(self, args: Mapping[str, Any], tool: str, mask: Mask = str) -> dict[str, Any]:
        """Return a copy of the arguments, as JSON, that fits the schema. Raises InvalidArgs.

        A required argument that is missing gets its default. Text stands for the JSON in it where a list or an object
        is wanted, and text is not.
        """
        ready, plain, _ = values.plain_copy(args)
        if not self._fits(ready, plain):
            self._complete(ready, plain, tool, mask)
        return ready

    def _complete(self, ready: dict[str, Any], plain: bool, tool: str, mask: Mask) -> None:
        found = self._judge(ready, mask, lambda errors: self._mend(errors, ready, plain))
        if found:
            raise self._invalid(tool, found)

    def violations(self, data: Mapping[str, Any], mask: Mask = str, noun: str = "field") -> list[Violation]:
        """Return what is wrong with a value as it is. Nothing is filled in or converted."""
        ready, plain, _ = values.plain_copy(data)
        return [] if self._fits(ready, plain) else self._judge(ready, mask, lambda _errors: False, noun)

    def _fits(self, ready: dict[str, Any], plain: bool) -> bool:
        try:
            return plain and self._valid(ready)
        except ValueError:  # a value that JSON cannot hold
            return False

    def _judge(
        self, args: Mapping[Any, Any], mask: Mask, mend: Callable[[list[Any]], bool], noun: str = "argument"
    ) -> list[Violation]:
        """Check the JSON form: find every error that cannot be corrected, or none if only the form was unusual."""
        for last in (*(False,) * _MAX_ROUNDS, True):
            found: list[Violation] = []
            errors = self._plain_errors(args)
            if errors is None:
                views, fine, found = self._views(args, mask)
                errors = [error for view in views for error in self._validator.iter_errors(view)]
                errors = [error for error in errors if not (path := list(error.instance_path)) or path[0] not in fine]
            if last or not mend(errors):
                break
        found.extend(found_in(errors, args, self._parameters, mask, noun))
        return found

    def _plain_errors(self, args: Mapping[Any, Any]) -> list[Any] | None:
        """The errors of arguments that are JSON as they stand; None if their JSON form has to be judged."""
        if self._convert or not values.is_json(args):
            return None
        try:
            return list(self._validator.iter_errors(args))
        except ValueError:  # a lone surrogate
            return None

    def _views(self, args: Mapping[Any, Any], mask: Mask) -> tuple[list[dict[str, Any]], set[Any], list[Violation]]:
        """The JSON forms to judge, the names that need no judging, and what is wrong with the names themselves."""
        converters = dict(self._convert)
        views: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        fine: set[Any] = set()
        found: list[Violation] = []
        for name, value in args.items():
            if not isinstance(name, str):
                shown = values.cut(mask(values.safe_repr(name)), _MAX_SHOWN_CHECKER)
                found.append({"pointer": "", "message": f"argument names are text, not {shown}", "keyword": "type"})
                continue
            forms: tuple[Any, ...] = (None,)
            if name in self._free or (name in converters and accepts(converters[name], value)):
                fine.add(name)
            else:
                forms = values.forms_to_judge(value)
            shown = values.to_json(name)
            views[0][shown], views[1][shown] = forms[0], forms[-1]
        return list(views if views[0] != views[1] else views[:1]), fine, found

    def _mend(self, errors: list[Any], args: dict[str, Any], plain: bool) -> bool:
        """Correct what can be corrected in `args`. Returns whether anything was."""
        is_mended = False
        for error in meant(errors):
            path = list(error.instance_path)
            if error.kind.name == "required":
                name = error.kind.as_dict()["property"]
                node = schema_at(path, self._parameters)
                place, value = [*path, name], default_of(node, name, self._parameters)
            else:
                place, value = path, _meant_by_text(error, args)
            if value is not _NOTHING and (plain or len(place) == 1):
                is_mended = _put(args, place, value) or is_mended
        return is_mended

    def convert(self, args: dict[str, Any], tool: str, mask: Mask) -> None:
        """Convert arguments that fit, in place, to the types that the function asks for. This is code of the tool."""
        found = []
        for name, converter in self._convert:
            if name not in args:
                continue
            try:
                args[name] = converter.to_python(args[name])
            except Exception as exc:  # noqa: BLE001 - runs foreign code (pydantic models, __init__ of a dataclass)
                for path, text in _complaints(exc):
                    message = f"argument '{subject([name, *path])}': {values.cut(mask(text), _MAX_SHOWN_CHECKER)}"
                    found.append({"pointer": pointer([name, *path]), "message": message, "keyword": "type"})
        if found:
            raise self._invalid(tool, found)

    def _invalid(self, tool: str, found: list[Violation]) -> InvalidArgs:
        if len(found) > 1:
            found = list({(f["pointer"], f["keyword"], f["message"]): f for f in found}.values())
            found.sort(key=lambda f: (f["pointer"] != "", f["keyword"] != "additionalProperties"))
        told = [str(f["message"]) for f in found]
        if len(told) > 1:
            near = (text.partition("did you mean '")[2].partition("'")[0] for text in told)
            meant = {f"missing argument '{name}'" for name in near}
            told = [text for text in told if text not in meant]  # the unknown argument names it already
        shown = "; ".join(told[:3])
        more = f" (and {len(told) - 3} more)" if len(told) > 3 else ""
        if tool not in self._usage:
            self._usage[tool] = f"Usage: {signature_text(tool, self._parameters)}"
        return InvalidArgs(f"'{tool}': {shown}{more}", hint=self._usage[tool], details=found)


def _meant_by_text(error: Any, args: Mapping[str, Any]) -> Any:
    """The list or object that text stands for as JSON, where one of these is wanted and the text is refused."""
    path = list(error.instance_path)
    text = given_at(path, args, None)
    if type(text) is not str or not path or text.lstrip()[:1] not in ("[", "{"):
        return _NOTHING
    wanted = wanted_kinds(error)
    if wanted.isdisjoint(_NESTED.values()):
        return _NOTHING
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _NOTHING
    return value if _NESTED[type(value)] in wanted and values.is_json(value) else _NOTHING


def _put(args: Any, place: list[Any], value: Any) -> bool:
    """Set a value in lists and dicts that are our own copy."""
    try:
        for part in place[:-1]:
            args = args[part]
    except (LookupError, TypeError):
        return False
    if type(args) not in (dict, list):
        return False
    args[place[-1]] = copy.deepcopy(value)
    return True


def compile_schema(parameters: Mapping[str, Any]) -> Any:
    """Compile a JSON Schema, offline. Raises InvalidTool if it is not valid. Give the compiled form plain JSON only."""
    import jsonschema_rs

    if branch_count(parameters) > MOST:
        raise InvalidTool(
            f"This JSON Schema cannot be checked: its references multiply to more than {MOST:,} for one value.",
            hint="Refer to each part once, not to the same part again and again.",
        )
    options = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS)
    try:
        return jsonschema_rs.validator_for(dict(parameters), pattern_options=options, offline=True)
    except (ValueError, TypeError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as exc:
        raise InvalidTool(schema_fault(exc)) from exc


def _free_names(parameters: Mapping[str, Any]) -> frozenset[str]:
    """The arguments that may be anything: they are not looked at, however large they are."""
    listed = parameters.get("properties")
    if not isinstance(listed, Mapping) or not parameters.keys() <= _PLAIN_ROOT | _WORDS_CHECKER:
        return frozenset()
    free = (
        name
        for name, sub in listed.items()
        if sub is True or (isinstance(sub, Mapping) and sub.keys() <= _WORDS_CHECKER)
    )
    return frozenset(free)


def accepts(converter: Converter, value: Any) -> bool:
    """Whether the value already is what the function asks for; not, where asking fails."""
    try:
        return converter.accepts(value)
    except Exception:  # noqa: BLE001 - runs foreign code; what fails is judged by its JSON form
        return False


def _complaints(exc: Exception) -> list[tuple[list[Any], str]]:
    """Where inside an argument a conversion failed, and why; pydantic lists every place."""
    listed = getattr(exc, "errors", None)
    if callable(listed):
        found = [(list(item.get("loc", ())), _complaint(item)) for item in listed()[:20]]
        if found:
            return found
    try:
        text = str(exc).strip()
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        text = ""
    return [([], text.splitlines()[0] if text else type(exc).__name__)]


def _complaint(item: Mapping[str, Any]) -> str:
    """Return pydantic's complaint about a value in our words, with the value."""
    said, shown = str(item.get("msg", "")), values.safe_repr(item.get("input"), _MAX_VALUE_CHECKER)
    if item.get("type") == "missing":
        return "is missing"
    if said.startswith("Input should "):
        return f"{shown} {said.removeprefix('Input ')}"
    return said.removeprefix("Value error, ").removeprefix("Assertion failed, ")
