"""Check the arguments of a call against the tool's JSON Schema, convert them, and say in words what
is wrong.

Owns the compiled check (jsonschema-rs: offline, no pattern can hang). The library's own words reach
nobody: what is said of a value is in `words`. Each violation has its JSON pointer; a value
is masked first and cut then.

Only plain JSON is checked. An argument that holds anything else (a DataFrame, a date, NaN) is
handed on as it is: its tool knows best. A schema that multiplies without bound (`anyOf` of `anyOf`
...) is refused.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidArgs, InvalidTool, words_of
from onetool_ipy.base.search import suggest
from onetool_ipy.base.values import Json
from onetool_ipy.schema.read import (
    NO_DEFAULT,
    Schema,
    at_ref,
    default_of,
    params,
    resolve,
    type_text,
    usage_text,
)
from onetool_ipy.schema.words import MAX_VALUE, MISSING, TYPES, predicate

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

Mask = Callable[[str], str]
Place = list[str | int]
"""Where something stands inside the arguments: names and list indexes."""
Violation = dict[str, Any]
"""`{pointer, message, keyword}`."""

MOST = 20_000
"""More schemas for one value than any schema that a person writes has; checked in some
milliseconds."""

FEW_REFS = 12
"""Fewer references than this cannot multiply."""
_BACKTRACKS = 10_000
_MAX_ROUNDS = 8
_MAX_MESSAGE = 120
_MAX_REPR = 10_000
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")
_PLAIN_WORDS = re.compile(r"(?=.{1,60}\Z)[\w.:/@+-]+(, ?[\w.:/@+-]+)*")
_NESTED: dict[type, str] = {list: "array", dict: "object"}
_ANNOTATIONS = frozenset(
    (
        "description",
        "title",
        "default",
        "examples",
        "deprecated",
        "$comment",
        "readOnly",
        "writeOnly",
    )
)
"""Keywords that refuse no value."""
_PLAIN_ROOT = _ANNOTATIONS | {
    *("type", "properties", "required", "additionalProperties", "$defs", "definitions", "$schema")
}


_BRIEF_TYPES: Mapping[str, set[type]] = {
    "string": {str},
    "integer": {int},
    "number": {int, float},
    "boolean": {bool},
    "null": {type(None)},
}
"""The values of a JSON type that have nothing inside them. A float may be a whole number, and is
looked at more closely where one is expected."""


class Converter(Protocol):
    """Makes one argument what the function asks for."""

    def to_python(self, value: object) -> object:
        """Convert, or raise."""

    def accepts(self, value: object) -> bool:
        """Whether a value already is what the function asks for, whatever its JSON form would
        be."""


class Checker:
    """The compiled check of one tool's arguments.

    `check` gives a copy that the tool may change, converted to the types its function asks for. For
    the arguments in `texts` a number or truth value is written out where only text fits: they
    become text in a request anyway.
    """

    def __init__(
        self,
        parameters: Schema,
        converters: Mapping[str, Converter] | None = None,
        *,
        texts: Collection[str] = (),
    ) -> None:
        self._parameters = parameters
        self._texts = texts
        self._validator = compile_schema(parameters)
        self._valid: Callable[[object], bool] = self._validator.is_valid
        self._converters = dict(converters or {})
        self.params = params(parameters)
        self._ints = tuple(p.name for p in self.params if p.schema.get("type") == "integer")
        # Arguments that may be anything are not looked at, however large they are.
        is_plain = parameters.keys() <= _PLAIN_ROOT
        listed: Schema = parameters.get("properties", {}) if is_plain else {}
        self._unconstrained = frozenset(
            name
            for name, sub in listed.items()
            if sub is True or (isinstance(sub, Mapping) and sub.keys() <= _ANNOTATIONS)
        )
        self._brief = {name: _brief_types(sub) for name, sub in listed.items()}
        self._required = frozenset(parameters.get("required", ()))
        self._usage: dict[str, str] = {}

    def brief_size(self, args: Mapping[str, object]) -> int:
        """Return how long the arguments are as text, if they are all there and the type of each
        says that it fits; -1 if they need a closer look."""
        types, size = self._brief, 0
        try:
            for name, value in args.items():
                kind = type(value)
                if kind not in types[name]:
                    return -1
                if kind is str:
                    size += len(value)  # type: ignore[arg-type]  # it is a text
        except KeyError:
            return -1
        return size if self._required.issubset(args) else -1

    def check(self, args: Mapping[str, object], tool: str, mask: Mask = str) -> Json:
        """Return the arguments ready for the tool. Raises InvalidArgs with every violation, in
        masked words."""
        ready, plain, _, copier = values.plain_copy(args)
        if copier is not None and copier.is_too_deep:
            raise self.too_deep(tool)
        self.fit(ready, plain, tool, mask)
        self.convert(ready, tool, mask)
        return ready

    def too_deep(self, tool: str) -> InvalidArgs:
        """Return the refusal of arguments that no check goes through to their end."""
        limit = values.MAX_ARGS_DEPTH
        message = f"the arguments are nested deeper than {limit} levels, so they cannot be checked"
        return self._invalid(tool, [{"pointer": "", "message": message, "keyword": "depth"}])

    def fit(self, ready: Json, plain: bool, tool: str, mask: Mask) -> None:
        """Check arguments that `values.plain_copy` has copied, by the schema alone; completes and
        corrects the copy."""
        if not self._fits(ready, plain):
            self._complete(ready, plain, tool, mask)
        if self._ints and float in map(type, ready.values()):
            for name in self._ints:
                if type(ready.get(name)) is float and ready[name].is_integer():
                    ready[name] = int(ready[name])

    def complete(self, args: Mapping[str, object], tool: str, mask: Mask = str) -> Json:
        """Return a copy of the arguments, as JSON, that fits the schema. Raises InvalidArgs.

        A required argument that is missing gets its default. Text stands for the JSON in it where a
        list or an object is expected, and text is not.
        """
        ready, plain, _, copier = values.plain_copy(args)
        if copier is not None and copier.is_too_deep:
            raise self.too_deep(tool)
        if not self._fits(ready, plain):
            self._complete(ready, plain, tool, mask)
        return ready

    def violations(self, data: Mapping[str, Any]) -> list[Violation]:
        """Return what is wrong with a value as it is. Nothing is filled in or converted."""
        ready, plain, *_ = values.plain_copy(data)
        if self._fits(ready, plain):
            return []
        return [*self._describe(ready, *self._errors(ready, str), str, "field")]

    def _fits(self, ready: Json, plain: bool) -> bool:
        try:
            # jsonschema-rs follows a cycle or a very deep value into a crash, so it only gets what
            # is plain.
            return plain and self._valid(ready)
        except ValueError:  # a value that JSON cannot hold
            return False

    def _complete(self, ready: dict[str, Any], plain: bool, tool: str, mask: Mask) -> None:
        errors, violations = self._errors(ready, mask)
        # A default may lack what has a default in turn, so each round fills in one level.
        for _ in range(_MAX_ROUNDS):
            if not self._coerce(errors, ready, plain):
                break
            errors, violations = self._errors(ready, mask)
        violations = [*self._describe(ready, errors, violations, mask, "argument")]
        if violations:
            raise self._invalid(tool, violations)

    def _errors(
        self, args: Mapping[Any, object], mask: Mask
    ) -> tuple[list[ValidationError], list[Violation]]:
        """Check every argument that is plain JSON. Also give what is wrong with the names
        themselves.

        Of a choice, the errors are those of the option that the value is meant for.
        """
        view: dict[str, object] = {}
        skipped: set[object] = set()
        violations: list[Violation] = []
        for name, value in args.items():
            if not isinstance(name, str):
                text = values.cut(mask(values.safe_repr(name)), _MAX_MESSAGE)
                violations.append(
                    {
                        "pointer": "",
                        "message": f"argument names are text, not {text}",
                        "keyword": "type",
                    }
                )
                continue
            converter = self._converters.get(name)
            is_free = name in self._unconstrained or (
                converter is not None and accepts(converter, value)
            )
            if is_free or not values.is_json(value):
                skipped.add(name)
            # Of a skipped argument only the name counts; what stands for its value is not looked
            # at.
            view[values.encodable(name)] = None if name in skipped else value
        try:
            errors = list(self._validator.iter_errors(view))
        except ValueError:  # half a character
            errors = list(self._validator.iter_errors(values.to_json(view)))
        checked = (
            error
            for error in errors
            if not error.instance_path or error.instance_path[0] not in skipped
        )
        return [*relevant_errors(checked)], violations

    def _describe(
        self,
        args: Mapping[Any, object],
        errors: list[ValidationError],
        violations: list[Violation],
        mask: Mask,
        noun: str,
    ) -> Iterator[Violation]:
        yield from violations
        for error in errors:
            keyword, path = _keyword(error), list(error.instance_path)
            unknown = _unknown_names(error, keyword, path, args, self._parameters)
            if keyword == "required" and not path:
                messages = [f"missing {noun} '{error.kind.as_dict().get('property')}'"]
                # Where a schema allows any name, a mistyped one is no error of its own.
                names = [param.name for param in self.params]
                extra = next((name for name in args if name not in names), None)
                if extra is not None and self._parameters.get("additionalProperties") is not False:
                    messages = [f"{messages[0]} (you gave '{values.cut(mask(str(extra)), 80)}')"]
            elif unknown and not path:
                messages = []
                for name in unknown:
                    near = suggest(name, [param.name for param in self.params], limit=1)
                    hint = f" (did you mean '{near[0]}'?)" if near else ""
                    messages.append(
                        f"unknown {noun} '{values.cut(mask(name), _MAX_MESSAGE)}'{hint}"
                    )
            else:
                message = describe_error(error, args, self._parameters, mask)
                messages = [f"{noun} '{dotted(path)}': {message}" if path else message]
            for message in messages:
                yield {"pointer": pointer(path), "message": message, "keyword": keyword}

    def _coerce(self, errors: list[ValidationError], args: Json, plain: bool) -> bool:
        """Fill in defaults, parse text that stands for JSON, write out numbers. Returns whether
        anything changed."""
        is_changed = False
        for error in errors:
            place = list(error.instance_path)
            if _keyword(error) == "required":
                name = error.kind.as_dict()["property"]
                value = default_of(schema_at(place, self._parameters), name, self._parameters)
                place = [*place, name]
            else:
                plain_value = value_at(place, args, None)
                value = _parse_nested(error, plain_value) if place else NO_DEFAULT
                is_written = (
                    bool(place)
                    and place[0] in self._texts
                    and type(plain_value) in (int, float, bool)
                )
                if is_written and _expected_types(error) == {"string"}:
                    value = json.dumps(plain_value)
            if value is NO_DEFAULT or not (plain or len(place) == 1):
                continue
            holder = value_at(place[:-1], args, None)
            if type(holder) in (dict, list):
                holder[place[-1]] = copy.deepcopy(value)
                is_changed = True
        return is_changed

    def convert(self, args: Json, tool: str, mask: Mask) -> None:
        """Convert arguments that fit, in place, to the types that the function asks for. This is
        code of the tool."""
        violations: list[Violation] = []
        for name, converter in self._converters.items():
            if name not in args:
                continue
            try:
                args[name] = converter.to_python(args[name])
            except Exception as exc:  # noqa: BLE001 - runs foreign code (pydantic models, __init__ of a dataclass)
                for path, text in _complaints(exc):
                    message = (
                        f"argument '{dotted([name, *path])}':"
                        f" {values.cut(mask(text), _MAX_MESSAGE)}"
                    )
                    violations.append(
                        {"pointer": pointer([name, *path]), "message": message, "keyword": "type"}
                    )
        if violations:
            raise self._invalid(tool, violations)

    def _invalid(self, tool: str, violations: list[Violation]) -> InvalidArgs:
        unique = list({(v["pointer"], v["keyword"], v["message"]): v for v in violations}.values())
        unique.sort(key=lambda v: (v["pointer"] != "", v["keyword"] != "additionalProperties"))
        messages = [str(violation["message"]) for violation in unique]
        # An unknown argument that proposes the missing one says enough.
        proposals = (text.partition("did you mean '")[2].partition("'")[0] for text in messages)
        redundant = {f"missing argument '{name}'" for name in proposals}
        messages = [text for text in messages if text not in redundant]
        more = f" (and {len(messages) - 3} more)" if len(messages) > 3 else ""
        if tool not in self._usage:
            self._usage[tool] = f"Usage: {usage_text(tool, self._parameters)}"
        return InvalidArgs(
            f"'{tool}': {'; '.join(messages[:3])}{more}", hint=self._usage[tool], details=unique
        )


def compile_schema(parameters: Schema) -> Validator:
    """Compile a JSON Schema, offline. Raises InvalidTool if it is not valid. Give the compiled form
    plain JSON only."""
    import jsonschema_rs

    if branch_count(parameters) > MOST:
        raise InvalidTool(
            f"This JSON Schema cannot be checked: its references multiply to more than {MOST:,} for"
            " one value.",
            hint="Refer to each part once, not to the same part again and again.",
        )
    options = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS)
    try:
        return jsonschema_rs.validator_for(dict(parameters), pattern_options=options, offline=True)
    except (
        ValueError,
        TypeError,
        jsonschema_rs.ValidationError,
        jsonschema_rs.ReferencingError,
    ) as exc:
        raise InvalidTool(_schema_fault(exc)) from exc


def require_schema(parameters: Schema) -> None:
    """Raise InvalidTool if this is not a JSON Schema. Only what has references or patterns is
    compiled."""
    import jsonschema_rs
    import orjson

    schema = dict(parameters)
    try:
        text = orjson.dumps(schema)
    except TypeError:  # a number that JSON readers do not agree on, or half a character
        text = str(schema).encode("utf-8", "replace")
    if b"$ref" in text or b"pattern" in text:
        compile_schema(parameters)
        return
    try:
        jsonschema_rs.meta.validate(schema)
    except (
        ValueError,
        TypeError,
        jsonschema_rs.ValidationError,
        jsonschema_rs.ReferencingError,
    ) as exc:
        raise InvalidTool(_schema_fault(exc)) from exc


def branch_count(schema: Schema) -> int:
    """Return the largest number of schemas that one value is checked against; counting ends beyond
    `MOST`."""
    nodes = _nodes(schema)
    if sum("$ref" in node for node in nodes) < FEW_REFS:
        return 1
    named = {f"#{node['$anchor']}": node for node in nodes if isinstance(node.get("$anchor"), str)}
    named |= {node["$id"]: node for node in nodes if isinstance(node.get("$id"), str)}
    counts: dict[int, int] = {}

    def count(node: object) -> int:
        if not isinstance(node, Mapping):
            return 0
        if id(node) not in counts:
            # A schema that leads back to itself is not followed twice.
            counts[id(node)] = 1
            dependent, ref = node.get("dependentSchemas"), node.get("$ref")
            same_value = [node.get(key) for key in ("not", "if", "then", "else")]
            for parts in map(node.get, ("allOf", "anyOf", "oneOf")):
                same_value += parts if isinstance(parts, list) else ()
            same_value += dependent.values() if isinstance(dependent, Mapping) else ()
            if isinstance(ref, str):
                same_value.append(named.get(ref) or at_ref(ref, schema))
            total = 1
            for inner in same_value:
                total = min(MOST + 1, total + count(inner))
            counts[id(node)] = total
        return counts[id(node)]

    try:
        return max(map(count, nodes), default=1)
    except RecursionError:
        # Nobody writes a chain of references of that length.
        return MOST + 1


def _nodes(schema: Schema) -> list[Mapping[str, Any]]:
    """Return every object inside once, schema or not. A Python dict may hold itself."""
    waiting: list[Any] = [schema]
    nodes, seen = [], set[int]()
    for node in waiting:
        if id(node) not in seen:
            seen.add(id(node))
            is_list = isinstance(node, list)
            nodes += [] if is_list else [node]
            # The loop goes on with what is added here.
            waiting += [
                inner
                for inner in (node if is_list else node.values())
                if isinstance(inner, (dict, list))
            ]
    return nodes


def _brief_types(schema: object) -> frozenset[type]:
    """Return the types of values without inside whose type alone says that they fit a schema."""
    types: set[type] = set()
    if isinstance(schema, Mapping) and schema.keys() - _ANNOTATIONS <= {"type"}:
        named = schema.get("type", [*_BRIEF_TYPES])
        for name in (named,) if isinstance(named, str) else named:
            types |= _BRIEF_TYPES.get(name, set())
    elif isinstance(schema, Mapping) and schema.keys() - _ANNOTATIONS == {"anyOf"}:
        types = set().union(*map(_brief_types, schema["anyOf"]))
    return frozenset(types)


def relevant_errors(errors: Iterable[ValidationError]) -> Iterator[ValidationError]:
    """Yield each error; of a choice, the errors of the one option that the value can be meant
    for."""
    for error in errors:
        place: Place = list(error.instance_path)
        options: list[list[ValidationError]] = []
        if _keyword(error) in ("anyOf", "oneOf"):
            # A value is not meant for an option of another type or constant.
            context = error.kind.as_dict().get("context") or ()
            options = [
                option
                for option in context
                if not any(
                    _keyword(e) in ("type", "enum", "const") and e.instance_path == place
                    for e in option
                )
            ]
        if len(options) > 1:
            # Of several objects it is meant for the one whose key has the right word: {"kind":
            # "circle"} is not a box.
            options = [
                option
                for option in options
                if not any(
                    _keyword(e) in ("enum", "const") and e.instance_path[:-1] == place
                    for e in option
                )
            ]
        if len(options) == 1:
            yield from relevant_errors(options[0])
        else:
            yield error


def describe_error(error: ValidationError, value: object, parameters: Schema, mask: Mask) -> str:
    """Say what is wrong at the place of one error in a value, without saying where that is."""
    keyword, path = _keyword(error), list(error.instance_path)
    unknown = _unknown_names(error, keyword, path, value, parameters)
    node = schema_at(path, parameters) if keyword in ("anyOf", "oneOf") else {}
    words = _words(error, value_at(path, value, error.instance), unknown, node, parameters, mask)
    return values.cut(words, _MAX_MESSAGE)


def dotted(path: Place) -> str:
    """Write a path into the arguments as people do: `a.b[0]`."""
    return "".join(
        f"[{p}]" if isinstance(p, int) else ("." if i else "") + str(p) for i, p in enumerate(path)
    )


def pointer(path: Iterable[object]) -> str:
    """Write a path into a value as a JSON pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def value_at(path: Place, value: Any, otherwise: Any) -> Any:
    """Return what stands at a place in the arguments."""
    try:
        for part in path:
            value = value[part]
    except (LookupError, TypeError):
        return otherwise
    return value


