"""Check the arguments of a call against the tool's schema, and make them what its function asks for.

Owns the compiled check (jsonschema-rs: offline, no pattern can hang). Every violation is listed with its JSON pointer.
jsonschema-rs walks Python objects natively and would follow a cycle or a very deep value into a crash; so it is only
ever given what `values.plain_copy` found to be plain, or the JSON form of the rest, which is at most 200 levels deep.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from onetool_ipy.core import schema, values, violations
from onetool_ipy.core.errors import InvalidArgs, InvalidTool
from onetool_ipy.core.extent import MOST, extent
from onetool_ipy.core.schema import NO_DEFAULT as _NOTHING
from onetool_ipy.core.violations import Mask, Violation, pointer, subject

__all__ = ["Checker", "Converter", "Mask", "compile_schema", "pointer"]

_MAX_SHOWN = 120
_MAX_VALUE = 60
_MAX_ROUNDS = 8
_BACKTRACKS = 10_000
_NESTED: dict[type, str] = {list: "array", dict: "object"}
_WORDS = frozenset(("description", "title", "default", "examples", "deprecated", "$comment", "readOnly", "writeOnly"))
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

    __slots__ = ("_convert", "_free", "_ints", "_parameters", "_valid", "_validator")

    def __init__(self, parameters: Mapping[str, Any], converters: Mapping[str, Converter] | None = None) -> None:
        self._parameters = parameters
        self._validator = compile_schema(parameters)
        self._valid: Callable[[Any], bool] = self._validator.is_valid
        self._convert = tuple((converters or {}).items())
        self._ints = tuple(p.name for p in schema.params(parameters) if p.schema.get("type") == "integer")
        self._free = _free_names(parameters)

    def check(self, args: Mapping[str, Any], tool: str, mask: Mask = str) -> dict[str, Any]:
        """Give the arguments ready for the tool, or raise InvalidArgs with every violation; its words are masked."""
        ready = self.complete(args, tool, mask)
        for name in self._ints:
            if type(ready.get(name)) is float:
                ready[name] = int(ready[name])
        if self._convert:
            self._convert_all(ready, tool, mask)
        return ready

    def complete(self, args: Mapping[str, Any], tool: str, mask: Mask = str) -> dict[str, Any]:
        """Give a copy of the arguments that fits the schema, as JSON, or raise InvalidArgs.

        A required argument that is missing gets its default. Text stands for the JSON in it where a list or an object
        is wanted, and text is not.
        """
        ready, plain = values.plain_copy(args)
        if not self._fits(ready, plain):
            found = self._judge(ready, mask, lambda errors: self._mend(errors, ready, plain))
            if found:
                raise _invalid(tool, found, self._parameters)
        return ready

    def violations(self, data: Mapping[str, Any], mask: Mask = str, noun: str = "field") -> list[Violation]:
        """What is wrong with a value as it stands; nothing is filled in or read otherwise."""
        ready, plain = values.plain_copy(data)
        return [] if self._fits(ready, plain) else self._judge(ready, mask, lambda _errors: False, noun)

    def _fits(self, ready: dict[str, Any], plain: bool) -> bool:
        try:
            return plain and self._valid(ready)
        except ValueError:  # a value that JSON cannot hold
            return False

    def _judge(
        self, args: Mapping[Any, Any], mask: Mask, mend: Callable[[list[Any]], bool], noun: str = "argument"
    ) -> list[Violation]:
        """Look again, at the JSON form: find all that is wrong and cannot be mended, or that only the form was odd."""
        for last in (*(False,) * _MAX_ROUNDS, True):
            views, fine, found = self._views(args, mask)
            errors = [error for view in views for error in self._validator.iter_errors(view)]
            errors = [error for error in errors if not (path := list(error.instance_path)) or path[0] not in fine]
            if last or not mend(errors):
                break
        found.extend(violations.found_in(errors, args, self._parameters, mask, noun))
        return found

    def _views(self, args: Mapping[Any, Any], mask: Mask) -> tuple[list[dict[str, Any]], set[Any], list[Violation]]:
        """The JSON forms to judge, the names that need no judging, and what is wrong with the names themselves."""
        converters = dict(self._convert)
        views: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        fine: set[Any] = set()
        found: list[Violation] = []
        for name, value in args.items():
            if not isinstance(name, str):
                shown = values.cut(mask(values.safe_repr(name)), _MAX_SHOWN)
                found.append({"pointer": "", "message": f"argument names are text, not {shown}", "keyword": "type"})
                continue
            forms: tuple[Any, ...] = (None,)
            if name in self._free or (name in converters and _accepts(converters[name], value)):
                fine.add(name)
            else:
                forms = values.forms_to_judge(value)
            shown = values.to_json(name)
            views[0][shown], views[1][shown] = forms[0], forms[-1]
        return list(views if views[0] != views[1] else views[:1]), fine, found

    def _mend(self, errors: list[Any], args: dict[str, Any], plain: bool) -> bool:
        """Put right what can be, in `args`; whether anything was."""
        is_mended = False
        for error in violations.meant(errors):
            path = list(error.instance_path)
            if error.kind.name == "required":
                name = error.kind.as_dict()["property"]
                node = violations.schema_at(path, self._parameters)
                place, value = [*path, name], schema.default_of(node, name, self._parameters)
            else:
                place, value = path, _meant_by_text(error, args)
            if value is not _NOTHING and (plain or len(place) == 1):
                is_mended = _put(args, place, value) or is_mended
        return is_mended

    def _convert_all(self, args: dict[str, Any], tool: str, mask: Mask) -> None:
        found = []
        for name, converter in self._convert:
            if name not in args:
                continue
            try:
                args[name] = converter.to_python(args[name])
            except Exception as exc:  # noqa: BLE001 - runs foreign code (pydantic models, __init__ of a dataclass)
                for path, text in _complaints(exc):
                    message = f"argument '{subject([name, *path])}': {values.cut(mask(text), _MAX_SHOWN)}"
                    found.append({"pointer": pointer([name, *path]), "message": message, "keyword": "type"})
        if found:
            raise _invalid(tool, found, self._parameters)


def _meant_by_text(error: Any, args: Mapping[str, Any]) -> Any:
    """The list or object that text stands for as JSON, where one of these is wanted and the text is refused."""
    path = list(error.instance_path)
    text = violations.given_at(path, args, None)
    wanted = violations.wanted_kinds(error)
    if type(text) is not str or not path or text.lstrip()[:1] not in ("[", "{") or wanted.isdisjoint(_NESTED.values()):
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
    """The compiled form of a JSON Schema, offline; InvalidTool for what is none. It is to be given plain JSON only."""
    import jsonschema_rs

    if extent(parameters) > MOST:
        raise InvalidTool(
            f"A JSON Schema that cannot be judged: its references multiply to more than {MOST:,} for one value.",
            hint="Refer to each part once, not to the same part again and again.",
        )
    options = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS)
    try:
        return jsonschema_rs.validator_for(dict(parameters), pattern_options=options, offline=True)
    except (ValueError, TypeError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as exc:
        raise InvalidTool(violations.schema_fault(exc)) from exc


def _free_names(parameters: Mapping[str, Any]) -> frozenset[str]:
    """The arguments that may be anything: they are not looked at, however large they are."""
    listed = parameters.get("properties")
    if not isinstance(listed, Mapping) or not parameters.keys() <= _PLAIN_ROOT | _WORDS:
        return frozenset()
    free = (name for name, sub in listed.items() if sub is True or (isinstance(sub, Mapping) and sub.keys() <= _WORDS))
    return frozenset(free)


def _accepts(converter: Converter, value: Any) -> bool:
    try:
        return converter.accepts(value)
    except Exception:  # noqa: BLE001 - runs foreign code; what fails is judged by its JSON form
        return False


def _invalid(tool: str, found: list[dict[str, Any]], parameters: Mapping[str, Any]) -> InvalidArgs:
    found = list({(f["pointer"], f["keyword"], f["message"]): f for f in found}.values())
    found.sort(key=lambda f: (f["pointer"] != "", f["keyword"] != "additionalProperties"))
    shown = "; ".join(str(f["message"]) for f in found[:3])
    more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
    usage = f"Usage: {schema.signature_text(tool, parameters)}"
    return InvalidArgs(f"'{tool}': {shown}{more}", hint=usage, details=found)


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
    """What pydantic says of a value, with the value and without its manner of speaking."""
    said, shown = str(item.get("msg", "")), values.safe_repr(item.get("input"), _MAX_VALUE)
    if item.get("type") == "missing":
        return "is missing"
    if said.startswith("Input should "):
        return f"{shown} {said.removeprefix('Input ')}"
    return said.removeprefix("Value error, ").removeprefix("Assertion failed, ")
