"""Check the arguments of a call against the tool's schema, and make them what its function asks for.

Owns the compiled check (jsonschema-rs: offline, no pattern can hang). Every violation is listed with its JSON pointer.
jsonschema-rs walks Python objects natively and would follow a cycle or a very deep value into a crash; so it is only
ever given what `values.plain_copy` found to be plain, or the JSON form of the rest, which is at most 200 levels deep.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from onetool_ipy.core import schema, values
from onetool_ipy.core.errors import InvalidArgs, InvalidTool
from onetool_ipy.core.extent import MOST, extent

__all__ = ["Checker", "Converter", "Mask", "compile_schema", "pointer"]

Mask = Callable[[str], str]

_MAX_SHOWN = 120
_BACKTRACKS = 10_000
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
        ready, plain = values.plain_copy(args)
        try:
            good = plain and self._valid(ready)
        except ValueError:  # a value that JSON cannot hold
            good = False
        if not good:
            self._judge(ready, tool, mask)
        for name in self._ints:
            if type(ready.get(name)) is float:
                ready[name] = int(ready[name])
        if self._convert:
            self._convert_all(ready, tool, mask)
        return ready

    def _judge(self, args: Mapping[Any, Any], tool: str, mask: Mask) -> None:
        """Look again, at the JSON form: say all that is wrong, or find that only the form was odd."""
        converters = dict(self._convert)
        views: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        fine: set[Any] = set()
        found: list[dict[str, Any]] = []
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
        for view in views if views[0] != views[1] else views[:1]:
            for error in self._validator.iter_errors(view):
                path = list(error.instance_path)
                if not path or path[0] not in fine:
                    for inner in _meant(error):
                        found.extend(_violations(inner, args, self._parameters, mask))
        if found:
            raise _invalid(tool, found, self._parameters)

    def _convert_all(self, args: dict[str, Any], tool: str, mask: Mask) -> None:
        found = []
        for name, converter in self._convert:
            if name not in args:
                continue
            try:
                args[name] = converter.to_python(args[name])
            except Exception as exc:  # noqa: BLE001 - runs foreign code (pydantic models, __init__ of a dataclass)
                for path, text in _complaints(exc):
                    message = f"argument '{_subject([name, *path])}': {values.cut(mask(text), _MAX_SHOWN)}"
                    found.append({"pointer": pointer([name, *path]), "message": message, "keyword": "type"})
        if found:
            raise _invalid(tool, found, self._parameters)


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
        path = getattr(exc, "instance_path", None)
        where = f" at '{pointer(path)}'" if path else ""
        text = str(exc).strip() or type(exc).__name__
        raise InvalidTool(f"Not a JSON Schema{where}: {values.cut(text.splitlines()[0], _MAX_SHOWN)}") from exc


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


def _meant(error: Any) -> Iterator[Any]:
    """The error itself; of a choice, the errors of the one option that has the value's type, or the word that tells."""
    if error.kind.name in ("anyOf", "oneOf"):
        place = list(error.instance_path)
        options = error.kind.as_dict().get("context") or []
        meant = [option for option in options if not any(_is_misfit(inner, place) for inner in option)]
        if len(meant) > 1:
            meant = [option for option in meant if not any(_is_other_kind(inner, place) for inner in option)]
        if len(meant) == 1 and meant[0]:
            for inner in meant[0]:
                yield from _meant(inner)
            return
    yield error


def _is_misfit(error: Any, place: list[Any]) -> bool:
    return error.kind.name in ("type", "enum", "const") and list(error.instance_path) == place


def _is_other_kind(error: Any, place: list[Any]) -> bool:
    """Whether an option wants another word at a key of the value, as `{"kind": "circle"}` for a box."""
    return error.kind.name in ("const", "enum") and list(error.instance_path)[:-1] == place


def _violations(error: Any, args: Mapping[Any, Any], parameters: Mapping[str, Any], mask: Mask) -> list[dict[str, Any]]:
    kind, path = error.kind.name, list(error.instance_path)
    if kind == "required" and not path:
        texts = [f"missing argument '{error.kind.as_dict().get('property')}'"]
    elif kind == "additionalProperties" and not path:
        texts = [_unknown(name, parameters, mask) for name in error.kind.as_dict()["unexpected"]]
    else:
        said = values.cut(mask(_said(error, path, args, parameters)), _MAX_SHOWN)
        texts = [f"argument '{_subject(path)}': {said}" if path else said]
    return [{"pointer": pointer(path), "message": text, "keyword": kind} for text in texts]


def _said(error: Any, path: list[Any], args: Mapping[Any, Any], parameters: Mapping[str, Any]) -> str:
    """What is wrong with a value, in words; for a choice of types, the type in Python's words."""
    given = _given(path, args, error.instance)
    if error.kind.name in ("anyOf", "oneOf"):
        wanted = schema.type_text(_at(path, parameters), parameters)
        if wanted != "Any":
            return f"{values.safe_repr(given)} is not {wanted}"
    if isinstance(given, float) and not math.isfinite(given):
        return str(error.message).replace(str(values.ANY_NUMBER), repr(given), 1)
    if not values.is_json(given):
        kinds = error.kind.as_dict().get("types") if error.kind.name == "type" else None
        wanted = f"of type {' or '.join(kinds)}" if kinds else "what is asked for"
        return f"{values.safe_repr(given)} is not {wanted}"
    return str(error.message)


def _given(path: list[Any], args: Any, judged: Any) -> Any:
    """What stood at a place in the arguments, where that was not judged as it is."""
    try:
        for part in path:
            args = args[part]
    except (LookupError, TypeError):
        return judged
    return args


def _at(path: list[Any], root: Mapping[str, Any]) -> dict[str, Any]:
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


def _unknown(name: str, parameters: Mapping[str, Any], mask: Mask) -> str:
    from onetool_ipy.core import match

    near = match.suggest(name, [p.name for p in schema.params(parameters)], limit=1)
    shown = values.cut(mask(name), _MAX_SHOWN)
    return f"unknown argument '{shown}'" + (f", did you mean '{near[0]}'?" if near else "")


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
        found = [(list(item.get("loc", ())), str(item.get("msg", ""))) for item in listed()[:20]]
        if found:
            return found
    try:
        text = str(exc).strip()
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        text = ""
    return [([], text.splitlines()[0] if text else type(exc).__name__)]


def _subject(path: list[Any]) -> str:
    return "".join(f"[{p}]" if isinstance(p, int) else ("." if i else "") + str(p) for i, p in enumerate(path))


def pointer(path: Any) -> str:
    """A path into a value as a JSON pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