def schema_at(path: Place, root: Schema) -> Json:
    """Return the schema of the place in the arguments where a path leads."""
    node = resolve(root, root)
    for part in path:
        if isinstance(part, int):
            node = resolve(node.get("items"), root)
        else:
            properties, rest = node.get("properties"), node.get("additionalProperties")
            node = resolve(
                properties.get(part, rest) if isinstance(properties, Mapping) else rest, root
            )
    return node


def accepts(converter: Converter, value: object) -> bool:
    """Whether the value already is what the function asks for; False where the question itself
    fails."""
    try:
        return converter.accepts(value)
    except Exception:  # noqa: BLE001 - runs foreign code
        return False


def _schema_fault(error: Exception) -> str:
    """Say what is wrong with a schema that the library refused to compile."""
    path: Place = list(getattr(error, "instance_path", None) or ())
    keyword, instance = _keyword(error), getattr(error, "instance", None)
    where = f" at '{pointer(path)}'" if path else ""
    if keyword == "$ref":
        reason = "it refers to something that is not inside it."
    elif not keyword:
        reason = "it cannot be read."
    elif path and path[-1] == "type" and keyword in ("anyOf", "enum"):
        reason = f"{_quoted(instance, str)} is not a type. There are: {', '.join(TYPES)}."
    elif keyword == "format" and path and path[-1] in ("pattern", "patternProperties"):
        reason = f"{_quoted(instance, str)} is not a regular expression."
    else:
        reason = values.cut(_words(error, instance, [], {}, {}, str), _MAX_MESSAGE)
    return f"Not a JSON Schema{where}: {reason}"


def _unknown_names(
    error: ValidationError, keyword: str, path: Place, args: object, parameters: Schema
) -> list[str]:
    """Return the keys that may not be there. Where no key may, the library names the value of one
    alone."""
    if keyword in ("additionalProperties", "unevaluatedProperties"):
        return [str(name) for name in error.kind.as_dict().get("unexpected") or ()]
    if keyword != "falseSchema" or list(error.schema_path)[-1:] != ["additionalProperties"]:
        return []
    holder, properties = value_at(path, args, None), schema_at(path, parameters).get("properties")
    schemas = properties if isinstance(properties, Mapping) else {}
    return (
        [str(name) for name in holder if name not in schemas] if isinstance(holder, Mapping) else []
    )


def _words(
    error: Any, value: object, unknown: list[str], node: Schema, parameters: Schema, mask: Mask
) -> str:
    """Say what is wrong with one value; of a choice, `node` is the schema."""
    import jsonschema_rs

    keyword, about, text = _keyword(error), error.kind.as_dict(), _quoted(value, mask)
    if unknown:
        return "unknown key " + ", ".join(
            f"'{values.cut(mask(name), MAX_VALUE)}'" for name in unknown
        )
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.OneOfMultipleValid):
        return f"{text} fits several of the choices, and may fit only one"
    if keyword in ("anyOf", "oneOf"):
        expected = type_text(node, parameters)
        return (
            f"{text} is not {expected}" if expected != "Any" else f"{text} fits none of the choices"
        )
    if keyword == "propertyNames":
        return f"the name {_words(about['error'], about['error'].instance, [], {}, {}, mask)}"
    if keyword == "contains":
        amount = {"minContains": "too few items", "maxContains": "too many items"}
        return (
            f"{amount.get(str(list(error.schema_path)[-1]), 'no items')} of {text} are what is"
            " asked for"
        )
    if keyword == "falseSchema":
        return "no value is allowed here"
    if keyword == "required":
        return f"'{about['property']}' {MISSING}"
    words = f"{text} {predicate(keyword, about)}"
    if keyword == "type" and isinstance(value, str):
        # A text that would be such a number: say what to change in it.
        number, kinds = value.removesuffix(","), _expected_types(error)
        is_fit = _NUMBER.fullmatch(number) and (
            "number" in kinds or ("integer" in kinds and float(number).is_integer())
        )
        if is_fit and number == value:
            words += f": it is text, so write {value} without quotes"
        elif is_fit:
            words += f": write {number} without the comma"
        elif list(kinds) == ["array"] and _PLAIN_WORDS.fullmatch(value) and mask(value) == value:
            parts = value.replace(" ", "").split(",")
            are_numbers = all(map(_NUMBER.fullmatch, parts))
            listed = ", ".join(parts if are_numbers else [f'"{part}"' for part in parts])
            words += f": write [{listed}]"
    return words


def _quoted(value: object, mask: Mask) -> str:
    return values.cut(mask(values.safe_repr(value, _MAX_REPR)), MAX_VALUE)


def _keyword(error: object) -> str:
    return str(getattr(getattr(error, "kind", None), "name", "") or "")


def _parse_nested(error: ValidationError, text: object) -> Any:
    """Return the list or object that text stands for as JSON, where one is expected and the text is
    refused."""
    if type(text) is not str or text.lstrip()[:1] not in ("[", "{"):
        return NO_DEFAULT
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return NO_DEFAULT
    copier = values.plain_copy({"": value})[3]
    is_checkable = values.is_json(value) and not (copier is not None and copier.is_too_deep)
    return value if _NESTED[type(value)] in _expected_types(error) and is_checkable else NO_DEFAULT


def _expected_types(error: ValidationError) -> frozenset[str]:
    """Return the JSON types that were expected where another was found; of a choice, those of all
    options."""
    about = error.kind.as_dict()
    if _keyword(error) == "type":
        return frozenset(about["types"])
    if _keyword(error) not in ("anyOf", "oneOf"):
        return frozenset()
    inner = [one for option in about.get("context") or () for one in option]
    return frozenset().union(
        *(_expected_types(one) for one in inner if one.instance_path == error.instance_path)
    )


def _complaints(exc: Exception) -> list[tuple[Place, str]]:
    """Return where inside an argument a conversion failed, and why in our words; pydantic lists
    every place."""
    errors = getattr(exc, "errors", None)
    complaints: list[tuple[Place, str]] = []
    for item in errors()[:20] if callable(errors) else ():
        message = (
            str(item.get("msg", ""))
            .removeprefix("Value error, ")
            .removeprefix("Assertion failed, ")
        )
        if item.get("type") == "missing":
            message = "is missing"
        elif message.startswith("Input should "):
            message = (
                f"{values.safe_repr(item.get('input'), MAX_VALUE)} {message.removeprefix('Input ')}"
            )
        complaints.append((list(item.get("loc", ())), message))
    if complaints:
        return complaints
    return [([], words_of(exc).splitlines()[0])]
